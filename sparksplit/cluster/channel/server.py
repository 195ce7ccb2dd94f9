"""The driver's end of the channel: a small server that keeps what nodes and launchers say, one NodeRecord per rank."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sparksplit.base.errors import ConfigError
from sparksplit.cluster.channel.peer import Peer
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.node_record import Link, NodeRecord
from sparksplit.network.listening import ANY, Network
from sparksplit.network.tls import Connection, Served
from sparksplit.network.wire import BACKLOG, DEAD, ORPHAN, SILENT, Wire, accept, limit_until, text_of

log = logging.getLogger(__name__)

KINDS = ("node", "launcher", "task")
CALLS = 2
"""Of each node's processes, that may come at the same time."""
STRANGERS = 256
"""Callers that have not proven themselves, at any one time, beside those; the next one turns the oldest away."""


@dataclass(frozen=True)
class Hello:
    """What a process of this run says of itself. life: the same whenever this process calls. heard: how many of the
    driver's messages it has had."""

    kind: str
    rank: int
    pid: int
    host: str
    life: str
    heard: int

    @classmethod
    def of(cls, message: dict[str, Any] | None, ranks: int) -> Hello | None:
        """`message` as a hello; None where it is not one of this run."""
        values = message or {}
        kind, rank, pid, heard = (values.get(name, 0) for name in ("kind", "rank", "pid", "heard"))
        if kind not in KINDS or any(type(value) is not int for value in (rank, pid, heard)) or not 0 <= rank < ranks:
            return None
        return cls(kind, rank, pid, str(values.get("host")), str(values.get("life")), heard)


class Channel:
    """Serves `nodes` ranks on `host`, an address of the driver's.

    network: at which ports, and whether connections are encrypted. known_as: the address by which nodes reach it; None:
    `host`. records: what is known, by rank; read and written under `lock`.
    changed: set whenever a record changes in a way that a waiting driver wants to see.
    fingerprint: of its certificate; None without TLS.
    Raises ConfigError where `host` is not an address of this machine.
    """

    def __init__(
        self,
        host: str,
        nodes: int,
        network: Network = ANY,
        known_as: str | None = None,
    ) -> None:
        self.secret = secrets.token_hex(32)
        self.records = [NodeRecord(rank) for rank in range(nodes)]
        self.lock = threading.Lock()
        self.changed = threading.Event()
        self._peers: dict[tuple[str, int], Peer] = {}
        self._unproven: dict[socket.socket, Connection] = {}
        self._most_unproven = STRANGERS + CALLS * nodes
        self._served = Served(known_as or host) if network.tls else None
        self.fingerprint = self._served.fingerprint if self._served else None
        self._gathers: dict[str, dict[int, Any]] = {}
        self._threads: list[threading.Thread] = []
        self._closing = False
        try:
            self._server = network.listen(host, BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"spark.driver.host: the nodes' channel cannot listen on {host} ({error.strerror or error}); "
                "set it to an address of this machine that the executors reach, or spark.driver.bindAddress to its own"
            ) from None
        self.address: tuple[str, int] = (known_as or host, self._server.getsockname()[1])
        self._accepting = threading.Thread(target=self._accept, name="nodes-accept", daemon=True)
        self._accepting.start()

    def tell(self, kind: str, ranks: Collection[int] | None = None, **message: Any) -> None:
        """Send to every node or launcher that has called, or to those of `ranks`: now, or when it calls again."""
        with self.lock:
            peers = [
                peer for (of, rank), peer in self._peers.items() if of == kind and (ranks is None or rank in ranks)
            ]
        text = text_of(message)  # once: a rendezvous of a thousand nodes is long
        for peer in peers:
            peer.tell(text)

    def alive(self) -> list[str]:
        """Who is connected, by names such as `node 1`."""
        with self.lock:
            return [f"{kind} {rank}" for (kind, rank), peer in self._peers.items() if peer.connected]

    def reservations(self) -> list[dict[str, Any] | None]:
        """What the nodes' tasks have told TensorFlowOnSpark of themselves, by rank; None where one has not yet."""
        with self.lock:
            return [record.reservation for record in self.records]

    def silent_launchers(self) -> list[int]:
        """The ranks whose launcher has missed beats."""
        with self.lock:
            links = [(record.rank, record.launcher) for record in self.records]
        now = time.monotonic()
        return [rank for rank, link in links if link and link.gone is None and now - link.heard > SILENT]

    def forgive(self, seconds: float) -> None:
        """Do not count the last `seconds`, for which the driver itself stood still, as silence or lack of progress.

        No more than those: what stands still again and again would never see that a node hangs.
        """
        now = time.monotonic()
        with self.lock:
            for record in self.records:
                for link in (record.node, record.launcher, record.task):
                    if link and link.gone is None:
                        link.heard = min(now, link.heard + seconds)
                    elif link and link.gone is not None:  # it may have called again, unheard
                        link.gone = min(now, link.gone + seconds)
                if record.progressed is not None:
                    record.progressed = min(now, record.progressed + seconds)
                record.excused = min(now, record.excused + seconds)
                if record.stopped is not None:
                    record.stopped = min(now, record.stopped + seconds)

    def close(self) -> None:
        """End every connection and free the port; idempotent."""
        self._closing = True
        # Closing alone would leave `accept` waiting.
        try:
            self._server.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("the channel was closed before")
        self._server.close()
        with self.lock:
            peers, strangers = list(self._peers.values()), list(self._unproven.values())
            threads = list(self._threads)
        for peer in peers:
            peer.close()
        for stranger in strangers:
            _end(stranger)
        end = time.monotonic() + 1
        for thread in (self._accepting, *threads):
            thread.join(max(0.0, end - time.monotonic()))

    def _accept(self) -> None:
        while (accepted := accept(self._server.accept, lambda: self._closing)) is not None:
            connection = accepted[0]
            with self.lock:
                if len(self._unproven) >= self._most_unproven:
                    _end(self._unproven.pop(next(iter(self._unproven))))
                self._unproven[connection] = connection
            thread = threading.Thread(target=self._serve, args=(connection,), name="nodes-serve", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no room for another thread, for the moment
                log.warning("a node was turned away: %s", error)
                with self.lock:
                    self._unproven.pop(connection, None)
                connection.close()
                continue
            with self.lock:
                self._threads = [old for old in self._threads if old.is_alive()] + [thread]

    def _serve(self, connection: socket.socket) -> None:
        opened: Connection = connection
        try:
            try:
                deadline = time.monotonic() + DEAD
                if self._served is not None:
                    limit_until(connection, deadline)
                    opened = encrypted = self._served.wrap(connection)
                    with self.lock:
                        if connection not in self._unproven:
                            raise ConnectionAbortedError("others have called meanwhile")
                        self._unproven[connection] = opened
                    encrypted.greet()
                wire = Wire(opened)
                hello = Hello.of(wire.challenge(self.secret, deadline), len(self.records))
            finally:
                with self.lock:
                    self._unproven.pop(connection, None)
            if hello is not None:
                wire.limit(ORPHAN)
                self._listen(wire, self.records[hello.rank], hello)
        except (OSError, ValueError, TypeError, OverflowError) as error:
            log.debug("a connection of the nodes' channel ended: %s", error)
        finally:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _listen(self, wire: Wire, record: NodeRecord, hello: Hello) -> None:
        peer = self._admitted(record, hello)
        if peer is None:
            wire.send({"refused": f"another process is {hello.kind} {hello.rank}"})
            return
        with self.lock:
            taken = peer.taken
        peer.resume(wire, hello.heard, taken)
        with self.lock:
            link = self._link(record, hello)
        self.changed.set()
        try:
            if self._closing:
                return
            for message in wire.lines():
                complete = self._take(record, hello.kind, link, peer, message)
                with suppress(OSError):  # what it said before it went is still there to be read
                    wire.send({"received": message.get("id")})
                if complete:
                    self.tell(hello.kind, **complete)
        finally:
            peer.lost(wire)
            with self.lock:
                if not self._peers[hello.kind, hello.rank].connected:  # a task may have called anew meanwhile
                    link.gone = time.monotonic()
            self.changed.set()

    def _admitted(self, record: NodeRecord, hello: Hello) -> Peer | None:
        """The one who calls; None where another process has its place."""
        with self.lock:
            place = (hello.kind, record.rank)
            known = self._peers.get(place)
            # A task that fails calls anew to say why, and the end of its first call may not have been read yet.
            if known is not None and known.life != hello.life and hello.kind != "task":
                return None
            if self._closing:
                return None
            if known is None or known.life != hello.life:
                known = self._peers[place] = Peer(hello.life)
            return known

    def _link(self, record: NodeRecord, hello: Hello) -> Link:
        now = time.monotonic()
        link: Link | None = getattr(record, hello.kind)
        if link is not None:
            link.heard, link.gone, link.again = now, None, now
            return link
        link = Link(host=hello.host, pid=hello.pid, heard=now)
        record.host = link.host
        setattr(record, hello.kind, link)
        if hello.kind == "node":
            record.progressed = now
        return link

    def _take(
        self, record: NodeRecord, kind: str, link: Link, peer: Peer, message: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Note what a message says, unless it came before; returns the answer for all of its kind if it completes a
        rendezvous."""
        now = time.monotonic()
        if "heard" in message:
            peer.heard(int(message["heard"]))
        with self.lock:
            link.heard = now
            if (number := int(message["id"])) <= peer.taken:
                return None
            peer.taken = number
            if "beat" in message or "state" in message:
                record.beaten(kind, dict(message.get("beat") or message.get("state") or {}), now)
            record.place = str(message.get("place", record.place))
            if "error" in message and record.error is None:
                record.error = (now, Failure(str(message.get("kind"))), str(message["error"]))
                # A task's launcher, if it had come so far, has not been lost: it has nothing more to say.
                record.ended = record.ended or ((now, 1) if kind == "task" else None)
            if "ended" in message:
                record.ended = (now, int(message["ended"]))
                record.output = [str(line) for line in message.get("output", [])]
                if message.get("killed_for_memory") is not None:
                    record.killed_for_memory = bool(message["killed_for_memory"])
            if kind == "node" and "result" in message:
                record.result, record.progressed = dict(message["result"]), now
            if kind == "node" and "gather" in message:
                values = self._gathers.setdefault(str(message["gather"]), {})
                values[record.rank] = message.get("value")
                if len(values) == len(self.records):
                    del self._gathers[str(message["gather"])]
                    ordered = [values[rank] for rank in range(len(self.records))]
                    return {"gathered": message["gather"], "values": ordered}
            if kind == "task" and "reserve" in message:
                record.reservation = dict(message["reserve"])
                if None not in (found := [each.reservation for each in self.records]):
                    self.changed.set()
                    return {"reserved": found}
        if "beat" not in message or message["beat"]:
            self.changed.set()
        return None


def _end(connection: Connection) -> None:
    """Have the thread that waits for it wake up and close it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
