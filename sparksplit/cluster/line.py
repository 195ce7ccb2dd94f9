"""A node's or a launcher's connection to the driver: beats from a thread, messages both ways, a watch for orphans."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sparksplit.cluster.wire import BEAT, ORPHAN, Wire

DELIVERY = 5.0
"""Seconds within which the driver must acknowledge a report before the process that sent it ends."""


@dataclass(frozen=True)
class Post:
    """Where to call, and as whom. It holds the run's secret: sent in Spark's closures and over stdin, never in argv."""

    driver: tuple[str, int]
    secret: str
    rank: int
    kind: Literal["node", "launcher", "task"]


class Line:
    """The line to the driver.

    state: called for each beat; its result, a JSON-able dict, goes with the beat.
    on_message: called from the receiving thread with every message that is not an answer.
    on_silence: called once from the receiving thread, with a reason, when the driver is gone or has been silent.
    """

    def __init__(
        self,
        post: Post,
        *,
        state: Callable[[], dict[str, Any]] = dict,
        on_message: Callable[[dict[str, Any]], None] = lambda message: None,
        on_silence: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._state, self._on_message, self._on_silence = state, on_message, on_silence
        self._ids = itertools.count()
        self._closing = threading.Event()
        self._deliveries: dict[int, threading.Event] = {}
        self._wire = Wire(socket.create_connection(post.driver, timeout=10))
        self._wire.limit(ORPHAN)
        self.address = self._wire.own_address()
        self.send(secret=post.secret, rank=post.rank, kind=post.kind, pid=os.getpid(), host=socket.gethostname())
        threading.Thread(target=self._receive, name="driver-receive", daemon=True).start()
        threading.Thread(target=self._beat, name="driver-beat", daemon=True).start()

    def send(self, **message: Any) -> None:
        """Send without waiting; raises OSError if the driver is gone."""
        self._wire.send({"id": next(self._ids), **message})

    def deliver(self, **message: Any) -> bool:
        """Send, and wait for the driver's acknowledgement; returns whether it came. For a process's last words.

        Closing a socket that holds unread answers would throw away what the driver has not read yet.
        """
        number = next(self._ids)
        received = self._deliveries[number] = threading.Event()
        try:
            self._wire.send({"id": number, **message})
        except OSError:
            return False
        return received.wait(DELIVERY)

    def close(self) -> None:
        """End the connection on purpose: `on_silence` is not called for it."""
        self._closing.set()
        self._wire.close()

    def _receive(self) -> None:
        reason = "the driver closed its connection"
        try:
            for message in self._wire.lines():
                if "received" in message:
                    received = self._deliveries.pop(message["received"], None)
                    if received:
                        received.set()
                else:
                    self._on_message(message)
        except TimeoutError:
            reason = f"no sign of the driver for {ORPHAN:g} s"
        except Exception as error:  # whatever it is, nobody is listening to the driver any more
            reason = f"lost the driver ({type(error).__name__}: {error})"
        if not self._closing.is_set():
            self._on_silence(reason)

    def _beat(self) -> None:
        while not self._closing.wait(BEAT):
            try:
                self.send(beat=self._state())
            except OSError:
                # The receiving thread sees the same end and acts on it.
                return
