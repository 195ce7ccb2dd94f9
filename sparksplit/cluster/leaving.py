"""A node that is asked to end by a signal: it may do so once its work is safe, within a grace."""

from __future__ import annotations

import os
import signal
import threading

ASKING = (signal.SIGTERM, signal.SIGHUP)
"""What asks a node to end. Other signals belong to its work, such as the alarms of a user's code."""

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


def signals() -> int:
    """From now on the number of each signal that has a handler of Python's, those of `ASKING` among them, can be read,
    one byte each, from the descriptor that is returned: at once, even while the main thread is in a call that no
    handler interrupts. For the main thread, once."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in ASKING:
        signal.signal(number, _heard)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_as_before)
    return reading


def _heard(signum: int, frame: object) -> None:
    """It is the descriptor that tells of it."""


_own = threading.local()  # mask: the signals that this thread has blocked when nobody forks


def _hold() -> None:
    """Let these signals wait while this thread forks: one that came to the new process before `_as_before` would be
    heard as one of the node's."""
    _own.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)


def _let_go() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _own.mask)


def _as_before() -> None:
    """Have these signals end a process that the work has forked, such as one of a pool's, which would otherwise ignore
    them, and tell the node, whose pipe it shares, of its own."""
    signal.set_wakeup_fd(-1)
    for number in ASKING:
        if signal.getsignal(number) is _heard:
            signal.signal(number, signal.SIG_DFL)
    _let_go()
