"""Whether and when a run goes on after a failure: for `train`, and for each run of `compare`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sparksplit.base.errors import NodeFailed, Passing, SparksplitError
from sparksplit.base.progress import say

_T = TypeVar("_T")

QUIET_SECONDS = 600.0
"""Seconds. An attempt that lasted longer, and took the run further, resets the count of restarts."""
PAUSES = (0.0, 5.0, 20.0, 60.0)
"""Seconds from the beginning of an attempt that fails to the beginning of the next attempt: before the first restart in
a row, the second, and so on. What has failed twice may need a while."""


def may_pass(failed: SparksplitError) -> bool:
    """Return whether another attempt may get further."""
    return isinstance(failed, Passing) or (isinstance(failed, NodeFailed) and failed.may_pass)


@dataclass
class Restarts:
    """The restarts of a run.

    most: largest number of restarts in a row.
    furthest: number of the furthest checkpoint so far; -1 without a checkpoint.
    """

    most: int
    furthest: int = -1
    tries: int = field(default=0, init=False)
    """Restarts in a row so far."""
    _without_memory: int | None = field(default=None, init=False)
    """Number of the last checkpoint when the last attempt ran out of memory; None if it did not."""

    def after(self, failed: SparksplitError, seconds: float, reached: int) -> float | None:
        """Return the seconds to wait before the next attempt, and count the attempt; None if the run is to end.

        seconds: how long the failed attempt has lasted.
        reached: the number of the last checkpoint.
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
        """Note the last checkpoint's number `reached` of an attempt that lasted `seconds`."""
        # Time alone does not count, because a repeated hang may take longer than this to be noticed each time.
        if seconds > QUIET_SECONDS and reached > self.furthest:
            self.tries = 0
        self.furthest = max(self.furthest, reached)


def in_seconds(pause: float) -> str:
    """Return ` in N s` for a pause; empty without a pause."""
    return f" in {pause:.0f} s" if pause else ""


def waited_out(act: Callable[[], _T], most: int, what: str = "") -> _T:
    """Return the result of `act`. After Passing, call `act` again after a pause, at most `most` times.

    what: text to say before the reason.
    """
    restarts = Restarts(most)
    while True:
        try:
            return act()
        except Passing as error:
            if (pause := restarts.after(error, 0.0, -1)) is None:
                raise
            say(f"{what}{error}; trying again{in_seconds(pause)}")
            time.sleep(pause)
