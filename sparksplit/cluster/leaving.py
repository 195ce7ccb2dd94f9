"""A node that is asked to end by a signal: it may do so once its work is safe, within a grace."""

from __future__ import annotations

import os
import signal
import threading

GRACE = 8.0
"""Seconds until it ends in any case, at most. Spark's standalone workers kill after 10 s, Kubernetes after 30 s."""


class Leaving(threading.Event):
    """Set when a node is asked to end. reason: its error then. heeded: whether its work looks at this; if not, the node
    ends at once. grace: seconds that the work has then."""

    reason = ""
    heeded = False
    grace = GRACE

    def ask(self, reason: str) -> bool:
        """Ask the node to end; returns whether that is heeded."""
        self.reason = reason
        self.set()
        return self.heeded


def reason_of(signum: int) -> str:
    """What is said of a node that such a signal has asked to end."""
    # Spark's Python daemon sends SIGHUP to its whole group when its executor has gone.
    lost = "its executor was lost"
    return lost if signum == signal.SIGHUP else f"was asked to end ({signal.Signals(signum).name})"


def signals(*numbers: int) -> int:
    """From now on these signals can be read, one byte each, from the descriptor that is returned: at once, even while
    the main thread is in a call that no handler interrupts. For the main thread."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading
