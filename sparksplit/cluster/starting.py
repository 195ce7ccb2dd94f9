"""Nodes whose tasks Spark has, but that have not registered yet: find out what keeps them from it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sparksplit.base.errors import NodeFailed, NotStarted
from sparksplit.cluster.channel.limits import BEAT
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.pulse import MOST, Pulse
from sparksplit.cluster.stuck import replace

if TYPE_CHECKING:
    from pyspark import SparkContext

    from sparksplit.cluster.beside_driver import Launchers
    from sparksplit.cluster.tensorflowonspark import Job


class Starting:
    """Watches the tasks of `job`, whose nodes register with `channel`."""

    def __init__(self, sc: SparkContext, job: Job | Launchers, channel: Channel) -> None:
        self._sc, self._job, self._channel = sc, job, channel
        self._pulse = Pulse(sc)
        self._asked = time.monotonic()
        self._lost = False
        """Whether at the last look an executor had been lost with its task, and no other executor had taken the task.
        """

    def look(self) -> None:
        """Raise NodeFailed if an executor that is to start a node stands still, or was lost without a replacement. Call
        this often.

        Spark is asked to replace an executor that stands still.
        """
        now = time.monotonic()
        if now - self._asked < BEAT:
            return
        self._asked = now
        missing = self._missing()
        if len(missing) > MOST:  # too early: most nodes have had no time to register
            return
        held = self._job.holders()
        ranks = {executor: rank for rank, executor in held.items() if rank in missing}
        if silent := self._pulse.silent(ranks.keys()):
            for executor in silent:
                replace(self._sc, executor)
            what = f"executor {silent[0]} has been silent for {self._pulse.limit:.0f} s"
            what += " (stopped, or its host is too busy or unreachable)"
            raise self._not_started(ranks[silent[0]], what)
        waiting = missing - held.keys()
        if not (waiting and self._job.tasks_failed):
            self._lost = False
        elif not self._lost:
            self._lost = True  # Spark may first give the task to another executor, then say why it failed
        else:
            raise self._not_started(min(waiting), "its executor was lost", executor_lost=True)

    def late(self, seconds: float) -> NotStarted:
        """Return the error for nodes that have not registered within `seconds`."""
        missing, held = self._missing(), self._job.holders()
        if missing and missing <= held.keys():
            rank = min(missing)
            what = f"the Python worker in executor {held[rank]} has not registered within {seconds:g} s (start_timeout)"
            error = NotStarted(f"node {rank} was not started: {what} (stopped, hanging, or very slow)", rank)
            error.executor_host = self._job.host_of(rank)
            return error
        nodes = len(self._channel.records)
        return NotStarted(
            f"{nodes - len(missing)} of {nodes} nodes have registered within {seconds:g} s (start_timeout); "
            "the executors may be busy with other tasks"
        )

    def close(self) -> None:
        """Stop asking executors."""
        self._pulse.close()

    def _missing(self) -> set[int]:
        return {rank for rank, each in enumerate(self._channel.reservations()) if each is None}

    def _not_started(self, rank: int, why: str, executor_lost: bool = False) -> NodeFailed:
        error = NodeFailed(f"node {rank} was not started: {why}", rank, executor_lost=executor_lost)
        error.executor_host = self._job.host_of(rank)
        return error
