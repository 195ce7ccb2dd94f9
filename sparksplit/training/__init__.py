"""Training one model on the nodes of a cluster.

Read first `run` (the driver's work), then `node.main` and `node.worker` (a node's work).
"""
