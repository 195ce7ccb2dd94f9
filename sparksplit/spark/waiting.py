"""How long a command waits for executors, and its messages meanwhile: pure functions of the observed numbers.

There are two limits, for two kinds of waiting. Until executors are granted, the cluster is busy or too small.
Afterwards, their hosts download the application's files and start the processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sparksplit.spark.settings.requirements import Problem

QUEUE_SECONDS = 600.0
"""Default of `queue_timeout`. A queue that is busy for some minutes is no failure."""
START_SECONDS = 300.0
"""Default of `start_timeout`. A busy host with two cores took about 180 s to download and unpack an environment of 0.8
GB.
"""

Stage = Literal["queue", "start"]


@dataclass(frozen=True)
class Patience:
    """The two limits, in seconds. Both are also configuration keys.

    queue: until all executors are granted. start: from then until all have started.
    """

    queue: float = QUEUE_SECONDS
    start: float = START_SECONDS


@dataclass(frozen=True)
class Seen:
    """The observed numbers.

    executors: executors that Spark has. granted: executors with a container in the cluster; None if only Spark's own
    count is known.
    """

    executors: int
    granted: int | None = None

    def without(self, others: int) -> Seen:
        """Return the numbers without the executors that other work uses."""
        return Seen(max(0, self.executors - others), None if self.granted is None else max(0, self.granted - others))

    def has(self, needed: int) -> bool:
        """Whether `needed` executors are granted, running or not."""
        return max(self.executors, self.granted or 0) >= needed


class Wait:
    """How long the command has waited for `needed` executors, in each of the two stages.

    If a container is lost before its executor has started, the first stage returns. The time of each stage adds up, so
    the wait always ends.
    """

    def __init__(self, needed: int, patience: Patience, now: float) -> None:
        self.needed, self.patience = needed, patience
        self.seconds: dict[Stage, float] = {"queue": 0.0, "start": 0.0}
        self.stage: Stage = "queue"
        self._looked = now

    def look(self, seen: Seen, now: float) -> None:
        """Add an observation. now: of a monotonic clock, in seconds."""
        self.stage = "start" if seen.has(self.needed) else "queue"
        self.seconds[self.stage] += now - self._looked
        self._looked = now

    @property
    def limit(self) -> float:
        """Seconds that the current stage may take."""
        return self.patience.queue if self.stage == "queue" else self.patience.start

    @property
    def over(self) -> bool:
        """Whether the current stage has taken too long."""
        return self.seconds[self.stage] > self.limit

    def line(self, seen: Seen) -> str:
        """Return a line: the executors that the command waits for, the seconds so far, and the limit."""
        if self.stage == "queue":
            there = seen.executors if seen.granted is None else max(seen.executors, seen.granted)
            what = f"the cluster to grant executors: {there} of {self.needed}"
        else:
            what = f"granted executors to start: {seen.executors} of {self.needed}"
        return f"waiting for {what}, {self.seconds[self.stage]:.0f} of {self.limit:g} s ({self.stage}_timeout)"

    def failure(self, what: Problem, seen: Seen, lost: Sequence[object], why: str, logs: str) -> Problem:
        """Return the problem if the current stage has taken too long.

        what: the key that asks for the executors, and the need, such as `2 nodes need 3 executors`.
        lost: the executors that Spark has lost.
        why: advice if none was granted.
        logs: where to look if one does not start.
        """
        if self.stage == "start":
            text = (
                f"{what.text}: the cluster has granted them, but only {seen.executors} of {self.needed} have started"
                f" within {self.limit:g} s (start_timeout). Each host first downloads the files of the application"
                f" (--archives): {logs}, or set a larger start_timeout"
            )
            return Problem(what.key, text)
        return too_few(what, seen.executors, f"{self.limit:g} s (queue_timeout)", lost, why)


def too_few(what: Problem, executors: int, within: str, lost: Sequence[object], why: str) -> Problem:
    """Return the problem of too few executors.

    what: the key that asks for the executors, and the need, such as `2 nodes need 2 executors`.
    within: the time waited, and the limit's key.
    lost: the executors that Spark has lost, in the order of the losses.
    why: advice if none was lost.
    """
    if lost:
        text = (
            f"{lost[-1]}, and no new executor came within {within}; {what.text}, and Spark has {executors}."
            " Restart the host, or add another"
        )
        return Problem(what.key, text)
    return Problem(what.key, f"{what.text}, and Spark has {executors} after {within}; {why}")
