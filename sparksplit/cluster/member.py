"""A node's view of its cluster: its rank, what it was given, and its connection to the driver."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from hdfs_io import activity
from sparksplit.cluster.channel.limits import ORPHANED
from sparksplit.cluster.channel.line import Line, Post
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.leaving import Leaving
from sparksplit.network.listening import Network

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Start:
    """The launcher's message to the node, written to the node's stdin as one JSON object."""

    post: Post
    size: int
    work: str
    payload: dict[str, Any]
    tf_config: dict[str, Any]
    local_dir: str
    launcher: int


class Member(Protocol):
    """One node, real or virtual, as the work function sees it.

    rank, size: this node's number, 0 to size - 1, and N.
    payload: the dict given to NodeCluster.
    secret: shared by the nodes of this run and the driver, to authenticate connections between nodes.
    host: this node's address for the other nodes. Listen on this address, not on all interfaces.
    network: which ports to listen on, and whether to encrypt.
    tf_config: TF_CONFIG as TensorFlowOnSpark made it, with a `chief` and N - 1 `worker` entries.
    local_dir: an empty folder on Spark's local disks, removed when the node ends.
    stopping: set when the driver asks for an orderly end. Return from the work function soon after.
    leaving: set when only this node is asked to end. Return from the work function soon after.
    """

    rank: int
    size: int
    payload: dict[str, Any]
    secret: bytes
    host: str
    network: Network
    tf_config: dict[str, Any]
    local_dir: str
    stopping: threading.Event
    leaving: Leaving

    def state(self, **fields: Any) -> None:
        """Set fields of the state that the next heartbeat carries: JSON-able values or NumPy scalars.

        A call costs well under a microsecond. Any thread may call it. `update` counts as progress. `waiting` is true
        while this node waits for other nodes, so that it is not blamed if another node hangs.
        """

    def announce(self, **fields: Any) -> None:
        """Like `state`, but tell the driver at once."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Declare that no update is expected: start, compiling, feeding, validation, checkpoint, records,
        callbacks, export, measuring.

        Phases may be nested. The driver decides how long they may take.
        """

    def gather(self, name: str, value: Any, *, beside: bool = False) -> list[Any]:
        """Return the JSON-able `value` of every node, by rank. The call is also a barrier.

        Every node must call it with the same `name`. It waits for as long as the driver lets the run go on.
        beside: whether the call runs in a thread beside the work. The node then does not count as waiting.
        Raise RunError if the values of all nodes may be too long for a message of the driver.
        """

    def heard(self, name: str) -> Any:
        """Return what the driver has told this node under `name`; None if nothing yet."""

    def await_news(self, seconds: float) -> None:
        """Wait until the driver sends something, for at most `seconds`."""


class NodeMember(Member):
    """The member of a node that has its own process and its own connection to the driver."""

    def __init__(self, start: Start) -> None:
        self.rank, self.size = start.post.rank, start.size
        self.payload = start.payload
        self.secret = start.post.secret.encode()
        self.tf_config, self.local_dir = start.tf_config, start.local_dir
        # TensorFlow's servers take their reserved ports only when they start.
        servers = [server for job in self.tf_config.get("cluster", {}).values() for server in job]
        kept = {int(server.rpartition(":")[2]) for server in servers}
        self.network = replace(start.post.network, kept=tuple(sorted(kept)))
        self.stopping, self.leaving = threading.Event(), Leaving()
        self._launcher = start.launcher
        self._state: dict[str, Any] = {}
        self._gathered: dict[str, list[Any]] = {}
        self._told: dict[str, Any] = {}
        self._arrived = threading.Condition()
        self._line = Line(start.post, state=self._reported, on_message=self._message, on_silence=_end_as_orphan)
        self.host = start.post.network.address(self._line.address)

    def state(self, **fields: Any) -> None:
        self._state.update(fields)

    def announce(self, **fields: Any) -> None:
        self.state(**fields)
        self._line.send(state=self._reported())

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Like Member.phase."""
        before = self._state.get("phase")
        self._state.update(phase=name, phases=self._state.get("phases", 0) + 1)
        try:
            yield
        finally:
            self._state.update(phase=before, phases=self._state["phases"] + 1)

    def gather(self, name: str, value: Any, *, beside: bool = False) -> list[Any]:
        """Like Member.gather, through the driver."""
        waiting = self._state.get("waiting")
        if not beside:
            self.state(waiting=True)
        self._line.send(share=self.size, gather=name, value=value)
        with self._arrived:
            self._arrived.wait_for(lambda: name in self._gathered)
            values = self._gathered.pop(name)
        if not beside:
            self.state(waiting=waiting)
        return values

    def heard(self, name: str) -> Any:
        with self._arrived:
            return self._told.get(name)

    def await_news(self, seconds: float) -> None:
        with self._arrived:
            self._arrived.wait(seconds)

    def report_result(self, result: dict[str, Any]) -> bool:
        """Tell the driver the result. Return whether the driver got it. Raise RunError if the result is too long, and
        TypeError if it is not JSON-able."""
        return self._line.deliver(result=result, state=self._reported())

    def report_error(self, kind: Failure, text: str) -> bool:
        """Tell the driver what went wrong. Return whether the driver got it."""
        return self._line.deliver(error=text, kind=kind)

    def _reported(self) -> dict[str, Any]:
        return {**self._state, "done": activity.count()}

    def _message(self, message: dict[str, Any]) -> None:
        if "gathered" in message:
            with self._arrived:
                self._gathered[message["gathered"]] = message["values"]
                self._arrived.notify_all()
        elif "told" in message:
            with self._arrived:
                self._told[message["told"]] = message["value"]
                self._arrived.notify_all()
        elif "stop" in message:
            self.stopping.set()
            self._line.send(state=self._reported())  # a loss is counted from this state
        elif "end_launcher" in message and os.getppid() == self._launcher:
            # The launcher is stopped and cannot remove the folder after this node. The kernel ends this process
            # together with the launcher, so remove the folder now.
            shutil.rmtree(Path(self.local_dir).parent, ignore_errors=True)
            os.kill(self._launcher, signal.SIGKILL)


class MemberWithin(Member):
    """A view of another member: for one of its runs, or for a virtual node. What a subclass does not change, `member`
    does."""

    def __init__(self, member: Member) -> None:
        self.rank, self.size, self.payload = member.rank, member.size, member.payload
        self.host, self.secret, self.local_dir = member.host, member.secret, member.local_dir
        self.network, self.tf_config = member.network, member.tf_config
        self.stopping, self.leaving = member.stopping, member.leaving
        self._member = member

    def state(self, **fields: Any) -> None:
        self._member.state(**fields)

    def announce(self, **fields: Any) -> None:
        self._member.announce(**fields)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Like Member.phase."""
        return self._member.phase(name)

    def gather(self, name: str, value: Any, *, beside: bool = False) -> list[Any]:
        """Like Member.gather."""
        return self._member.gather(name, value, beside=beside)

    def heard(self, name: str) -> Any:
        return self._member.heard(name)

    def await_news(self, seconds: float) -> None:
        self._member.await_news(seconds)


class OneNode(MemberWithin):
    """A node that works as if there were no other node."""

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.rank, self.size = 0, 1


def _end_as_orphan(reason: str) -> None:
    log.error("this node ends: %s", reason)
    # The work function may be anywhere, even in a TensorFlow collective. No exception would reach it.
    os._exit(ORPHANED)
