"""How long a step takes on fewer and on more nodes, measured before the first update of a run with `strategy: auto`.

Every step is on the rows of the same mini-batch. On one node, the first node makes the step without exchanges, while
the others wait. On n nodes, the first n nodes have equal shares of the rows, and the others have none. So nodes that
share a host slow each other down as they will in training. All nodes exchange, which takes longer than an exchange of
n nodes: a ring of n nodes sends (n - 1) / n of its bytes twice. The difference is taken off.

Rows come from memory. If a run reads its rows again in each epoch, or transforms them, a step takes at least as long
as a node needs to read its share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hdfs_io import activity
from sparksplit.base.errors import RunError
from sparksplit.cluster.member import OneNode
from sparksplit.collectives import Alone, Collective
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import Feed, RowSource
from sparksplit.rows.samples import Again, Sample, part, share_of
from sparksplit.training.node.feeds import Feeds
from sparksplit.training.node.process import Process

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.training.node.compiled.step import Step

SECONDS = 6.0
"""Seconds after which no further number of nodes between one and all is measured. Graphs are made before."""
_BLOCK, _BLOCKS = 0.2, 3
"""Seconds of a block of steps, and the number of blocks. Their median counts."""
_SAMPLED, _SAMPLED_BYTES = 4, 64 << 20
"""The mini-batches in the sample of the rows, and the most bytes of these, but always one mini-batch."""
_NO_LIMIT = 1 << 20


def choose(process: Process, member: Member, collective: Collective, step: Step) -> None:
    """Measure, tell the driver, and wait until it has noted its choice. Every node must call this.

    The state of the run stays as it is. step: the step that the run will train with.
    """
    with member.phase("measuring"):
        seconds = measured(process, member, collective, step)
        if member.rank == 0:
            member.announce(step_seconds={str(nodes): value for nodes, value in seconds.items()})
        member.state(waiting=True)
        while member.heard("chosen") is None:
            if member.stopping.is_set():
                raise RunError("stopped by the driver")
            member.await_news(0.5)
        member.state(waiting=False)


def measured(process: Process, member: Member, collective: Collective, step: Step) -> dict[int, float]:
    """Return the seconds of a step by number of nodes; empty on all nodes but the first."""
    size = collective.size
    seconds: dict[int, float] = {}
    with closing(_Rows(process, member)) as rows, _unchanged(process, step, batch := rows.first()):
        if member.rank == 0:
            alone = Alone()
            plain = process.step(process.strategy.sync(alone, process.config.sync), alone)
            plain.train(part(batch, 0))  # makes its graph
            seconds[1] = max(_timed(plain, batch, alone).step, rows.seconds(batch, 1))
        member.gather("one node is measured", None)
        whole = _timed(step, _share(batch, member.rank, size), collective)
        if member.rank == 0:
            seconds[size] = max(whole.step, rows.seconds(batch, size))
        began = time.perf_counter()
        for nodes in fewer(size):
            if _longest(collective, time.perf_counter() - began) > SECONDS:
                break
            found = _timed(step, _share(batch, member.rank, nodes), collective).step
            if member.rank == 0:
                found = without_further(found, whole.exchange, nodes, size)
                seconds[nodes] = max(found, rows.seconds(batch, nodes))
    return seconds


def fewer(size: int) -> list[int]:
    """Return the numbers of nodes to measure between 1 and `size`: powers of two, the largest one first."""
    return [1 << power for power in reversed(range(1, size.bit_length())) if 1 << power < size]


def without_further(seconds: float, exchange: float, nodes: int, size: int) -> float:
    """Return the seconds of a step on `nodes` nodes, where `size` nodes exchanged. exchange: the seconds of that
    exchange."""
    return max(0.0, seconds - exchange * (1 - (nodes - 1) / nodes / ((size - 1) / size)))


@dataclass(frozen=True)
class _Timed:
    """Seconds of a step, and of the exchange in it without waiting for other nodes."""

    step: float
    exchange: float


def _timed(step: Step, batch: Chunk, collective: Collective) -> _Timed:
    """Measure steps on `batch`, again and again. Every node of `collective` must call this."""
    again = Again(batch)
    again.max_updates = -round(_longest(collective, -again.max_updates))  # equally many in each call

    def block(count: int) -> _Timed:
        collective.sum([np.zeros(1)])  # all nodes begin together
        exchanged, began = collective.seconds - collective.waited, time.perf_counter()
        for chunk in again.epoch(0, 0, count):
            step.train(chunk)
            activity.note()
        took = time.perf_counter() - began
        exchanged = collective.seconds - collective.waited - exchanged
        return _Timed(_longest(collective, took) / count, exchanged / count)

    block(1)
    count, first = 1, block(1)
    while (took := first.step * count) < _BLOCK / 2:
        count = min(4 * count, int(count * _BLOCK / took) + 1)
        first = block(count)
    blocks = [first, *(block(count) for _ in range(_BLOCKS - 1) if took < _BLOCK * _BLOCKS)]
    return _Timed(
        float(np.median([each.step for each in blocks])), float(np.median([each.exchange for each in blocks]))
    )


def _longest(collective: Collective, value: float) -> float:
    """Return the largest of all nodes' values."""
    values = np.zeros(collective.size)
    values[collective.rank] = value
    return float(collective.sum([values])[0].max())


def _share(batch: Chunk, rank: int, nodes: int) -> Chunk:
    """Return the share of the node `rank` if the first `nodes` nodes share `batch`."""
    rows = int(batch.offsets[1])
    begin, end = (min(place, nodes) * rows // nodes for place in (rank, rank + 1))
    return share_of(batch, begin, end - begin, rows)


@contextmanager
def _unchanged(process: Process, step: Step, batch: Chunk) -> Iterator[None]:
    """Give weights, optimizer, random states and metrics their values back after the block."""
    step.train(part(batch, 0))  # makes the graph, and with it the variables of metrics
    kept = [(variable, np.array(variable.numpy())) for variable in step.variables()]
    yield
    for metric in process.metrics.values():
        metric.reset_state()  # a metric may have made variables later
    for variable, value in kept:
        variable.assign(value)


class _Rows:
    """A sample of the training rows, and how long a node takes to read its share of a mini-batch."""

    def __init__(self, process: Process, member: Member) -> None:
        self._process, self._source = process, process.prepared_rows()
        self._one = OneNode(member)
        self._feeds: list[Feeds] = []
        self._per_row: dict[bool, float] = {}
        self._sample = _sample(self._source, process.config.batch_size)
        self._feed = self._opened(keeps=True)

    def first(self) -> Chunk:
        """Return the first mini-batch, as a share of all its rows whose size may vary."""
        chunk = next(self._feed.epoch(0))
        self._feed.rest()
        one = part(chunk, 1)
        return share_of(one, 0, int(one.offsets[1]), int(one.rows[0]))

    def seconds(self, batch: Chunk, nodes: int) -> float:
        """Return the seconds in which a node has its share of `batch`, on `nodes` nodes."""
        config, rows = self._process.config, sum(self._source.lane_rows)
        is_kept = rows * self._feed.row_bytes <= (config.cache_mb << 20) * nodes
        if is_kept and config.transform is None:
            return 0.0
        if is_kept not in self._per_row:
            self._per_row[is_kept] = self._measured(is_kept)
        return self._per_row[is_kept] * int(batch.offsets[1]) / nodes

    def close(self) -> None:
        """Close the feeds."""
        for feeds in self._feeds:
            feeds.close()

    def _measured(self, is_kept: bool) -> float:
        """Return the seconds of a row in the second pass over the sample."""
        feed = self._feed if is_kept else self._opened(keeps=False)
        for number in range(2):
            began = time.perf_counter()
            rows = sum(chunk.seen.rows for chunk in feed.epoch(number))
        return (time.perf_counter() - began) / max(1, rows)

    def _opened(self, keeps: bool) -> Feed:
        config = self._process.config.model_copy(update={"cache_mb": _NO_LIMIT if keeps else 0})
        self._feeds.append(Feeds(self._process, self._one, Alone(), config))
        split, sync = self._process.strategy.split, self._process.strategy.sync(Alone(), config.sync)
        return self._feeds[-1].training(self._sample, split, sync, config.batch_size)


def _sample(rows: RowSource, batch_size: int) -> Sample:
    """Return a sample of some mini-batches, if there are so many rows, from as few blocks of each lane as possible."""
    row_bytes = sum(spec.row_bytes for spec in rows.tensors)
    least = max(batch_size, min(_SAMPLED * batch_size, _SAMPLED_BYTES // max(1, row_bytes)))
    blocks = -(-least // max(1, sum(min(count, rows.block_rows) for count in rows.lane_rows)))
    lanes: list[int] = []
    for lane, count in enumerate(rows.lane_rows):
        if least > 0 and count:
            lanes.append(lane)
            least -= min(count, blocks * rows.block_rows)
    return Sample(rows, lanes, blocks)
