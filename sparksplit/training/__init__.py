"""Training one model on the nodes of a cluster.

Read first `run` (what the driver does), then `node.main` and `node.worker` (what a node does).
"""
