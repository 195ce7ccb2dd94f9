"""The nodes of a run: started by TensorFlowOnSpark, watched through their heartbeats, and ended in any case.

Read first `cluster.py` (the driver's side), then `member.py` (the node's side). `faults.py` decides which node is to
blame. `deadlines.py` decides how long a run waits.
"""

from sparksplit.cluster.cluster import NodeCluster
from sparksplit.cluster.member import Member

__all__ = ["Member", "NodeCluster"]
