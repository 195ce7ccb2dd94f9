"""A process of the run, as the driver speaks with it: one conversation over any number of connections.

A connection may be reset. The process then calls again, says how many of the driver's messages it has had, and sends
again what the driver has not acknowledged. So both sides take each message once, in order.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from sparksplit.network.seal import Text
from sparksplit.network.wire import Wire, text_of

log = logging.getLogger(__name__)


class Peer:
    """The driver's end of the conversation.

    life: distinguishes this process from other processes of its rank.
    taken: the id of the last message that was taken. Use it only under the channel's lock.
    """

    def __init__(self, life: str) -> None:
        self.life, self.taken = life, -1
        self._lock = threading.Lock()
        self._wire: Wire | None = None
        self._told: deque[Text] = deque()
        self._before = 0  # messages dropped from the front, because the process has had them

    @property
    def connected(self) -> bool:
        return self._wire is not None

    def resume(self, wire: Wire, heard: int, taken: int) -> None:
        """Answer a hello, and go on over `wire` after the first `heard` messages.

        Leave out more messages if the process has meanwhile acknowledged more over its other connection.
        """
        with self._lock:
            before, self._wire = self._wire, wire
            self._drop(heard)
            _send(wire, text_of({"received": taken, "behind": self._before}))
            for text in self._told:
                _send(wire, text)
        if before is not None:
            before.close()

    def tell(self, text: Text) -> None:
        """Send a message, now or when the process calls again."""
        with self._lock:
            self._told.append(text)
            if self._wire is not None:
                _send(self._wire, text)

    def heard(self, count: int) -> None:
        """Note that the process has had the first `count` messages."""
        with self._lock:
            self._drop(count)

    def lost(self, wire: Wire) -> None:
        """Note that `wire` has ended. Another connection may have taken its place."""
        with self._lock:
            if self._wire is wire:
                self._wire = None

    def close(self) -> None:
        wire = self._wire
        if wire is not None:
            wire.close()

    def _drop(self, count: int) -> None:
        while self._told and self._before < count:
            self._told.popleft()
            self._before += 1


def _send(wire: Wire, text: Text) -> None:
    try:
        wire.send_text(text)
    except OSError as error:
        # The serving thread sees the end of this connection and notes it.
        log.debug("could not send %s: %s", text.line[:100], error)
