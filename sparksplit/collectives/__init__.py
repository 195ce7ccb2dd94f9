"""Summing arrays over the nodes: one small interface, and the parts behind it.

`ring` is the default between CPU nodes; `tensorflow` is MultiWorkerMirroredStrategy's, for NCCL on
GPUs. A single node needs neither.
"""

from sparksplit.collectives.base import Alone, Collective, PeerTimeout

__all__ = ["Alone", "Collective", "PeerTimeout"]
