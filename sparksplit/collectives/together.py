"""How the nodes of one host connect. The first node listens at a Unix socket without a file. The others call it, prove
that they know the run's secret, and receive the descriptors of the shared resources.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sparksplit.base.errors import RunError, SparksplitError
from sparksplit.collectives.handshake import answered, call
from sparksplit.collectives.segment import MOST_NODES, Segment, opened
from sparksplit.network.keys import derived

SECONDS = 10.0
"""Seconds for all nodes to call. They are told to call at the same time."""

_BACKLOG = 1024  # further callers are refused: a stranger needs many calls to keep a node out


class Apart(RunError):
    """The nodes cannot share memory. The text says why, and is the same on all nodes."""


@contextmanager
def meeting(gather: Callable[[str, Any], list[Any]]) -> Iterator[Meeting]:
    """Exchange where all nodes are. This node listens for the nodes of its host while the context lasts.

    gather(name, value): returns every rank's value, by rank.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        name, silent = secrets.token_hex(16), None
        try:
            server.bind(f"\0sparksplit-{name}")
            server.listen(_BACKLOG)
        except OSError as error:  # a sandbox may forbid it
            silent = error.strerror
        place, problem = _place()
        facts = gather("shared memory", [place, f"sparksplit-{name}", problem, silent])
        problem = next(filter(None, (each[2] for each in facts)), None)
        yield Meeting(server, [each[0] for each in facts], problem, [each[1] for each in facts], [e[3] for e in facts])


@dataclass(frozen=True)
class Meeting:
    """The facts about all nodes, by rank.

    places: equal for two nodes that can reach each other without a network.
    problem: why a node cannot share memory at all; None if every node can.
    names: the nodes' listening addresses.
    silent: why a node does not listen; None if it does.
    """

    server: socket.socket
    places: Sequence[str]
    problem: str | None
    names: Sequence[str]
    silent: Sequence[str | None]

    @property
    def apart(self) -> str | None:
        """Why the nodes are not all on one host; None if they are."""
        for rank, place in enumerate(self.places):
            if place != self.places[0]:
                same_kernel = place.split()[0] == self.places[0].split()[0]
                where = "in another network namespace than" if same_kernel else "on another host than"
                return f"node {rank} is {where} node 0"
        return None

    def segment(
        self,
        rank: int,
        runs: Sequence[range],
        secret: bytes,
        gather: Callable[[str, Any], list[Any]],
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> Segment:
        """Return the shared memory segment of node `rank` and the other nodes of its run. Every node of every run must
        call this.

        runs: groups of ranks; each run's nodes are in one place. Raise Apart, on every node or on none.
        """
        _refuse(self.problem)
        for run in runs:
            if len(run) > MOST_NODES:
                _refuse(f"{len(run)} nodes are more than the {MOST_NODES} that can share memory")
            if self.silent[run.start] and len(run) > 1:
                _refuse(f"node {run.start} cannot listen for the others: {self.silent[run.start]}")
        run = next(run for run in runs if rank in run)
        key, segment, problem = derived(secret, "shared memory"), None, None
        try:
            if rank == run.start:
                segment = _hand_out(self.server, run, key, waiting)
            else:
                segment = _take(f"\0{self.names[run.start]}", rank, run, key, waiting)
        except (OSError, MemoryError, SparksplitError) as error:
            text = (error.strerror if isinstance(error, OSError) else None) or str(error)
            problem = f"node {rank} cannot share memory with the others: {text}"
        try:
            # Gather all problems: the first node only sees that a node is missing; the missing node knows the reason.
            _refuse("; ".join(filter(None, gather("shared memory taken", problem))))
        except BaseException:
            if segment is not None:
                segment.close()
            raise
        assert segment is not None
        return segment


def runs_of(places: Sequence[str]) -> list[range]:
    """Return the groups of consecutive ranks in one place, in order."""
    begins = [rank for rank, place in enumerate(places) if rank == 0 or place != places[rank - 1]]
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], len(places)], strict=True)]


def spread(places: Sequence[str]) -> str:
    """Describe how the nodes are spread over hosts, and whether their ranks are grouped by host."""
    groups, on = len(runs_of(places)), Counter(places)
    text = f"{len(places)} nodes are on {len(on)} hosts, up to {max(on.values())} of them on one"
    if groups == len(on):
        return text
    return f"{text}; their ranks are not grouped by host, so {groups} groups exchange over TCP"


def _hand_out(server: socket.socket, run: range, key: bytes, waiting: Callable[[bool], None]) -> Segment:
    """The first node's part of `Meeting.segment`."""
    called = answered(server, run[1:], key, time.monotonic() + SECONDS)
    try:
        memory, bells, pipes = opened(len(run))
    except BaseException:
        for line in called.values():
            line.close()
        raise
    lines = {rank - run.start: cast(socket.socket, line) for rank, line in called.items()}
    ends = [pipe[1] if place == 0 else pipe[0] for place, pipe in enumerate(pipes)]
    try:
        for place, line in lines.items():
            theirs = [pipe[1] if other == place else pipe[0] for other, pipe in enumerate(pipes)]
            socket.send_fds(line, [b"s"], [memory, *bells, *theirs])
        return Segment(0, os.dup(memory), bells, ends, lines, waiting, run.start)
    except BaseException:
        for line in lines.values():
            line.close()
        for descriptor in (*bells, *ends):
            os.close(descriptor)
        raise
    finally:
        # Only one process may hold the writing end of a node's pipe: the node itself.
        for descriptor in (memory, pipes[0][0], *(pipe[1] for pipe in pipes[1:])):
            os.close(descriptor)


def _take(name: str, rank: int, run: range, key: bytes, waiting: Callable[[bool], None]) -> Segment:
    """Every other node's part of `Meeting.segment`."""
    size = len(run)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptors: list[int] = []
    try:
        line.settimeout(SECONDS)
        line.connect(name)
        call(line, rank, key, time.monotonic() + SECONDS)
        line.settimeout(SECONDS)  # the first node answers after all nodes have called
        descriptors = list(socket.recv_fds(line, 1, 2 * size + 1, socket.MSG_CMSG_CLOEXEC)[1])
        if len(descriptors) != 2 * size + 1:
            raise RunError(f"{len(descriptors)} of {2 * size + 1} descriptors arrived")
        line.setblocking(False)
        memory, descriptors = descriptors[0], descriptors[1:]
        return Segment(rank - run.start, memory, descriptors[:size], descriptors[size:], {0: line}, waiting, run.start)
    except BaseException:
        line.close()
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _place() -> tuple[str, str | None]:
    """Return (place, problem). Processes with equal places can reach each other by a Unix socket without a file.
    problem: why this process cannot share memory; None if it can.

    The place is the running kernel and the network namespace, because a container may have its own namespace.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return "", f"shared memory between nodes needs an x86 processor (this is {platform.machine()})"
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{kernel} {Path('/proc/self/ns/net').readlink()}", None
    except OSError as error:
        return "", f"this host cannot be identified: {error.filename}: {error.strerror}"


def _refuse(problem: str | None) -> None:
    if problem:
        raise Apart(problem)
