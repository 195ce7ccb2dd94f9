"""The end of a block of work. Its tidying gets SECONDS on HDFS in total, not for each call.

A scheduler that has sent SIGTERM kills the process after 10 to 30 s. If HDFS is away, each call alone would be repeated
for longer (hdfs_client.PATIENCE).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SECONDS = 20.0
"""Seconds for all calls together, from the first step of the tidying."""
LAST_SECONDS = 2.0
"""Seconds for which all later calls together may wait in vain. An HDFS that is not away answers sooner."""


class Ending:
    """How long calls to HDFS may still wait for the sake of one block. All threads that work for the block share it.

    until: when SECONDS are over (time.monotonic). Infinite while the block works.
    rest: seconds for which calls may still wait in vain after `until`.
    """

    def __init__(self) -> None:
        self.until, self.rest = math.inf, LAST_SECONDS

    def gives_up(self, silent: float) -> bool:
        """Whether to give up a call that has made no progress for `silent` seconds."""
        return time.monotonic() >= self.until and silent >= self.rest

    def in_vain(self, silent: float) -> None:
        """Note a failed call, which had made no progress for its last `silent` seconds."""
        self.rest -= max(0.0, min(silent, time.monotonic() - self.until))

    def answered(self) -> None:
        """Note a call that HDFS has answered: it is there again."""
        self.rest = LAST_SECONDS


_current: ContextVar[Ending | None] = ContextVar("ending", default=None)


def current() -> Ending:
    """Return the Ending of the innermost block around this call; one that never begins if there is no block."""
    return _current.get() or Ending()


def begin() -> None:
    """Say that only tidying is left of the innermost block. Do nothing if that was said before, or without a block.

    Not for signal handlers: Python may drop their exception, and the block's work goes on.
    """
    one = current()
    one.until = min(one.until, time.monotonic() + SECONDS)


@contextmanager
def block() -> Iterator[None]:
    """A block of work with an Ending of its own. After the block, calls have full patience again.

    After a KeyboardInterrupt, the blocks around this one end too: they get no more time than is left.
    """
    outer, own = _current.get(), Ending()
    token = _current.set(own)
    try:
        yield
    except KeyboardInterrupt:
        if outer is not None:
            outer.until, outer.rest = min(outer.until, own.until), min(outer.rest, own.rest)
        raise
    finally:
        _current.reset(token)
