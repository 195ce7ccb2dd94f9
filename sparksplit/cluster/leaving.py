"""A node that a signal asks to end. The node may first bring its work to safety, within a grace period."""

from __future__ import annotations

import os
import signal
import threading

ASKING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a node to end. Other signals belong to the node's work, such as the alarms of a user's code."""

GRACE = 8.0
"""Seconds until the node ends in any case, at most. Spark's standalone workers kill after 10 s, Kubernetes after 30 s.
"""


class Leaving(threading.Event):
    """Set when a node is asked to end.

    reason: the node's error then.
    heeded: whether the node's work looks at this event. If not, the node ends at once.
    grace: seconds that the work then has.
    """

    reason = ""
    heeded = False
    grace = GRACE

    def ask(self, reason: str) -> bool:
        """Ask the node to end. Return `heeded`."""
        self.reason = reason
        self.set()
        return self.heeded


def reason_of(signum: int) -> str:
    """Return the error text for a node that the signal has asked to end."""
    # Spark's Python daemon sends SIGHUP to its whole group when its executor is gone.
    lost = "its executor was lost"
    return lost if signum == signal.SIGHUP else f"was asked to end ({signal.Signals(signum).name})"


def signals() -> int:
    """Return a descriptor from which the numbers of signals can be read, one byte per signal. Call this once, in the
    main thread.

    From now on, each signal with a Python handler can be read there, including the signals in `ASKING`. The byte comes
    at once, even while the main thread is in a call that no handler interrupts.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in ASKING:
        signal.signal(number, _heard)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_as_before)
    return reading


def _heard(signum: int, frame: object) -> None:
    """Do nothing: the descriptor reports the signal."""


_own = threading.local()  # mask: the signals that this thread blocks outside of a fork


def _hold() -> None:
    """Block these signals while this thread forks. Otherwise a signal to the new process, before `_as_before`, would
    count as the node's."""
    _own.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)


def _let_go() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _own.mask)


def _as_before() -> None:
    """Make these signals end a process that the work has forked, such as a worker of a pool.

    Otherwise the forked process would ignore the signals. It would also report them to the node, because it shares the
    node's pipe.
    """
    signal.set_wakeup_fd(-1)
    for number in ASKING:
        if signal.getsignal(number) is _heard:
            signal.signal(number, signal.SIG_DFL)
    _let_go()
