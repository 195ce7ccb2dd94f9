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
    """The thread of `member` that writes. beside: whether training goes on meanwhile; virtual nodes take turns, so each
    writes in its own."""

    def __init__(self, member: Member, beside: bool = True) -> None:
        self._member, self._beside = member, beside
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._meets = False
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """For how long it has been writing; 0 where it is not."""
        return 0.0 if self._thread is None or not self._thread.is_alive() else time.monotonic() - self._began

    def begin(self, write: Callable[[Gather], None]) -> None:
        """Begin to write, once what is being written is done. write: is given a rendezvous of all nodes.

        Raises what the last one failed with.
        """
        self.wait()
        if not self._beside:
            write(self._member.gather)
            return
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(write,), name="checkpoint", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what writing has failed with, if it has."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Return when nothing is being written any more; raises what it failed with.

        Call it within the phase `checkpoint`: the driver then watches what this waits for.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            while thread.is_alive():
                # A node whose part is written waits for the others.
                self._member.state(waiting=self._meets)
                thread.join(_POLL)
            self._member.state(waiting=False)
        self.check()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """If the block fails, give what is being written some seconds to be finished: what is good must not go with
        what came after it. Not where another node is lost, without which it never would be."""
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
