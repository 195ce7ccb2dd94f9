"""Whether a run goes on after a failure, and when: pure, for `train` and for each run of `compare`."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparksplit.base.errors import NodeFailed, Passing, SparksplitError

QUIET_SECONDS = 600.0
"""An attempt that has lasted this long, and has taken the run further, begins the count of restarts anew."""
PAUSES = (0.0, 5.0, 20.0, 60.0)
"""Seconds before the first restart in a row, the second, and so on: what has failed twice may need a while."""


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
        # A hang that comes again may take longer than that to be noticed each time.
        if seconds > QUIET_SECONDS and reached > self.furthest:
            self.tries = 0
        self.furthest = max(self.furthest, reached)
        memory = isinstance(failed, NodeFailed) and failed.memory
        again = memory and self._without_memory == reached
        self._without_memory = reached if memory else None
        if again or self.tries >= self.most:
            return None
        self.tries += 1
        return PAUSES[min(self.tries, len(PAUSES)) - 1]
