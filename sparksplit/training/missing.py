"""Nodes whose executors have not come back: the run goes on without them, and with all once they are there again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparksplit.base.errors import InputError, Passing, RunError, SparksplitError
from sparksplit.spark.jvm import limited
from sparksplit.training import checkpoints
from sparksplit.training.config import TrainConfig

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOK_SECONDS = 5.0
"""How often executors are counted while some are missing."""


class AllBack(SparksplitError):
    """Executors for all nodes are there again, and so is a checkpoint that the present nodes have written.

    reached: its number.
    """

    def __init__(self, nodes: int, reached: int) -> None:
        super().__init__(f"there are executors for all {nodes} nodes again")
        self.reached = reached


@dataclass
class Missing:
    """folder: the run's. spare: executors needed beyond the nodes'. whole_rounds: whether a round must be ended by as
    many nodes as have begun it."""

    config: TrainConfig
    sc: SparkContext
    folder: str
    spare: int
    whole_rounds: bool
    present: int = field(init=False)
    """How many nodes the present attempt has."""
    _went_from: str | None = field(default=None, init=False)
    _looked: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.present = self.config.processes

    def await_nodes(self) -> int:
        """Wait for the executors of all nodes; returns how many nodes there are to be, if need be fewer."""
        from sparksplit.cluster import requirements

        config = self.config
        least = config.processes if config.min_nodes is None else config.min_nodes
        self.present = config.processes
        if least < config.processes:
            self.present = requirements.await_some(self.sc, config.processes, least, config.limits.patience, self.spare)
        return self.present

    def goes_from(self, checkpoint: str | None) -> None:
        """Note the checkpoint that the present attempt goes on from; raises RunError where only others are there."""
        self._went_from = checkpoint
        if self.whole_rounds and checkpoint is None and (latest := checkpoints.latest(self.folder)) is not None:
            raise RunError(f"{latest}: lies within a round, which only the number of nodes that began it can finish")

    def look(self) -> None:
        """Raise AllBack if the run can go on with all its nodes again."""
        if self.present == self.config.processes or time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        from sparksplit.spark.executors import executors_of

        try:
            with limited(self.sc._gateway):
                there = executors_of(self.sc)
        except RunError:  # the JVM stands still: the nodes do not need it
            return
        if there < self.config.processes + self.spare:
            return
        try:
            latest = checkpoints.latest(self.folder)
            if latest is None or checkpoints.number_of(latest) <= checkpoints.number_of(self._went_from):
                return
            if self.whole_rounds and not checkpoints.fits(latest, self.config.processes):
                return
        except (InputError, Passing):  # just pruned, or damaged: there will be another; or its file system is away
            return
        raise AllBack(self.config.processes, checkpoints.number_of(latest))
