"""The driver's end of the channel: a small server that keeps what nodes and launchers say, one NodeRecord per rank."""

from __future__ import annotations

import hmac
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
from sparksplit.cluster.faults import Link, NodeRecord
from sparksplit.cluster.wire import BACKLOG, DEAD, LONGEST_HELLO, ORPHAN, SILENT, Wire, accept, line_of

log = logging.getLogger(__name__)

KINDS = ("node", "launcher", "task")


@dataclass(frozen=True)
class Hello:
    """The first line sent by one of this run's processes."""

    kind: str
    rank: int
    pid: int
    host: str
    id: int

    @classmethod
    def of(cls, message: dict[str, Any] | None, secret: str, ranks: int) -> Hello | None:
        """`message` as a hello; None where it is not one of this run. Without the secret, nothing else is looked at."""
        values = message or {}
        given = values.get("secret")
        if not isinstance(given, str) or not hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode()):
            return None
        kind, rank, pid, number = (values.get(name, 0) for name in ("kind", "rank", "pid", "id"))
        if kind not in KINDS or any(type(value) is not int for value in (rank, pid, number)) or not 0 <= rank < ranks:
            return None
        return cls(kind, rank, pid, str(values.get("host")), number)


class Channel:
    """Serves `nodes` ranks on `host`, the driver's own address, at a free port.

    records: what is known, by rank; read and written under `lock`.
    changed: set whenever a record changes in a way that a waiting driver wants to see.
    Raises ConfigError where `host` is not an address of this machine.
    """

    def __init__(self, host: str, nodes: int) -> None:
        self.secret = secrets.token_hex(16)
        self.records = [NodeRecord(rank) for rank in range(nodes)]
        self.lock = threading.Lock()
        self.changed = threading.Event()
        self._wires: dict[tuple[str, int], Wire] = {}
        self._gathers: dict[str, dict[int, Any]] = {}
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._server.bind((host, 0))
        except OSError as error:
            self._server.close()
            raise ConfigError(
                f"spark.driver.host: the nodes' channel cannot listen on {host} ({error.strerror or error}); "
                "set it to an address of this machine that the executors reach"
            ) from None
        self._server.listen(BACKLOG)
        self.address: tuple[str, int] = self._server.getsockname()
        self._accepting = threading.Thread(target=self._accept, name="nodes-accept", daemon=True)
        self._accepting.start()

    def tell(self, kind: str, ranks: Collection[int] | None = None, **message: Any) -> None:
        """Send to every live node or launcher, or to those of `ranks`; whoever has gone does not hear it."""
        with self.lock:
            wires = [
                wire for (of, rank), wire in self._wires.items() if of == kind and (ranks is None or rank in ranks)
            ]
        line = line_of(message)  # once: a rendezvous of a thousand nodes is long
        for wire in wires:
            _send(wire, line)

    def alive(self) -> list[str]:
        """The connections that have not ended, by names such as `node 1`."""
        with self.lock:
            return [f"{kind} {rank}" for kind, rank in self._wires]

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
                for link in (record.node, record.launcher):
                    if link and link.gone is None:
                        link.heard = min(now, link.heard + seconds)
                if record.progressed is not None:
                    record.progressed = min(now, record.progressed + seconds)
                record.excused = min(now, record.excused + seconds)

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
            wires, threads = list(self._wires.values()), list(self._threads)
        for wire in wires:
            wire.close()
        end = time.monotonic() + 1
        for thread in (self._accepting, *threads):
            thread.join(max(0.0, end - time.monotonic()))

    def _accept(self) -> None:
        while (accepted := accept(self._server.accept, lambda: self._closing)) is not None:
            connection = accepted[0]
            thread = threading.Thread(target=self._serve, args=(connection,), name="nodes-serve", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no room for another thread, for the moment
                log.warning("a node was turned away: %s", error)
                connection.close()
                continue
            with self.lock:
                self._threads = [old for old in self._threads if old.is_alive()] + [thread]

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                wire = Wire(connection)
                hello = Hello.of(wire.line(LONGEST_HELLO, within=DEAD), self.secret, len(self.records))
                if hello is not None:
                    wire.limit(ORPHAN)
                    self._listen(wire, self.records[hello.rank], hello)
            except (OSError, ValueError, TypeError, OverflowError) as error:
                log.debug("a connection of the nodes' channel ended: %s", error)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _listen(self, wire: Wire, record: NodeRecord, hello: Hello) -> None:
        kind, now = hello.kind, time.monotonic()
        link = Link(host=hello.host, pid=hello.pid, heard=now)
        with self.lock:
            if self._closing or (kind, record.rank) in self._wires or (kind != "task" and getattr(record, kind)):
                return
            self._wires[kind, record.rank] = wire
            record.host = link.host
            if kind != "task":
                setattr(record, kind, link)
            if kind == "node":
                record.progressed = now
        self.changed.set()
        try:
            _send(wire, line_of({"received": hello.id}))
            for message in wire.lines():
                complete = self._take(record, kind, link, message)
                _send(wire, line_of({"received": message.get("id")}))
                if complete:
                    self.tell("node", **complete)
        finally:
            with self.lock:
                link.gone = time.monotonic()
                del self._wires[kind, record.rank]
            self.changed.set()

    def _take(self, record: NodeRecord, kind: str, link: Link, message: dict[str, Any]) -> dict[str, Any] | None:
        """Note what a message says; returns the answer for all nodes if it completes a rendezvous."""
        now = time.monotonic()
        with self.lock:
            link.heard = now
            if kind == "node" and ("beat" in message or "state" in message):
                record.observe(dict(message.get("beat") or message.get("state") or {}), now)
            if "error" in message and record.error is None:
                record.error = (now, str(message.get("kind")), str(message["error"]))
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
        if "beat" not in message or message["beat"]:
            self.changed.set()
        return None


def _send(wire: Wire, line: bytes) -> None:
    try:
        wire.send_line(line)
    except OSError as error:
        # The serving thread sees the end of this connection and notes it.
        log.debug("could not send %s: %s", line[:100], error)
