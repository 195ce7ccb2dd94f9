"""What a run does about failures: restarts, fewer nodes, and going on where a command stopped."""
