"""A node's or a launcher's connection to the driver: heartbeats, messages both ways, and a watch for a lost driver."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sparksplit.base.errors import RunError
from sparksplit.cluster.channel.limits import BEAT, ORPHAN
from sparksplit.cluster.failures import Failure
from sparksplit.network.listening import ANY, Network
from sparksplit.network.seal import Text
from sparksplit.network.wire import Wire, dialled, text_of

DELIVERY = 5.0
"""Seconds within which the driver must acknowledge a report. After that, the process that sent the report ends."""
REDELIVERY = 10.0
"""Seconds more, unless the driver is known to be gone. A connection that was dropped silently is noticed, and replaced
by a new one, after QUIET seconds."""
QUIET = 6.0
"""Seconds without a byte from the driver after which the process connects again. Three answers of the driver are
missing then."""
PAUSE, LONGEST_PAUSE = 0.05, 0.5
"""Shortest and longest pause between two calls, in seconds."""
REFUSALS = 3
"""The driver counts as gone after more than this many refused calls in a row."""


@dataclass(frozen=True)
class Post:
    """Where to call the driver, and as which process. It holds the run's secret: sent in Spark's closures and over
    stdin, never in argv.

    fingerprint: fingerprint of the driver's certificate; None without TLS.
    network: where this process listens.
    """

    driver: tuple[str, int]
    secret: str
    rank: int
    kind: Literal["node", "launcher", "task"]
    fingerprint: str | None = None
    network: Network = ANY

    @classmethod
    def of(cls, values: dict[str, Any]) -> Post:
        """Make a Post from the result of `asdict`, which may have been through JSON."""
        network = values["network"]
        ports = tuple(network["ports"]) if network["ports"] else None
        return cls(
            **{
                **values,
                "driver": tuple(values["driver"]),
                "network": Network(**{**network, "ports": ports, "kept": tuple(network["kept"])}),
            }
        )


class _Call(NamedTuple):
    """A new connection. behind: the driver has left out this many of its messages there, because the process already
    had them."""

    wire: Wire
    behind: int


class Refused(ConnectionError):
    """The driver refuses this process."""


class Line:
    """The line to the driver, over any number of connections. A broken connection is replaced by a new one.

    Messages that were not acknowledged are then sent again, in order, by both ends. No message is lost or comes twice.

    state: called for each heartbeat. Its result, a JSON-able dict, is sent with the heartbeat.
    on_message: called from the receiving thread with every message that is not an answer.
    on_silence: called once from the receiving thread, with a reason, when the driver is gone or has been silent.

    Raise OSError or ValueError if the driver cannot be reached, is not this run's, or refuses this process.
    """

    def __init__(
        self,
        post: Post,
        *,
        state: Callable[[], dict[str, Any]] = dict,
        on_message: Callable[[dict[str, Any]], None] = lambda message: None,
        on_silence: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._post, self._state, self._on_message, self._on_silence = post, state, on_message, on_silence
        self._life = secrets.token_hex(8)
        self._closing, self._given_up = threading.Event(), threading.Event()
        self._sending = threading.Lock()
        """Held while a message gets its number and is sent, so that numbers go out in order."""
        self._number = 0
        self._open: dict[int, tuple[Text, threading.Event]] = {}
        """Messages that are not acknowledged, by number."""
        self._heard = 0
        self._known = 0
        """How many messages of the present connection already came over the connection before."""
        self._next: _Call | None = None
        self._wire = self._dialled(time.monotonic() + ORPHAN).wire
        self.address = self._wire.own_address()
        threading.Thread(target=self._receive, name="driver-receive", daemon=True).start()
        threading.Thread(target=self._beat, name="driver-beat", daemon=True).start()

    def send(self, share: int = 1, **message: Any) -> None:
        """Send a message without waiting: now, or once the driver is reached again. Raise RunError if the message is
        too long.

        share: as for `text_of`.
        """
        self._post_message(message, share)

    def deliver(self, **message: Any) -> bool:
        """Send a message, and wait for the driver's acknowledgement. Return whether it came. Raise like `send`.

        For a process's last message. Without the wait, the socket would close while answers of the driver are unread,
        and TCP would then discard messages that the driver has not read.
        """
        received = self._post_message(message)
        return received.wait(DELIVERY) or (not self._given_up.is_set() and received.wait(REDELIVERY))

    def close(self) -> None:
        """End the connection on purpose. `on_silence` is not called."""
        self._closing.set()
        self._wire.close()

    def _post_message(self, message: dict[str, Any], share: int = 1) -> threading.Event:
        received = threading.Event()
        with self._sending:
            number = self._number
            text = text_of({"id": number, **message}, share)
            self._number += 1
            if "beat" not in message:  # the next heartbeat repeats all of this one
                self._open[number] = text, received
            # If this fails, the receiving thread notices the end too, and sends the message again.
            with suppress(OSError):
                self._wire.send_text(text)
        return received

    def _receive(self) -> None:
        try:
            while True:
                reason, silent = self._heard_to_the_end()
                called, self._next = self._next, None
                if self._closing.is_set():
                    if called is not None:
                        called.wire.close()
                    return
                if called is None:
                    if silent:
                        break
                    try:
                        called = self._dialled(self._wire.heard + ORPHAN)
                    except (OSError, ValueError) as error:
                        if isinstance(error, Refused):
                            reason = str(error)
                        break
                self._wire.close()
                # In another thread: the driver also sends messages again, and may read nothing until it has sent them.
                again = threading.Thread(target=self._send_again, name="driver-again", daemon=True)
                self._sending.acquire()  # `_send_again` releases it
                self._wire, self._known = called.wire, self._heard - called.behind
                try:
                    again.start()
                except RuntimeError:  # the system has no room for another thread
                    self._sending.release()
                    raise
                if self._closing.is_set():  # `close` was called meanwhile, and closed the old connection
                    called.wire.close()
        except Exception as error:  # after any error, nobody is listening to the driver any more
            reason = f"lost the driver ({type(error).__name__}: {error})"
        # The connection stays open: a driver that was only stopped may still read this process's last message.
        self._given_up.set()
        if not self._closing.is_set():
            self._on_silence(reason)

    def _send_again(self) -> None:
        """Send all messages that the driver has not acknowledged. Nothing else is sent until then."""
        try:
            for _, (text, _) in sorted(self._open.copy().items()):
                self._wire.send_text(text)
        except OSError:
            return  # the receiving thread notices this too
        finally:
            self._sending.release()

    def _heard_to_the_end(self) -> tuple[str, bool]:
        """Read messages until the present connection ends. Return (the reason of the end, whether the driver was
        silent)."""
        try:
            for message in self._wire.lines():
                if "received" in message:
                    self._acknowledged(message["received"])
                elif self._known:
                    self._known -= 1  # it already came over the old connection, after the hello on this one
                else:
                    self._heard += 1
                    self._on_message(message)
        except TimeoutError:
            return f"no sign of the driver for {ORPHAN:g} s", True
        except (OSError, ValueError) as error:
            return f"lost the driver ({type(error).__name__}: {error})", False
        return "the driver closed its connection", False

    def _acknowledged(self, number: int) -> None:
        """Note that the driver has taken every message up to `number`."""
        for each in [each for each in list(self._open) if each <= number]:
            # While a second connection is being made, the same message may be acknowledged on both.
            if (acknowledged := self._open.pop(each, None)) is not None:
                acknowledged[1].set()

    def _dialled(self, until: float) -> _Call:
        """Return a new connection on which both ends are authenticated. Try until `until` (monotonic seconds).

        Give up soon if nobody listens, because the driver has then ended.
        """
        refused, pause = 0, PAUSE
        while True:
            try:
                return self._called(until)
            except Refused:
                raise
            except (OSError, ValueError) as error:
                refused = refused + 1 if isinstance(error, ConnectionRefusedError) else 0
                if refused > REFUSALS or self._closing.is_set() or time.monotonic() + pause > until:
                    raise
            self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _called(self, until: float) -> _Call:
        post = self._post
        opened = dialled(post.driver, until, post.fingerprint)
        try:
            wire, named = Wire(opened), {"rank": post.rank, "kind": post.kind, "life": self._life}
            hello = {**named, "pid": os.getpid(), "host": socket.gethostname(), "heard": self._heard}
            answer = wire.introduce(post.secret.encode(), hello, until)
            if "refused" in answer:
                raise Refused(f"the driver closed its connection: {answer['refused']}")
            self._acknowledged(int(answer["received"]))
            wire.limit(ORPHAN)
            return _Call(wire, int(answer["behind"]))
        except BaseException:
            opened.close()
            raise

    def _beat(self) -> None:
        calling: threading.Thread | None = None
        while not self._closing.wait(BEAT) and not self._given_up.is_set():
            try:
                self.send(beat=self._state(), heard=self._heard)
            except RunError as error:  # without this thread the node would seem silent
                self.send(error=str(error), kind=Failure.OWN, heard=self._heard)
            # A network device may have dropped the connection silently.
            if time.monotonic() - self._wire.heard > QUIET and not (calling and calling.is_alive()):
                calling = threading.Thread(target=self._call_anew, name="driver-anew", daemon=True)
                calling.start()

    def _call_anew(self) -> None:
        """Replace the present connection by a new one. If that fails, keep the present one, which may recover."""
        with suppress(OSError, ValueError):
            self._next = called = self._called(self._wire.heard + ORPHAN)
            if self._closing.is_set():
                called.wire.close()
            self._wire.end()
