"""The ways: named pairs of a split and a sync. A new way is one small class or one new pair, and an entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from training.splits import BatchSplit, EpochSplit, LaneSplit, Split
from training.syncs import LocalSync, RoundSync, StepSync, Sync
from training.transport import Transport

if TYPE_CHECKING:
    from training.config import SyncConfig


@dataclass(frozen=True)
class Way:
    """split: which rows a node trains on. sync: what is exchanged and when. alone: only ever on one node.

    any_nodes: the result does not depend on the number of nodes. scaled_rate: the learning rate grows with the nodes.
    """

    split: Split
    sync: Callable[[Transport, SyncConfig], Sync]
    alone: bool = False
    any_nodes: bool = False
    scaled_rate: bool = False


WAYS = {
    "single": Way(BatchSplit(), StepSync, alone=True, any_nodes=True),
    "batch": Way(BatchSplit(), StepSync, any_nodes=True),
    "epoch": Way(EpochSplit(), StepSync, scaled_rate=True),
    "epoch-delayed": Way(EpochSplit(), RoundSync),
    "local": Way(LaneSplit(), LocalSync),
}
