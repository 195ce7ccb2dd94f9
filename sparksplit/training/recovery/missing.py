"""Nodes without an executor: the run goes on without these nodes, and with all nodes once their executors are back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparksplit.base.errors import InputError, Passing, RunError, SparksplitError
from sparksplit.spark.jvm import limited
from sparksplit.training import checkpoints
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOK_SECONDS = 5.0
"""Seconds between two counts of the executors while some are missing."""


class AllBack(SparksplitError):
    """All nodes have executors again, and the present nodes have written a checkpoint.

    reached: the checkpoint's number.
    """

    def __init__(self, nodes: int, reached: int) -> None:
        super().__init__(f"there are executors for all {nodes} nodes again")
        self.reached = reached


@dataclass
class Missing:
    """Looks after nodes whose executors are missing.

    folder: the run's folder.
    spare: executors that are needed in addition to the nodes' executors.
    whole_rounds: whether only the number of nodes that began a round can finish it.
    check: called while the run waits for executors.
    """

    config: TrainConfig
    sc: SparkContext
    folder: str
    spare: int
    whole_rounds: bool
    check: Callable[[], None] = lambda: None
    present: int = field(init=False)
    """Number of nodes in the present attempt."""
    _went_from: str | None = field(default=None, init=False)
    _looked: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.present = self.config.processes

    @property
    def _least(self) -> int:
        """Smallest number of nodes that the run may use."""
        return self.config.processes if self.config.min_nodes is None else self.config.min_nodes

    def await_nodes(self) -> int:
        """Wait for the executors of all nodes. Return how many nodes have one after `start_timeout`."""
        from sparksplit.cluster import requirements

        config, least = self.config, self._least
        self.present = config.processes
        if least < config.processes:
            self.present = requirements.await_some(
                self.sc, config.processes, least, config.limits.patience, self.spare, self.check
            )
        return self.present

    def goes_from(self, checkpoint: str | None) -> None:
        """Note the checkpoint that the present attempt goes on from.

        Within a round, the number of nodes that began the round goes on, even if more nodes have executors. Raise
        RunError if too few nodes have executors.
        """
        self._went_from = checkpoint
        if checkpoint is None or not self.whole_rounds or checkpoints.fits(checkpoint, self.present):
            return
        began = checkpoints.progress_of(checkpoint).nodes
        if self._least <= began <= self.present:
            self.present = began
        elif self.present < self.config.processes:
            raise RunError(
                f"{checkpoint}: lies within a round that {began} nodes began, and only {began} nodes can finish it "
                f"({self.present} nodes have executors, min_nodes is {self._least})"
            )
        # Otherwise no executor is missing. The nodes refuse the configuration's number of nodes.

    def look(self) -> None:
        """Raise AllBack if the run can go on with all its nodes again."""
        if self.present == self.config.processes or time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        from sparksplit.spark.executors import executors_of

        try:
            with limited(self.sc._gateway):
                there = executors_of(self.sc)
        except RunError:  # the JVM stands still, but the nodes do not need it
            return
        if there < self.config.processes + self.spare:
            return
        try:
            latest = checkpoints.latest(self.folder)
            if latest is None or checkpoints.number_of(latest) <= checkpoints.number_of(self._went_from):
                return
            if self.whole_rounds and not checkpoints.fits(latest, self.config.processes):
                return
        except (InputError, Passing):  # pruned, damaged, or its file system is away; there will be another
            return
        raise AllBack(self.config.processes, checkpoints.number_of(latest))
