"""Training one model on the nodes of a cluster.

Read first `run` (what the driver does), then `worker` (what a node does).
"""
