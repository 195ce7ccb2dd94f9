"""The hand-off: each row of a Spark DataFrame reaches the nodes that own its lane, once.

Read first `job.py` (the driver's side), then `sender.py` (in Spark's tasks), `receiver.py` and `spool.py` (on a node).
Feeding waits only for a node's disk. Training waits for the end of feeding. So the two never wait for each other.
"""
