"""Shared resources of the nodes of one host: unnamed memory, and the means to wake each other and to notice a lost
node.

The memory is sealed memfds. They are in no file system, and they disappear with the last process that maps them,
however it ends. Their pages are allocated before use, so lack of memory is an error, not a signal. But a control group
kills a process that exceeds its limit.

Each node has a bell: an eventfd that all other nodes write to. Each node has a life: a pipe whose writing end only that
node holds, so that all others see when the node ends, in any way.

Counters show each node's progress. A node writes its data, then its counter, so a node that sees the counter also sees
the data. This needs a processor that makes a core's writes visible in order, as x86 does and ARM does not.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sparksplit.base.errors import PeerLost
from sparksplit.base.unnamed import unnamed
from sparksplit.collectives.base import Array

PUT, DONE = range(2)
"""The counters: chunks that a node has put into its slots, and chunks of which it has summed its part."""
SLOT_BYTES = 1 << 20
"""Bytes of one chunk's slot. A chunk costs two waits. This size still fits the processor's cache on its way between
nodes.
"""
SLOTS = 3
"""Number of chunks that a node may be ahead."""
MOST_NODES = 100
"""A message between processes carries at most 253 descriptors, and a node needs two for every other node."""

_LINE = 128  # bytes: no two nodes write to one cache line, or to two lines that are fetched together
_ALONE = 5e-6  # seconds of polling before yielding the core, which other processes may then keep for milliseconds
_SPIN = 200e-6  # seconds of polling before sleeping: waking up takes longer than most waits
_GRAIN = 1 << 20
_ADD_SEALS, _SEALS = 1033, 1 | 2 | 4  # no more seals, no shrinking, no growing; not every Python names these constants


class Segment:
    """One node's view of the shared memory.

    bells: every node's eventfd, by rank.
    lives: pipe ends, by rank: this node's own end to hold, the others' ends to watch.
    lines: on the first node: connections to each other node, to send them more memory. On any other node: the
        connection to the first.
    waiting: called with True when a peer makes this node wait, and with False when the work goes on.
    number: the first node's rank in messages; the other ranks follow it.
    """

    def __init__(
        self,
        rank: int,
        memory: int,
        bells: Sequence[int],
        lives: Sequence[int],
        lines: Mapping[int, socket.socket],
        waiting: Callable[[bool], None] = lambda _: None,
        number: int = 0,
    ) -> None:
        self.rank, self.size, self._number = rank, len(bells), number
        self._bells, self._lives, self._lines, self._waiting = list(bells), list(lives), dict(lines), waiting
        self._others = [other for other in range(self.size) if other != rank]
        self._owners = {lives[other]: other for other in self._others}
        try:
            self._memory = _mapped(memory)
        finally:
            os.close(memory)
        self._alone = _ALONE if len(os.sched_getaffinity(0)) > 1 else 0.0
        self._counts = memoryview(self._memory).cast("q")
        self.results = np.zeros(0, np.uint8)
        self._closed = False

    def slots(self, dtype: np.dtype[Any]) -> list[list[Array]]:
        """Return every node's slot, by rank, for each of SLOTS chunks in turn."""
        data = np.frombuffer(self._memory, np.uint8)[2 * self.size * _LINE :]
        return [
            [
                data[place * SLOT_BYTES : (place + 1) * SLOT_BYTES].view(dtype)
                for place in range(turn * self.size, (turn + 1) * self.size)
            ]
            for turn in range(SLOTS)
        ]

    def tell(self, counter: int, value: int) -> None:
        """Set this node's counter, and wake the nodes that wait for it."""
        self._counts[self._place(counter, self.rank)] = value
        for other in self._others:
            os.eventfd_write(self._bells[other], 1)

    def wait(self, counter: int, value: int) -> None:
        """Wait until this counter of every other node is at least `value`.

        This node waits for a peer as long as the driver allows. Raise PeerLost if a peer ends before its counter
        reaches `value`.
        """
        counts = self._counts
        for other in self._others:
            place = self._place(counter, other)
            if counts[place] >= value:
                continue
            began = time.perf_counter()
            while counts[place] < value:
                spent = time.perf_counter() - began
                if spent > _SPIN:
                    self._sleep(partial(self._has, other, counter, value), counter, value)
                elif spent > self._alone:
                    os.sched_yield()  # the other node may need this core

    def renew(self, size: int) -> None:
        """Replace `results` by shared memory of at least `size` bytes. Every node must call this with the same size.

        The old memory stays valid as long as an array refers to it. Raise MemoryError if there is no memory left; the
        other nodes then see this node end.
        """
        size = -(-max(size, self.results.size * 3 // 2) // _GRAIN) * _GRAIN
        if self.rank == 0:
            memory = allocated(size)
            for line in self._lines.values():
                try:
                    socket.send_fds(line, [b"m"], [memory])
                except (BrokenPipeError, ConnectionResetError):
                    continue  # that node has ended; the next wait for it reports that
                except OSError as error:
                    # That node would wait forever. This error ends this node, and that node notices the end.
                    os.close(memory)
                    problem = f"the nodes of this host cannot share further memory: {error.strerror}"
                    raise MemoryError(problem) from None
        else:
            line = self._lines[0]
            waiting = select.poll()
            waiting.register(line, select.POLLIN)
            if not waiting.poll(0):
                self._sleep(lambda: bool(waiting.poll(0)), None, 0, line.fileno())
            try:
                descriptors = socket.recv_fds(line, 1, 1, socket.MSG_CMSG_CLOEXEC)[1]
            except OSError as error:
                raise PeerLost(f"lost the connection to node {self._number}: {error.strerror}") from None
            if not descriptors:
                raise PeerLost(f"node {self._number} closed its connection")
            memory = descriptors[0]
        try:
            self.results = np.frombuffer(_mapped(memory), np.uint8)
        finally:
            os.close(memory)

    def close(self) -> None:
        """Release everything. May be called twice. Memory is freed with the last array in it."""
        if self._closed:
            return
        self._closed = True
        for descriptor in (*self._bells, *self._lives):
            os.close(descriptor)
        for line in self._lines.values():
            line.close()
        self.results = np.zeros(0, np.uint8)

    def _has(self, other: int, counter: int, value: int) -> bool:
        return self._counts[self._place(counter, other)] >= value

    def _place(self, counter: int, rank: int) -> int:
        return (counter * self.size + rank) * (_LINE // 8)

    def _sleep(self, over: Callable[[], bool], counter: int | None, value: int, more: int | None = None) -> None:
        """Sleep until `over` is true. Check again when the bell rings, when data arrives at `more`, or when a peer has
        ended.

        counter, value: what this node waits for. counter None: a message from node 0. Raise PeerLost.
        """
        waiting = select.poll()
        bell = self._bells[self.rank]
        for descriptor in (bell,) if more is None else (bell, more):
            waiting.register(descriptor, select.POLLIN)
        for life in self._owners:
            waiting.register(life, 0)  # poll always reports an end
        idle = False
        try:
            while not over():
                events = waiting.poll(1000)
                if not events and not idle:
                    idle = True
                    self._waiting(True)
                for descriptor, _ in events:
                    if descriptor == bell:
                        os.eventfd_read(bell)
                    elif descriptor in self._owners:
                        self._gone(self._owners[descriptor], over, counter, value)
                        waiting.unregister(descriptor)  # that node had finished its part
        finally:
            if idle:
                self._waiting(False)

    def _gone(self, other: int, over: Callable[[], bool], counter: int | None, value: int) -> None:
        """Raise PeerLost if this node waits for `other`, which has ended."""
        if over():
            return
        if other == 0 if counter is None else not self._has(other, counter, value):
            raise PeerLost(f"node {self._number + other} closed its connection")


def opened(size: int) -> tuple[int, list[int], list[tuple[int, int]]]:
    """Return the descriptors for `size` nodes: (memory, bells, pipes as (read end, write end)). Raise OSError or
    MemoryError.
    """
    descriptors: list[int] = []
    try:
        descriptors.append(allocated(2 * size * _LINE + SLOTS * size * SLOT_BYTES))
        for _ in range(size):
            descriptors.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        for _ in range(size):
            descriptors.extend(os.pipe())
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    ends = descriptors[1 + size :]
    return descriptors[0], descriptors[1 : 1 + size], list(zip(ends[::2], ends[1::2], strict=True))


def allocated(size: int) -> int:
    """Return the descriptor of `size` bytes of unnamed memory, allocated and sealed. Raise MemoryError or OSError."""
    memory = unnamed("sparksplit", sealable=True)
    try:
        os.posix_fallocate(memory, 0, size)
        fcntl.fcntl(memory, _ADD_SEALS, _SEALS)
    except OSError as error:
        os.close(memory)
        raise MemoryError(
            f"cannot get {size:,} bytes of memory that the nodes of one host share: {error.strerror}"
        ) from None
    return memory


def _mapped(memory: int) -> mmap.mmap:
    """Map the whole memory and its pages now, so that the first sums do not pay for that."""
    return mmap.mmap(memory, os.fstat(memory).st_size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
