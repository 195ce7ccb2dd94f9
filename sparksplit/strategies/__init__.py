"""Strategies: named pairs of a split and a sync.

A new strategy is an entry in `STRATEGIES`: one new small class, or a new pair. Your own strategy needs no entry:
`strategy: path/to/file.py:function` names a function that returns a `Strategy`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparksplit.base.user_functions import FunctionError, is_own, load
from sparksplit.strategies.splits import BatchSplit, EpochSplit, LaneSplit, Split
from sparksplit.strategies.syncs import LocalSync, RoundSync, StepSync, Sync


@dataclass(frozen=True)
class Strategy:
    """A split and a sync under one name.

    split: which rows a node trains on.
    sync: what the nodes exchange and when. It is made as sync(collective, SyncConfig).
    alone: whether the strategy runs on one node only.
    any_nodes: whether the result is the same for any number of nodes.
    scaled_rate: whether the learning rate is multiplied by the number of nodes, after a warm-up.
    settings: whether the strategy uses the configuration's `sync`.
    chooses: whether a run measures, before its first update, how many of its nodes it trains on.
    told: a description for the user, or empty.
    """

    split: Split
    sync: type[Sync]
    alone: bool = False
    any_nodes: bool = False
    scaled_rate: bool = False
    settings: bool = False
    chooses: bool = False
    told: str = ""

    def __post_init__(self) -> None:
        if self.split.dealt_apart and self.sync.every_step:
            raise ValueError(
                "with split.dealt_apart, sync.every_step must be False: the nodes have different mini-batches, and "
                "different numbers of them"
            )
        if self.split.shared and not self.sync.every_step:
            raise ValueError(
                "with split.shared, sync.every_step must be True: each node has only a part of the gradients and the "
                "loss of a mini-batch"
            )
        if self.chooses and not self.any_nodes:
            raise ValueError("it chooses the number of nodes, so its result must be the same for any_nodes")


STRATEGIES = {
    "single": Strategy(
        BatchSplit(),
        StepSync,
        alone=True,
        any_nodes=True,
        told="one node trains on all rows and exchanges nothing. The other strategies are compared with `single`",
    ),
    "batch": Strategy(
        BatchSplit(),
        StepSync,
        any_nodes=True,
        told="the nodes share the rows of every mini-batch, and sum their gradients at every step. The model learns "
        "the same on any number of nodes",
    ),
    "epoch": Strategy(
        EpochSplit(),
        StepSync,
        scaled_rate=True,
        told="each of N nodes runs every N-th epoch over all rows. Gradients are averaged at every step, and the "
        "learning rate is multiplied by N (Horovod's recipe for Keras)",
    ),
    "epoch-delayed": Strategy(
        EpochSplit(),
        RoundSync,
        told="like `epoch`, but each node applies its own gradients, with the given learning rate. Weights are "
        "averaged at the end of each epoch",
    ),
    "local": Strategy(
        LaneSplit(),
        LocalSync,
        settings=True,
        told="each node trains on its own part of the rows. Weights are averaged every H steps (`sync.every`) and at "
        "the end of each epoch. An outer optimiser (`sync.outer`: none, momentum or nesterov) applies the change",
    ),
    "auto": Strategy(
        BatchSplit(),
        StepSync,
        any_nodes=True,
        chooses=True,
        told="the run measures a step before its first update. It then trains as `single`, or as `batch` on as many of "
        "its nodes as pay",
    ),
}
COMPARED = {name: strategy for name, strategy in STRATEGIES.items() if not strategy.chooses}
"""The strategies that can be compared with each other."""


def find(name: str, source: str | None = None) -> Strategy:
    """Return the strategy called `name`.

    source: for a user's own strategy, the result of sparksplit.base.user_functions.source_of.
    Raise FunctionError if the user's function cannot be loaded, fails, or returns no Strategy.
    """
    if not is_own(name):
        return STRATEGIES[name]
    make = load(name, source)
    try:
        strategy = make()
    except Exception as error:
        raise FunctionError(f"{name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(strategy, Strategy):
        raise FunctionError(f"{name} returned {type(strategy).__name__}, not a sparksplit.strategies.Strategy")
    return strategy
