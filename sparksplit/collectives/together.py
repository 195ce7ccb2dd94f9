"""How the nodes of one host come together: the first one listens at a Unix socket without a file, the others call it,
prove that they know the run's secret, and are handed what all have in common.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import time
from collections.abc import Callable, Sequence
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


def together(
    rank: int,
    size: int,
    secret: bytes,
    gather: Callable[[str, Any], list[Any]],
    waiting: Callable[[bool], None] = lambda _: None,
) -> Segment:
    """What this node and all others have in common.

    gather(name, value): every rank's value, by rank. Raises Apart, on every node or on none.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name = f"\0sparksplit-{secrets.token_hex(16)}"
        place, problem = _place(size)
        if rank == 0 and problem is None:
            try:
                server.bind(name)
                server.listen(_BACKLOG)
            except OSError as error:  # what confines processes may forbid it
                problem = f"node 0 cannot listen for the others: {error.strerror}"
        found = gather("shared memory", [place, name[1:], problem])
        _refuse(next(filter(None, (each[2] for each in found)), None) or _apart([each[0] for each in found]))
        key, segment = derived(secret, "shared memory"), None
        try:
            if rank == 0:
                segment = _hand_out(server, size, key, waiting)
            else:
                segment = _take(f"\0{found[0][1]}", rank, size, key, waiting)
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
    finally:
        server.close()


def _hand_out(server: socket.socket, size: int, key: bytes, waiting: Callable[[bool], None]) -> Segment:
    """The first node's part."""
    peers = answered(server, range(1, size), key, time.monotonic() + SECONDS)
    try:
        memory, bells, pipes = opened(size)
    except BaseException:
        for line in peers.values():
            line.close()
        raise
    lines = cast(dict[int, socket.socket], peers)
    ends = [own[1] if rank == 0 else own[0] for rank, own in enumerate(pipes)]
    try:
        for rank, line in lines.items():
            theirs = [own[1] if other == rank else own[0] for other, own in enumerate(pipes)]
            socket.send_fds(line, [b"s"], [memory, *bells, *theirs])
        return Segment(0, os.dup(memory), bells, ends, lines, waiting)
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


def _take(name: str, rank: int, size: int, key: bytes, waiting: Callable[[bool], None]) -> Segment:
    """Every other node's part."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptors: list[int] = []
    try:
        line.settimeout(SECONDS)
        line.connect(name)
        call(line, rank, key)
        descriptors = list(socket.recv_fds(line, 1, 2 * size + 1, socket.MSG_CMSG_CLOEXEC)[1])
        if len(descriptors) != 2 * size + 1:
            raise RunError(f"{len(descriptors)} of {2 * size + 1} descriptors arrived")
        line.setblocking(False)
        memory, descriptors = descriptors[0], descriptors[1:]
        return Segment(rank, memory, descriptors[:size], descriptors[size:], {0: line}, waiting)
    except BaseException:
        line.close()
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _place(size: int) -> tuple[str, str | None]:
    """(what two processes must have in common to reach each other by a Unix socket without a file, why this one cannot
    share memory with `size` - 1 others or None).

    It is the running kernel, and the network namespace: a container may have its own.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return "", f"shared memory between nodes needs x86's order of writes (this is {platform.machine()})"
    if size > MOST_NODES:
        return "", f"{size} nodes are more than the {MOST_NODES} that can share memory"
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{kernel} {Path('/proc/self/ns/net').readlink()}", None
    except OSError as error:
        return "", f"which host this is cannot be told: {error.filename}: {error.strerror}"


def _apart(places: Sequence[str]) -> str | None:
    for rank, place in enumerate(places):
        if place != places[0]:
            same_kernel = place.split()[0] == places[0].split()[0]
            where = "in another network namespace than" if same_kernel else "on another host than"
            return f"node {rank} is {where} node 0"
    return None


def _refuse(problem: str | None) -> None:
    if problem:
        raise Apart(problem)
