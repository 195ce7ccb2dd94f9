"""A node's work in a training run, in its own process.

Read first `main` (from its start to its result), then `worker` (its training).
"""
