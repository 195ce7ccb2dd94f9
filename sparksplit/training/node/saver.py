"""Writes a node's checkpoints while training goes on, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import PeerLost

if TYPE_CHECKING:
    from sparksplit.cluster import Member

Gather = Callable[[str, Any], list[Any]]
_POLL = 0.2
_FINISHING = 5.0


class Saver:
    """Writes the checkpoints of `member`, in a thread.

    beside: whether training goes on meanwhile. Virtual nodes take turns, so each of them writes in its own turn.
    """

    def __init__(self, member: Member, beside: bool = True) -> None:
        self._member, self._beside = member, beside
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._meets = False
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the present writing began; 0 if nothing is being written."""
        return 0.0 if self._thread is None or not self._thread.is_alive() else time.monotonic() - self._began

    def begin(self, write: Callable[[Gather], None]) -> None:
        """Begin to write, after the last checkpoint has been written. write: is given a function that gathers from all
        nodes.

        Raise the error of the last writing, if it has failed.
        """
        self.wait()
        if not self._beside:
            write(self._member.gather)
            return
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(write,), name="checkpoint", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise the error of the writing, if it has failed."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Wait until nothing is being written. Raise the error of the writing, if it has failed.

        Call this within the phase `checkpoint`, so that the driver watches this wait.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            while thread.is_alive():
                # A node whose part is written waits for the other nodes.
                self._member.state(waiting=self._meets)
                thread.join(_POLL)
            self._member.state(waiting=False)
        self.check()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """If the block fails, give a checkpoint that is being written some seconds to be finished.

        A good checkpoint must not be lost by a later failure. There is no wait if another node is lost, because the
        checkpoint needs that node.
        """
        try:
            yield
        except PeerLost:
            raise
        except Exception:
            if self._thread is not None:
                self._thread.join(_FINISHING)
            raise

    def _run(self, write: Callable[[Gather], None]) -> None:
        try:
            write(self._gather)
        except BaseException as error:
            self._error = error

    def _gather(self, name: str, value: Any) -> list[Any]:
        self._meets = True
        try:
            return self._member.gather(name, value, beside=True)
        finally:
            self._meets = False
