"""What the nodes of one host have in common: memory without a name, and how they wake and miss one another.

The memory is sealed memfds, which are in no file system and are gone with the last process that maps them, however it
ends. Their pages are allocated before they are used: what the machine has no room for is an error, not a signal; but a
control group kills a process that goes beyond its limit. Each node has a bell (an eventfd, which all others ring) and a
life (a pipe whose writing end it alone holds, so that all others see when it ends, in whatever way).

Counters tell how far a node is: it writes its data, then its counter; who sees the counter sees the data. This needs a
processor that makes a core's writes visible in their order, as x86 does and ARM does not.
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
"""The counters: of chunks that a node has put into its slots, and of chunks that it has summed its part of."""
SLOT_BYTES = 1 << 20
"""Of one chunk, which costs two waits; what passes between nodes still stays in the processor's cache."""
SLOTS = 3
"""Chunks that a node may be ahead."""
MOST_NODES = 100
"""A message between processes takes 253 descriptors; a node needs two of every other."""

_LINE = 128  # bytes: no two nodes write to one cache line, or to a pair that is fetched at once
_ALONE = 5e-6  # seconds of polling before yielding the core, which others may then keep for milliseconds
_SPIN = 200e-6  # seconds of polling before sleeping: waking up takes longer than most waits
_GRAIN = 1 << 20
_ADD_SEALS, _SEALS = 1033, 1 | 2 | 4  # against other seals, shrinking, growing; not every Python has names for them


class Segment:
    """A node's view of it.

    bells: every node's eventfd, by rank. lives: the pipes' ends, by rank: the own one to hold, the others' to watch.
    lines: connections from the first node to each other one, over which it hands out more memory; from another one, to
    the first. waiting: called with True when a peer keeps this node waiting, with False when it goes on. number: what
    messages call the first node; ranks count from there.
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
        """For each of SLOTS chunks in turn, every node's slot, by rank."""
        data = np.frombuffer(self._memory, np.uint8)[2 * self.size * _LINE :]
        return [
            [
                data[place * SLOT_BYTES : (place + 1) * SLOT_BYTES].view(dtype)
                for place in range(turn * self.size, (turn + 1) * self.size)
            ]
            for turn in range(SLOTS)
        ]

    def tell(self, counter: int, value: int) -> None:
        """Set this node's counter, and wake whoever waits for it."""
        self._counts[self._place(counter, self.rank)] = value
        for other in self._others:
            os.eventfd_write(self._bells[other], 1)

    def wait(self, counter: int, value: int) -> None:
        """Until that counter of every other node is at least `value`.

        A peer is waited for as long as the driver lets it be. Raises PeerLost once one that is not there yet has gone.
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
                    os.sched_yield()  # the other node may be waiting for this very core

    def renew(self, size: int) -> None:
        """Replace `results`, by shared memory of at least `size` bytes; every node must call it with the same size.

        What lies in the one before stays valid for as long as an array refers to it. Raises MemoryError where there is
        no room, which the other nodes see as this one's end.
        """
        size = -(-max(size, self.results.size * 3 // 2) // _GRAIN) * _GRAIN
        if self.rank == 0:
            memory = allocated(size)
            for line in self._lines.values():
                try:
                    socket.send_fds(line, [b"m"], [memory])
                except (BrokenPipeError, ConnectionResetError):
                    continue  # it has gone: that is told where this node waits for it
                except OSError as error:
                    # It would wait for ever. With this node's own end, it sees why.
                    os.close(memory)
                    raise MemoryError(f"memory cannot be shared any more: {error.strerror}") from None
        else:
            line = self._lines[0]
            waiting = select.poll()
            waiting.register(line, select.POLLIN)
            if not waiting.poll(0):
                self._sleep(lambda: bool(waiting.poll(0)), None, 0, line.fileno())
            try:
                found = socket.recv_fds(line, 1, 1, socket.MSG_CMSG_CLOEXEC)[1]
            except OSError as error:
                raise PeerLost(f"lost the connection to node {self._number}: {error.strerror}") from None
            if not found:
                raise PeerLost(f"node {self._number} closed its connection")
            memory = found[0]
        try:
            self.results = np.frombuffer(_mapped(memory), np.uint8)
        finally:
            os.close(memory)

    def close(self) -> None:
        """Let go of everything; may be called twice. Memory goes with the last array in it."""
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
        """Until `over`, looking again whenever the bell rings, something comes at `more`, or a peer has gone.

        counter, value: what is waited for; None: something that node 0 sends. Raises PeerLost.
        """
        waiting = select.poll()
        bell = self._bells[self.rank]
        for descriptor in (bell,) if more is None else (bell, more):
            waiting.register(descriptor, select.POLLIN)
        for life in self._owners:
            waiting.register(life, 0)  # an end is always told
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
                        waiting.unregister(descriptor)  # it had done its part
        finally:
            if idle:
                self._waiting(False)

    def _gone(self, other: int, over: Callable[[], bool], counter: int | None, value: int) -> None:
        """Raise PeerLost if `other`, which has gone, is one of those waited for."""
        if over():
            return
        if other == 0 if counter is None else not self._has(other, counter, value):
            raise PeerLost(f"node {self._number + other} closed its connection")


def opened(size: int) -> tuple[int, list[int], list[tuple[int, int]]]:
    """(memory, bells, pipes as (read end, write end)) for `size` nodes: descriptors. Raises OSError, MemoryError."""
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
    """The descriptor of `size` bytes of memory without a name, there and staying. Raises MemoryError, OSError."""
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
    """All of it, with its pages: the first sums would pay for them otherwise."""
    return mmap.mmap(memory, os.fstat(memory).st_size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
