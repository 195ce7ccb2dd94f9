"""The hand-off: rows of a Spark DataFrame reach the nodes that own their lanes, each once.

Read first `job.py` (the driver's side), then `sender.py` (in Spark's tasks), `receiver.py` and `spool.py` (on a node).
Feeding waits only for room on a node's disk, and training waits for the end of feeding, so the two never wait for each
other.
"""
