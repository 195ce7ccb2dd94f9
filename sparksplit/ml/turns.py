"""Lets fits in several threads train at the same time if the session has executors for all of them. Otherwise they take
turns: nodes that wait for each other's executors would only time out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from sparksplit.base.progress import say, saying

_LOOK_SECONDS = 1.0

_settings = threading.RLock()


@contextmanager
def settings() -> Iterator[None]:
    """Be the only thread that sets and restores the session's settings, as `preprocess` does.

    A wait is said every 10 s. It ends with the other thread's preparation, whose own waits have limits.
    """
    with ExitStack() as waiting:
        waiting.enter_context(saying("another fit to prepare its rows"))
        with _settings:
            waiting.close()
            yield


class Turns:
    """Counts the executors that running trainings use."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._used = 0

    @contextmanager
    def turn(self, needed: int, there: Callable[[], int]) -> Iterator[None]:
        """Run the block once `needed` of the executors are free, or nobody else trains.

        there: returns the number of executors. A training that needs more than there are waits in `train`, which says
            what is missing.
        """
        with self._changed:
            said = False
            while self._used and self._used + needed > there():
                if not said:
                    say(
                        f"fit waits for the end of another fit: it needs {needed} executors, and the other uses "
                        f"{self._used} of {there()}"
                    )
                    said = True
                self._changed.wait(_LOOK_SECONDS)
            self._used += needed
        try:
            yield
        finally:
            with self._changed:
                self._used -= needed
                self._changed.notify_all()


turns = Turns()
