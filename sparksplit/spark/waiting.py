"""How long a command waits for executors, and what it says meanwhile: pure functions of what was seen.

Two limits, because two different things are waited for. Until executors are granted, the cluster is busy or too small.
From then on their hosts fetch what the application sends along, and start the processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

QUEUE_SECONDS = 600.0
"""Default of `queue_timeout`: a queue that is busy for some minutes is no failure."""
START_SECONDS = 300.0
"""Default of `start_timeout`: a busy host of two cores took some 180 s to fetch and unpack an environment of 0.8 GB."""

Stage = Literal["queue", "start"]


@dataclass(frozen=True)
class Patience:
    """queue: seconds until all executors are granted. start: seconds from then on; keys of a configuration, too."""

    queue: float = QUEUE_SECONDS
    start: float = START_SECONDS


@dataclass(frozen=True)
class Seen:
    """executors: those that Spark has. granted: those for which the cluster holds a container; None where only Spark's
    own count is known."""

    executors: int
    granted: int | None = None

    def has(self, needed: int) -> bool:
        """Whether so many are granted, if they run or not."""
        return max(self.executors, self.granted or 0) >= needed


class Wait:
    """How long `needed` executors have been waited for, in each of the two stages.

    A container that is lost before its executor has started brings the first stage back: the time that each stage has
    taken counts in all, so the wait always ends.
    """

    def __init__(self, needed: int, patience: Patience, now: float) -> None:
        self.needed, self.patience = needed, patience
        self.seconds: dict[Stage, float] = {"queue": 0.0, "start": 0.0}
        self.stage: Stage = "queue"
        self._looked = now

    def look(self, seen: Seen, now: float) -> None:
        """Take in what is seen at a moment. now: as of a clock that only goes forward."""
        self.stage = "start" if seen.has(self.needed) else "queue"
        self.seconds[self.stage] += now - self._looked
        self._looked = now

    @property
    def limit(self) -> float:
        """The seconds that the present stage may take."""
        return self.patience.queue if self.stage == "queue" else self.patience.start

    @property
    def over(self) -> bool:
        """Whether the present stage has taken too long."""
        return self.seconds[self.stage] > self.limit

    def line(self, seen: Seen) -> str:
        """What is waited for, for how long already, and for how long at the most."""
        if self.stage == "queue":
            there = seen.executors if seen.granted is None else max(seen.executors, seen.granted)
            what = f"the cluster to grant executors: {there} of {self.needed}"
        else:
            what = f"granted executors to start: {seen.executors} of {self.needed}"
        return f"waiting for {what}, {self.seconds[self.stage]:.0f} of {self.limit:g} s ({self.stage}_timeout)"

    def failure(self, what: str, seen: Seen, lost: Sequence[object], why: str, logs: str) -> str:
        """What to say where the present stage has taken too long.

        what: what needs the executors, `KEY: 2 nodes need 3 executors`. lost: the executors that Spark has lost. why:
        what to look at where none was granted. logs: what to look at where one does not start.
        """
        if self.stage == "start":
            return (
                f"{what}: the cluster has granted them, but only {seen.executors} of {self.needed} have started within"
                f" {self.limit:g} s (start_timeout). Each host first downloads the files of the application"
                f" (--archives): {logs}, or set a larger start_timeout"
            )
        return too_few(what, seen.executors, f"{self.limit:g} s (queue_timeout)", lost, why)


def too_few(what: str, executors: int, within: str, lost: Sequence[object], why: str) -> str:
    """What to say about too few executors.

    what: what needs them, `KEY: 2 nodes need 2 executors`. within: how long they were waited for, and the limit's key.
    lost: the executors that Spark has lost, in the order in which they went. why: what to look at otherwise.
    """
    if lost:
        key, _, needed = what.partition(": ")
        return (
            f"{key}: {lost[-1]}, and no new executor came within {within}; {needed}, and Spark has {executors}."
            " Restart the host, or add another"
        )
    return f"{what}, and Spark has {executors} after {within}; {why}"
