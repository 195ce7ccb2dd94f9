"""What the nodes of a diagnosis do."""
