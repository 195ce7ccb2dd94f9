"""How the nodes of one host come together: the first one listens at a Unix socket without a file, the others call it,
prove that they know the run's secret, and are handed what all have in common.
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
"""For all nodes to call; they are told to at the same time."""

_BACKLOG = 1024  # beyond it who calls is refused: a stranger needs many calls to keep a node out


class Apart(RunError):
    """The nodes cannot share memory; its text says why, and is the same on all of them."""


@contextmanager
def meeting(gather: Callable[[str, Any], list[Any]]) -> Iterator[Meeting]:
    """Where all nodes are; this one listens for those of its host while the context lasts.

    gather(name, value): every rank's value, by rank.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        name, silent = secrets.token_hex(16), None
        try:
            server.bind(f"\0sparksplit-{name}")
            server.listen(_BACKLOG)
        except OSError as error:  # what confines processes may forbid it
            silent = error.strerror
        place, problem = _place()
        found = gather("shared memory", [place, f"sparksplit-{name}", problem, silent])
        problem = next(filter(None, (each[2] for each in found)), None)
        yield Meeting(server, [each[0] for each in found], problem, [each[1] for each in found], [e[3] for e in found])


@dataclass(frozen=True)
class Meeting:
    """What every node knows of all, by rank.

    places: equal for two nodes that can reach each other without a network. problem: why one of them cannot share
    memory at all; None where each can. names: where they listen. silent: why one does not; None where it does.
    """

    server: socket.socket
    places: Sequence[str]
    problem: str | None
    names: Sequence[str]
    silent: Sequence[str | None]

    @property
    def apart(self) -> str | None:
        """Why the nodes are not all on one host; None where they are."""
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
        """What node `rank` and the others of its run have in common; every node of every run must call it.

        runs: ranks, of which those of one run are in one place. Raises Apart, on every node or on none.
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
            # All of them: the first node only sees that another one does not come, and that one knows why.
            _refuse("; ".join(filter(None, gather("shared memory taken", problem))))
        except BaseException:
            if segment is not None:
                segment.close()
            raise
        assert segment is not None
        return segment


def runs_of(places: Sequence[str]) -> list[range]:
    """The ranks that follow one another in one place, in their order."""
    begins = [rank for rank, place in enumerate(places) if rank == 0 or place != places[rank - 1]]
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], len(places)], strict=True)]


def spread(places: Sequence[str]) -> str:
    """How nodes that share hosts are spread over them, and whether by rank they are host by host."""
    groups, on = len(runs_of(places)), Counter(places)
    text = f"{len(places)} nodes are on {len(on)} hosts, up to {max(on.values())} of them on one"
    if groups == len(on):
        return text
    return f"{text}; their ranks are not grouped by host, so {groups} groups exchange over TCP"


def _hand_out(server: socket.socket, run: range, key: bytes, waiting: Callable[[bool], None]) -> Segment:
    """The first node's part."""
    called = answered(server, run[1:], key, time.monotonic() + SECONDS)
    try:
        memory, bells, pipes = opened(len(run))
    except BaseException:
        for line in called.values():
            line.close()
        raise
    lines = {rank - run.start: cast(socket.socket, line) for rank, line in called.items()}
    ends = [own[1] if place == 0 else own[0] for place, own in enumerate(pipes)]
    try:
        for place, line in lines.items():
            theirs = [own[1] if other == place else own[0] for other, own in enumerate(pipes)]
            socket.send_fds(line, [b"s"], [memory, *bells, *theirs])
        return Segment(0, os.dup(memory), bells, ends, lines, waiting, run.start)
    except BaseException:
        for line in lines.values():
            line.close()
        for descriptor in (*bells, *ends):
            os.close(descriptor)
        raise
    finally:
        # Each node alone holds the end by which its own end is noticed.
        for descriptor in (memory, pipes[0][0], *(own[1] for own in pipes[1:])):
            os.close(descriptor)


def _take(name: str, rank: int, run: range, key: bytes, waiting: Callable[[bool], None]) -> Segment:
    """Every other node's part."""
    size = len(run)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptors: list[int] = []
    try:
        line.settimeout(SECONDS)
        line.connect(name)
        call(line, rank, key, time.monotonic() + SECONDS)
        line.settimeout(SECONDS)  # until the last of the others has called, too
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
    """(what two processes must have in common to reach each other by a Unix socket without a file, why this one cannot
    share memory with others or None).

    It is the running kernel, and the network namespace: a container may have its own.
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
