"""A node's or a launcher's connection to the driver: beats from a thread, messages both ways, a watch for orphans."""

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
"""Seconds within which the driver must acknowledge a report before the process that sent it ends."""
REDELIVERY = 10.0
"""Seconds more, as long as the driver is not known to have gone: a connection that was dropped without a word is
noticed, and dialled anew, after QUIET."""
QUIET = 6.0
"""Seconds without a byte from the driver, three of whose answers are missing then, after which it is called anew."""
PAUSE, LONGEST_PAUSE = 0.05, 0.5
"""Seconds between two calls."""
REFUSALS = 3
"""Calls in a row that nobody takes, after which the driver is gone."""


@dataclass(frozen=True)
class Post:
    """Where to call, and as whom. It holds the run's secret: sent in Spark's closures and over stdin, never in argv.

    fingerprint: of the certificate that the driver must have; None: without TLS. network: where this process listens.
    """

    driver: tuple[str, int]
    secret: str
    rank: int
    kind: Literal["node", "launcher", "task"]
    fingerprint: str | None = None
    network: Network = ANY

    @classmethod
    def of(cls, values: dict[str, Any]) -> Post:
        """From `asdict`'s result, which may have been through JSON."""
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
    """A connection, and behind how many of its messages the driver goes on there."""

    wire: Wire
    behind: int


class Refused(ConnectionError):
    """The driver wants nothing of this process."""


class Line:
    """The line to the driver, over as many connections as it takes: one that is reset on the way is dialled again.

    What the driver has not acknowledged is sent again then, in order, and what it has said meanwhile is heard; nothing
    is lost or comes twice.

    state: called for each beat; its result, a JSON-able dict, goes with the beat.
    on_message: called from the receiving thread with every message that is not an answer.
    on_silence: called once from the receiving thread, with a reason, when the driver is gone or has been silent.
    Raises OSError or ValueError where the driver cannot be reached, is not this run's, or refuses this process.
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
        """Not acknowledged, by number."""
        self._heard = 0
        self._known = 0
        """How many messages of the present connection came over the one before."""
        self._next: _Call | None = None
        self._wire = self._dialled(time.monotonic() + ORPHAN).wire
        self.address = self._wire.own_address()
        threading.Thread(target=self._receive, name="driver-receive", daemon=True).start()
        threading.Thread(target=self._beat, name="driver-beat", daemon=True).start()

    def send(self, share: int = 1, **message: Any) -> None:
        """Send without waiting: now, or once the driver is reached again. Raises RunError where the message is too
        long; share: as for `text_of`."""
        self._post_message(message, share)

    def deliver(self, **message: Any) -> bool:
        """Send, and wait for the driver's acknowledgement; returns whether it came. For a process's last words.
        Raises like `send`.

        Closing a socket that holds unread answers would throw away what the driver has not read yet.
        """
        received = self._post_message(message)
        return received.wait(DELIVERY) or (not self._given_up.is_set() and received.wait(REDELIVERY))

    def close(self) -> None:
        """End the connection on purpose: `on_silence` is not called for it."""
        self._closing.set()
        self._wire.close()

    def _post_message(self, message: dict[str, Any], share: int = 1) -> threading.Event:
        received = threading.Event()
        with self._sending:
            number = self._number
            text = text_of({"id": number, **message}, share)
            self._number += 1
            if "beat" not in message:  # the next one says all that this one does
                self._open[number] = text, received
            # Where it fails, the receiving thread sees the same end, and sends it again.
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
                # Beside this thread: the driver, too, has something to say again, and may hear nothing until it has.
                again = threading.Thread(target=self._send_again, name="driver-again", daemon=True)
                self._sending.acquire()  # until all of it is sent
                self._wire, self._known = called.wire, self._heard - called.behind
                try:
                    again.start()
                except RuntimeError:  # no room for another thread
                    self._sending.release()
                    raise
                if self._closing.is_set():  # meanwhile, and it closed the one before
                    called.wire.close()
        except Exception as error:  # whatever it is, nobody is listening to the driver any more
            reason = f"lost the driver ({type(error).__name__}: {error})"
        # The wire stays: a driver that was only stopped may read this process's last words.
        self._given_up.set()
        if not self._closing.is_set():
            self._on_silence(reason)

    def _send_again(self) -> None:
        """Send what the driver has not acknowledged; until then, nothing else is sent."""
        try:
            for _, (text, _) in sorted(self._open.copy().items()):
                self._wire.send_text(text)
        except OSError:
            return  # as for any message, the receiving thread sees it
        finally:
            self._sending.release()

    def _heard_to_the_end(self) -> tuple[str, bool]:
        """Hear what comes over the present connection; returns why it has ended, and whether in silence."""
        try:
            for message in self._wire.lines():
                if "received" in message:
                    self._acknowledged(message["received"])
                elif self._known:
                    self._known -= 1  # it came over the connection before, after this one's hello
                else:
                    self._heard += 1
                    self._on_message(message)
        except TimeoutError:
            return f"no sign of the driver for {ORPHAN:g} s", True
        except (OSError, ValueError) as error:
            return f"lost the driver ({type(error).__name__}: {error})", False
        return "the driver closed its connection", False

    def _acknowledged(self, number: int) -> None:
        """The driver has taken every message up to this one."""
        for each in [each for each in list(self._open) if each <= number]:
            # Over two connections at once, one of which is being dialled, it may hear of the same one.
            if (acknowledged := self._open.pop(each, None)) is not None:
                acknowledged[1].set()

    def _dialled(self, until: float) -> _Call:
        """A new connection on which each end has proven itself; tried until then (monotonic seconds).

        Nobody listens where a driver has ended: that is not tried for long.
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
        while not self._closing.wait(BEAT):
            try:
                self.send(beat=self._state(), heard=self._heard)
            except RunError as error:  # without this thread the node would seem to be silent
                self.send(error=str(error), kind=Failure.OWN, heard=self._heard)
            # A device on the way may have dropped the connection without a word.
            if time.monotonic() - self._wire.heard > QUIET and not (calling and calling.is_alive()):
                calling = threading.Thread(target=self._call_anew, name="driver-anew", daemon=True)
                calling.start()

    def _call_anew(self) -> None:
        """Leave the present connection for a new one; if there is none to be had, it may yet come back to life."""
        with suppress(OSError, ValueError):
            self._next = called = self._called(self._wire.heard + ORPHAN)
            if self._closing.is_set():
                called.wire.close()
            self._wire.end()
