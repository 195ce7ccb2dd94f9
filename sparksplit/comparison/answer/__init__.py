"""The answer of a comparison: decided from the differences as data, then written in words."""
