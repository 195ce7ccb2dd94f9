"""Whether a run goes on after a failure, and when: for `train` and for each run of `compare`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sparksplit.base.errors import NodeFailed, Passing, SparksplitError
from sparksplit.base.progress import say

_T = TypeVar("_T")

QUIET_SECONDS = 600.0
"""An attempt that has lasted this long, and has taken the run further, begins the count of restarts anew."""
PAUSES = (0.0, 5.0, 20.0, 60.0)
"""Seconds from the beginning of an attempt that fails to the next one's, before the first restart in a row, the second,
and so on: what has failed twice may need a while."""


def may_pass(failed: SparksplitError) -> bool:
    """Whether another attempt may get further."""
    return isinstance(failed, Passing) or (isinstance(failed, NodeFailed) and failed.may_pass)


@dataclass
class Restarts:
    """most: how many in a row. furthest: the number of the furthest checkpoint so far; -1 without one."""

    most: int
    furthest: int = -1
    tries: int = field(default=0, init=False)
    """How many there have been in a row."""
    _without_memory: int | None = field(default=None, init=False)
    """From where the last attempt went that ran out of memory."""

    def after(self, failed: SparksplitError, seconds: float, reached: int) -> float | None:
        """Seconds to wait before the next attempt, which is counted; None if the run is to end.

        seconds: how long the failed attempt has lasted. reached: the number of the last checkpoint.
        """
        if not may_pass(failed):
            return None
        self.has_reached(reached, seconds)
        memory = isinstance(failed, NodeFailed) and failed.memory
        again = memory and self._without_memory == reached
        self._without_memory = reached if memory else None
        if again or self.tries >= self.most:
            return None
        self.tries += 1
        return max(0.0, PAUSES[min(self.tries, len(PAUSES)) - 1] - seconds)

    def has_reached(self, reached: int, seconds: float) -> None:
        """Note how far an attempt of so many seconds has come: the number of the last checkpoint."""
        # A hang that comes again may take longer than that to be noticed each time.
        if seconds > QUIET_SECONDS and reached > self.furthest:
            self.tries = 0
        self.furthest = max(self.furthest, reached)


def in_seconds(pause: float) -> str:
    """When, for people, what follows a pause is; empty where there is none."""
    return f" in {pause:.0f} s" if pause else ""


def waited_out(act: Callable[[], _T], most: int, what: str = "") -> _T:
    """What `act` returns, called again after a while if it cannot be done just now, at most so often. what: is said
    before the reason."""
    restarts = Restarts(most)
    while True:
        try:
            return act()
        except Passing as error:
            if (pause := restarts.after(error, 0.0, -1)) is None:
                raise
            say(f"{what}{error}; trying again{in_seconds(pause)}")
            time.sleep(pause)
