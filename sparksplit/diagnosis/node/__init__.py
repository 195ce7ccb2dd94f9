"""The nodes' part of a diagnosis."""
