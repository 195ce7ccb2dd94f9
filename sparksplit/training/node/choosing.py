"""How long a step takes on fewer and on more nodes, measured before the first update of a run with `strategy: auto`.

Every step is on the rows of the same mini-batch. On one node, the first node makes the step without exchanges, while
the others wait. On n nodes, the first n nodes have as many rows as in a typical mini-batch, and the others have none.
So nodes that share a host slow each other down as they will in training. All nodes exchange, which takes longer than an
exchange of n nodes. The difference is taken off, as far as the collective knows it (`of_fewer`) and counts its seconds
in graphs, which TensorFlow's does not.

Rows come from memory. If a run reads its rows again in each epoch, or transforms them, a step takes at least as long
as a node needs to read and transform its share. Without readers, a step takes both times. If a node's rows stay in
memory, it reads all of them before its first step, and each step takes its part of that time besides. Only rows that
nothing has read yet show how long reading takes: the page cache holds all others. n nodes read at the same time, so
nodes that share a host slow each other down here too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from math import inf
from statistics import median_low
from typing import TYPE_CHECKING, Any

import numpy as np

from hdfs_io import activity
from sparksplit.base.errors import RunError
from sparksplit.cluster.member import OneNode
from sparksplit.collectives import Alone, Collective
from sparksplit.rows import order
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import Feed, RowSource
from sparksplit.rows.samples import Again, Sample, Unread, part, share_of
from sparksplit.rows.shares import typical_shares
from sparksplit.training.choice import between
from sparksplit.training.node.feeds import Feeds
from sparksplit.training.node.process import Process

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.training.node.compiled.step import Step

SECONDS = 20.0
"""The most seconds of all measurements, besides making graphs. A number of nodes between one and all that would take
longer is left out."""
_BLOCK, _BLOCKS = 0.2, 3
"""Seconds of a block of steps, and the number of blocks, as far as there is time. Their median counts."""
_SUMS = 10
"""The sums of a single number. The shortest one counts."""
_TRANSFORMING = 1.0
"""Seconds after which a pass over the sample ends."""
_SAMPLED, _SAMPLED_BYTES = 4, 64 << 20
"""The mini-batches in the sample of the rows, and the most bytes of these, but always one mini-batch."""
_READ_BYTES = 8 << 20
"""The least bytes to read for the seconds of a row, if there are so many."""
_NO_LIMIT = 1 << 20


def choose(process: Process, member: Member, collective: Collective, step: Step) -> None:
    """Measure, tell the driver, and wait until it has noted its choice. Every node must call this.

    The state of the run stays as it is. step: the step that the run will train with.
    """
    with member.phase("measuring"):
        member.announce(measures=True)  # stays in the state, whatever phases follow
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
    """Return the seconds of a step by number of nodes. Those of the first node count; only it measures one node."""
    size, rank, alone = collective.size, member.rank, Alone()
    numbers = [size, *between(size)]
    seconds: dict[int, float] = {}
    spent = least = 0.0
    with (
        closing(_Rows(process, member)) as rows,
        _unchanged(process, step, _share(batch := rows.first(), rank, size, rows.lane_rows)),
    ):
        if rank == 0:
            single = process.step(process.strategy.sync(alone, process.config.sync), alone)
            one = _timed(single, share := _share(batch, 0, 1, rows.lane_rows), alone, SECONDS / (1 + len(numbers)))
            seconds[1] = rows.with_reading(one.step, share, 1, alone)
            spent = one.took + rows.took
        member.gather("one node is measured", None)
        began = time.perf_counter()
        latency, whole = _latency(collective), None
        spent += time.perf_counter() - began
        for place, nodes in enumerate(numbers):
            left = SECONDS - _longest(collective, spent)
            if place and least > left:
                break
            share = _share(batch, rank, nodes, rows.lane_rows)
            found = _timed(step, share, collective, left, len(numbers) - 1 - place)
            whole = whole or found
            # A single exchange may have been disturbed, and no step is shorter than its own exchange.
            exchange = min(whole.exchange, found.exchange)
            without = without_further(found.step, exchange, latency, collective.of_fewer(nodes))
            seconds[nodes] = rows.with_reading(without, share, nodes, collective)
            spent += found.took + rows.took
            # Half the nodes take at most twice the time, and make at least two steps.
            least = _longest(collective, 4 * found.step + 2 * rows.took)
    return seconds


def without_further(seconds: float, exchange: float, latency: float, left: tuple[float, float]) -> float:
    """Return the seconds of a step on some of the nodes, where all nodes exchanged.

    exchange: the seconds of that exchange, a part of `seconds`. latency: the seconds of an exchange of a single number.
    left: as from `Collective.of_fewer`.
    """
    latency = min(latency, exchange)
    turns, sent = left
    return seconds - latency * (1 - turns) - (exchange - latency) * (1 - sent)


@dataclass(frozen=True)
class _Timed:
    """Seconds of a step, of the exchange in it without waiting for other nodes, and of all steps that were made."""

    step: float
    exchange: float
    took: float


def _timed(step: Step, batch: Chunk, collective: Collective, left: float, further: int = 0) -> _Timed:
    """Measure steps on `batch`, again and again. Every node of `collective` must call this.

    left: seconds for this measurement and `further` ones, each of which takes at most twice as long as the one before,
    and at least two steps. If there is no time for more, a single block is measured.
    """
    again = Again(batch)
    again.max_updates = -round(_longest(collective, -again.max_updates))  # equally many in each call

    def block(count: int) -> tuple[float, float]:
        collective.sum([np.zeros(1)])  # all nodes begin together
        exchanged, began = collective.seconds - collective.waited, time.perf_counter()
        for chunk in again.epoch(0, 0, count):
            step.train(chunk)
            activity.note()
        took = time.perf_counter() - began
        exchanged = collective.seconds - collective.waited - exchanged
        return _longest(collective, took) / count, exchanged / count

    block(1)  # a first step also makes graphs and loads kernels
    count, began = 1, time.perf_counter()
    first = block(1)
    while (took := first[0] * count) < _BLOCK / 2:
        count = min(4 * count, int(count * _BLOCK / took) + 1)
        first = block(count)
    here = left - 2 * first[0] * sum(2**number for number in range(1, further + 1))
    most = min(_BLOCKS, int(here / took) - 1)  # besides the first step
    blocks = [first, *(block(count) for _ in range(most - 1))]
    seconds, exchange = (median_low(each) for each in zip(*blocks, strict=True))
    return _Timed(seconds, exchange, seconds + time.perf_counter() - began)


def _latency(collective: Collective) -> float:
    """Return the seconds of an exchange of a single number without waiting for other nodes. Every node must call this.

    What disturbs a sum makes it longer, so the shortest sum counts.
    """

    def once() -> float:
        waited, began = collective.waited, time.perf_counter()
        collective.sum([one])
        return time.perf_counter() - began - (collective.waited - waited)

    one = np.zeros(1)
    collective.sum([one])
    return min(once() for _ in range(_SUMS))


def _longest(collective: Collective, value: float) -> float:
    """Return the largest of all nodes' values."""
    values = np.zeros(collective.size)
    values[collective.rank] = value
    return float(collective.sum([values])[0].max())


def _share(batch: Chunk, rank: int, nodes: int, lane_rows: order.Ints) -> Chunk:
    """Return the share of the node `rank` if the first `nodes` nodes train on `batch`, a whole mini-batch. The fullest
    node has about as many rows as in the mean over a pass. lane_rows: int64 [lanes]."""
    rows, lanes = int(batch.offsets[1]), len(lane_rows)
    shares = np.append(typical_shares(lane_rows, np.arange(lanes) % nodes, nodes, rows), 0)
    place = min(rank, nodes)
    begin, count = int(shares[:place].sum()), int(shares[place])
    even = order.even_share(lane_rows, order.owned_lanes(lanes, rank, nodes), rows)[1] if count else None
    return replace(share_of(batch, begin, count, rows), share=count if even == count else None)


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
    """A sample of the training rows, and how long a node takes to read its share of a mini-batch.

    took: seconds of the last call of `with_reading`. lane_rows: rows in each lane of the data set, int64 [lanes].
    """

    def __init__(self, process: Process, member: Member) -> None:
        self._process, self._source, self.took = process, process.prepared_rows(), 0.0
        self._one = OneNode(member)
        self._open: list[Feeds] = []
        self.lane_rows = np.array(self._source.lane_rows, np.int64)
        self._kept = self._opened(_sample(self._source, process.config.batch_size), cache_mb=_NO_LIMIT)
        # No two nodes read the same blocks.
        own_lanes = order.owned_lanes(len(self.lane_rows), member.rank, member.size)
        self._unread = self._opened(_unread(self._source, own_lanes.tolist()), cache_mb=0, transform=None)

    def first(self) -> Chunk:
        """Return the first mini-batch, as a share of all its rows."""
        chunk = next(self._kept.epoch(0))
        self._kept.rest()
        one = part(chunk, 1)
        return share_of(one, 0, int(one.offsets[1]), int(one.rows[0]))

    def with_reading(self, step: float, share: Chunk, nodes: int, collective: Collective) -> float:
        """Return the seconds of a step of `step` seconds on `nodes` nodes with all that reading and transforming its
        rows adds. The first `nodes` nodes read now. share: this node's rows of a mini-batch. Every node of `collective`
        must call this."""
        config, began = self._process.config, time.perf_counter()
        is_kept, read, transformed = self._is_kept(nodes), 0.0, 0.0
        if collective.rank < nodes:
            read = 0.0 if config.input_mode == "spark" else _second(self._unread)  # from Spark: in mapped files
            # A slow transform ends the pass early.
            transformed = 0.0 if config.transform is None else _second(self._kept, _TRANSFORMING)
        self.took = time.perf_counter() - began
        rows = int(share.offsets[1])
        # Rows that stay in memory are read once, before the first step, and transformed again in each epoch.
        before = rows * read / config.epochs if is_kept else 0.0
        beside = rows * (transformed if is_kept else read + transformed)
        slowest = _longest(collective, beside)
        step = max(step, slowest) if config.readers else step + slowest
        return step + _longest(collective, before)

    def _is_kept(self, nodes: int) -> bool:
        """Whether the rows of each of `nodes` nodes stay in memory once they have been read."""
        process, config = self._process, self._process.config
        held = [np.array(process.data.manifest.splits[name].lane_rows) for name in process.held_out]
        held_bytes = sum(held) * sum(spec.row_bytes for spec in self._source.tensors)
        lanes = self.lane_rows * self._kept.row_bytes + held_bytes
        most = max(int(lanes[order.owned_lanes(len(lanes), rank, nodes)].sum()) for rank in range(nodes))
        return most <= config.cache_mb << 20

    def close(self) -> None:
        """Close the feeds."""
        for feeds in self._open:
            feeds.close()

    def _opened(self, sample: Sample, **keys: Any) -> Feed:
        config = self._process.config.model_copy(update=keys)
        self._open.append(Feeds(self._process, self._one, Alone(), config))
        split, sync = self._process.strategy.split, self._process.strategy.sync(Alone(), config.sync)
        return self._open[-1].training(sample, split, sync, config.batch_size)


def _second(feed: Feed, most: float = inf) -> float:
    """Return the seconds of a row in a second pass. The first pass opens files, and makes what is made once. A pass
    ends after `most` seconds."""
    for number in range(2):
        began, rows, took = time.perf_counter(), 0, 0.0
        for chunk in feed.epoch(number):
            rows, took = rows + chunk.seen.rows, time.perf_counter() - began
            if took > most:
                break
        feed.rest()
    return took / max(1, rows)


def _sample(rows: RowSource, batch_size: int) -> Sample:
    """Return a sample of some mini-batches, if there are so many rows."""
    least = max(batch_size, min(_SAMPLED * batch_size, _SAMPLED_BYTES // _row_bytes(rows)))
    return Sample(rows, *_sampled(rows, least, range(len(rows.lane_rows))))


def _unread(rows: RowSource, lanes: Iterable[int]) -> Unread:
    """Return rows of `lanes` that nothing has read yet, as long as there are some."""
    return Unread(rows, *_sampled(rows, max(1, _READ_BYTES // _row_bytes(rows)), lanes))


def _row_bytes(rows: RowSource) -> int:
    return max(1, sum(spec.row_bytes for spec in rows.tensors))


def _sampled(rows: RowSource, least: int, lanes: Iterable[int]) -> tuple[list[int], int]:
    """Return (lanes, blocks) with at least `least` rows, if `lanes` have so many, in as few blocks of a lane as
    possible."""
    filled = [lane for lane in lanes if rows.lane_rows[lane]]
    blocks = -(-least // max(1, sum(min(rows.lane_rows[lane], rows.block_rows) for lane in filled)))
    taken: list[int] = []
    for lane in filled:
        if least > 0:
            taken.append(lane)
            least -= min(rows.lane_rows[lane], blocks * rows.block_rows)
    return taken, blocks
