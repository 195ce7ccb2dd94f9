"""The driver's end of the channel: a small server that records what nodes and launchers report, one NodeRecord per
rank."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sparksplit.base.errors import ConfigError
from sparksplit.cluster.channel.limits import ORPHAN, SILENT
from sparksplit.cluster.channel.peer import Peer
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.node_record import Link, NodeRecord
from sparksplit.network.callers import Callers
from sparksplit.network.listening import ANY, Network
from sparksplit.network.tls import Connection, Served
from sparksplit.network.wire import Wire, text_of

BACKLOG = 4096
"""Calls that may wait to be accepted. All nodes of a run call at once, and the system rejects further calls."""
KINDS = ("node", "launcher", "task")
CALLS = 2
"""Calls of each node's processes that may come at the same time."""
STRANGERS = 256
"""Further callers that may be unauthenticated at the same time. The next caller replaces the oldest."""


@dataclass(frozen=True)
class Hello:
    """How a process of this run introduces itself.

    life: the same whenever this process calls.
    heard: how many of the driver's messages the process has had.
    """

    kind: str
    rank: int
    pid: int
    host: str
    life: str
    heard: int

    @classmethod
    def of(cls, message: dict[str, Any], ranks: int) -> Hello | None:
        """Return `message` as a Hello; None if it is not a hello of this run."""
        kind, rank, pid, heard = (message.get(name, 0) for name in ("kind", "rank", "pid", "heard"))
        if kind not in KINDS or any(type(value) is not int for value in (rank, pid, heard)) or not 0 <= rank < ranks:
            return None
        return cls(kind, rank, pid, str(message.get("host")), str(message.get("life")), heard)


class Channel:
    """Serves `nodes` ranks on `host`, an address of the driver.

    network: which ports to use, and whether to encrypt.
    known_as: the address by which nodes reach the driver. None: `host`.
    records: the NodeRecords by rank. Read and write them under `lock`.
    changed: set whenever a record changes in a way that a waiting driver wants to see.
    fingerprint: fingerprint of the driver's certificate; None without TLS.

    Raise ConfigError if the driver cannot listen on `host`, for example because it is not an address of this machine.
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
        served = Served(known_as or host) if network.tls else None
        self.fingerprint = served.fingerprint if served else None
        self._gathers: dict[str, dict[int, Any]] = {}
        self._closing = False
        try:
            server = network.listen(host, BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"spark.driver.host: the nodes' channel cannot listen on {host} ({error.strerror or error}); "
                "set it to an address of this machine that the executors reach, or spark.driver.bindAddress to its own"
            ) from None
        self.address: tuple[str, int] = (known_as or host, server.getsockname()[1])
        self.callers = Callers(server, self.secret.encode(), self._serve, STRANGERS + CALLS * nodes, served)

    def tell(self, kind: str, ranks: Collection[int] | None = None, **message: Any) -> None:
        """Send a message to every process of `kind` that has called, or to the given `ranks`. A disconnected process
        gets it when it calls again."""
        with self.lock:
            peers = [
                peer for (of, rank), peer in self._peers.items() if of == kind and (ranks is None or rank in ranks)
            ]
        text = text_of(message)  # encoded once, because the values of a thousand nodes are long
        for peer in peers:
            peer.tell(text)

    def alive(self) -> list[str]:
        """Return the connected processes, by names such as `node 1`."""
        with self.lock:
            return [f"{kind} {rank}" for (kind, rank), peer in self._peers.items() if peer.connected]

    def reservations(self) -> list[dict[str, Any] | None]:
        """Return the reservations that the nodes' tasks have made for TensorFlowOnSpark, by rank; None for a task
        without one."""
        with self.lock:
            return [record.reservation for record in self.records]

    def silent_launchers(self) -> list[int]:
        """Return the ranks whose launcher has missed heartbeats."""
        with self.lock:
            links = [(record.rank, record.launcher) for record in self.records]
        now = time.monotonic()
        return [rank for rank, link in links if link and link.gone is None and now - link.heard > SILENT]

    def forgive(self, seconds: float) -> None:
        """Do not count the last `seconds` as silence or lack of progress, because the driver itself stood still.

        Forgive no more than these seconds. Otherwise a driver that often stands still would never notice a hanging
        node.
        """
        now = time.monotonic()
        with self.lock:
            for record in self.records:
                for link in (record.node, record.launcher, record.task):
                    if link and link.gone is None:
                        link.heard = min(now, link.heard + seconds)
                    elif link and link.gone is not None:  # it may have called again, unread
                        link.gone = min(now, link.gone + seconds)
                if record.progressed is not None:
                    record.progressed = min(now, record.progressed + seconds)
                record.excused = min(now, record.excused + seconds)
                if record.stopped is not None:
                    record.stopped = min(now, record.stopped + seconds)

    def close(self) -> None:
        """End every connection and free the port. May be called twice."""
        self._closing = True
        self.callers.close()
        with self.lock:
            peers = list(self._peers.values())
        for peer in peers:
            peer.close()
        self.callers.join(1)

    def _serve(self, _: Connection, wire: Wire, message: dict[str, Any]) -> bool:
        """Listen to an authenticated caller until its connection ends."""
        hello = Hello.of(message, len(self.records))
        if hello is not None:
            wire.limit(ORPHAN)
            self._listen(wire, self.records[hello.rank], hello)
        return False

    def _listen(self, wire: Wire, record: NodeRecord, hello: Hello) -> None:
        peer = self._admitted(record, hello)
        if peer is None:
            if not self._closing:
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
                with suppress(OSError):  # messages that it sent before its end can still be read
                    wire.send({"received": message.get("id")})
                if complete:
                    self.tell(hello.kind, **complete)
        finally:
            peer.lost(wire)
            with self.lock:
                if not self._peers[hello.kind, hello.rank].connected:  # a task may have called again meanwhile
                    link.gone = time.monotonic()
            self.changed.set()

    def _admitted(self, record: NodeRecord, hello: Hello) -> Peer | None:
        """Return the caller's Peer; None if another process has its place, or if the channel is closing."""
        with self.lock:
            place = (hello.kind, record.rank)
            known = self._peers.get(place)
            # A task that fails calls again to say why. The end of its first call may not have been read yet.
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
        """Note what a message says, unless it came before. If it completes a rendezvous, return the answer for all
        processes of its kind."""
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
                # After a task's error, the node counts as ended. Then a launcher that goes silent does not count as
                # lost.
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
                if None not in (reservations := [each.reservation for each in self.records]):
                    self.changed.set()
                    return {"reserved": reservations}
        if "beat" not in message or message["beat"]:
            self.changed.set()
        return None
