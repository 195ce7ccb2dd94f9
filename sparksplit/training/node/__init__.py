"""What a node of a training run does, in its own process.

Read first `main` (from its start to its result), then `worker` (its training).
"""
