"""How long a step takes on fewer and on more nodes, measured before the first update of a run with `strategy: auto`.

Every step is on the rows of the same mini-batch. On one node, the first node makes the step without exchanges, while
the others wait. On n nodes, the first n nodes have equal shares of the rows, and the others have none. So nodes that
share a host slow each other down as they will in training. All nodes exchange, which takes longer than an exchange of
n nodes: a ring of n nodes sends (n - 1) / n of its bytes twice, in 2 (n - 1) turns. The difference is taken off, unless
the collective does not count its seconds in graphs (TensorFlow's).

Rows come from memory. If a run reads its rows again in each epoch, or transforms them, a step takes at least as long
as a node needs to read its share. Without readers, a step takes both times. n nodes read at the same time, so nodes
that share a host slow each other down here too.
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
from sparksplit.rows import order
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import Feed, RowSource
from sparksplit.rows.samples import Again, Sample, part, share_of
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
"""Seconds of a block of steps, and the number of blocks. Their median counts."""
_READING = 1.0
"""Seconds after which a pass over the sample ends."""
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
    """Return the seconds of a step by number of nodes. Those of the first node count; only it measures one node."""
    size, alone = collective.size, Alone()
    seconds: dict[int, float] = {}
    spent = 0.0
    with closing(_Rows(process, member)) as rows, _unchanged(process, step, batch := rows.first()):
        if member.rank == 0:
            one = _timed(process.step(process.strategy.sync(alone, process.config.sync), alone), batch, alone)
            seconds[1] = rows.with_reading(one.step, batch, 1, alone)
            spent = one.took + rows.took
        member.gather("one node is measured", None)
        found = whole = _timed(step, _share(batch, member.rank, size), collective)
        seconds[size] = rows.with_reading(whole.step, batch, size, collective)
        latency = _latency(collective)
        for nodes in between(size):
            spent += (took := found.took + rows.took)
            if _longest(collective, spent + 2 * took) > SECONDS:  # half the nodes take at most twice the time
                break
            found = _timed(step, _share(batch, member.rank, nodes), collective)
            # A single exchange may have been disturbed, and no step is shorter than its own exchange.
            exchange = min(whole.exchange, found.exchange)
            without = without_further(found.step, exchange, latency, nodes, size)
            seconds[nodes] = rows.with_reading(without, batch, nodes, collective)
    return seconds


def without_further(seconds: float, exchange: float, latency: float, nodes: int, size: int) -> float:
    """Return the seconds of a step on `nodes` nodes, where `size` nodes exchanged.

    exchange: the seconds of that exchange, a part of `seconds`. latency: the seconds of an exchange of a single number.
    """
    latency = min(latency, exchange)
    turns, sent = (nodes - 1) / (size - 1), (nodes - 1) / nodes / ((size - 1) / size)
    return seconds - latency * (1 - turns) - (exchange - latency) * (1 - sent)


@dataclass(frozen=True)
class _Timed:
    """Seconds of a step, of the exchange in it without waiting for other nodes, and of all steps that were made."""

    step: float
    exchange: float
    took: float


def _timed(step: Step, batch: Chunk, collective: Collective) -> _Timed:
    """Measure steps on `batch`, again and again. Every node of `collective` must call this."""
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
    blocks = [first, *(block(count) for _ in range(_BLOCKS - 1) if took < _BLOCK * _BLOCKS)]
    seconds, exchange = (float(np.median(each)) for each in zip(*blocks, strict=True))
    return _Timed(seconds, exchange, seconds + time.perf_counter() - began)


def _latency(collective: Collective) -> float:
    """Return the seconds of an exchange of a single number. Every node must call this."""
    one = np.zeros(1)
    collective.sum([one])
    began = time.perf_counter()
    for _ in range(_BLOCKS):
        collective.sum([one])
    return (time.perf_counter() - began) / _BLOCKS


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
    """A sample of the training rows, and how long a node takes to read its share of a mini-batch.

    took: seconds of the last call of `with_reading`.
    """

    def __init__(self, process: Process, member: Member) -> None:
        self._process, self._source, self.took = process, process.prepared_rows(), 0.0
        self._one = OneNode(member)
        self._open: list[Feeds] = []
        self._sample = _sample(self._source, process.config.batch_size)
        self._feeds = {is_kept: self._opened(is_kept) for is_kept in (True, False)}

    def first(self) -> Chunk:
        """Return the first mini-batch, as a share of all its rows whose size may vary."""
        chunk = next(self._feeds[True].epoch(0))
        self._feeds[True].rest()
        one = part(chunk, 1)
        return share_of(one, 0, int(one.offsets[1]), int(one.rows[0]))

    def with_reading(self, step: float, batch: Chunk, nodes: int, collective: Collective) -> float:
        """Return the seconds of a step of `step` seconds on `nodes` nodes, if each node must read its share of `batch`
        for it. The first `nodes` nodes read now. Every node of `collective` must call this."""
        config, is_kept, began = self._process.config, self._is_kept(nodes), time.perf_counter()
        if is_kept and config.transform is None:
            self.took = 0.0
            return step
        per_row = self._measured(is_kept) if collective.rank < nodes else 0.0
        self.took = time.perf_counter() - began
        reading = _longest(collective, per_row) * int(batch.offsets[1]) / nodes
        return max(step, reading) if config.readers else step + reading

    def _is_kept(self, nodes: int) -> bool:
        """Whether the rows of each of `nodes` nodes are in memory in most epochs."""
        process, config = self._process, self._process.config
        if config.input_mode == "spark":
            return True  # in mapped files
        held = [np.array(process.data.manifest.splits[name].lane_rows) for name in process.held_out]
        held_bytes = sum(held) * sum(spec.row_bytes for spec in self._source.tensors)
        lanes = np.array(self._source.lane_rows) * self._feeds[True].row_bytes + held_bytes
        most = max(int(lanes[order.owned_lanes(len(lanes), rank, nodes)].sum()) for rank in range(nodes))
        return config.epochs > 1 and most <= config.cache_mb << 20

    def close(self) -> None:
        """Close the feeds."""
        for feeds in self._open:
            feeds.close()

    def _measured(self, is_kept: bool) -> float:
        """Return the seconds of a row in the second pass over the sample. A pass of a slow transform ends early."""
        for number in range(2):
            began, rows, took = time.perf_counter(), 0, 0.0
            for chunk in self._feeds[is_kept].epoch(number):
                rows, took = rows + chunk.seen.rows, time.perf_counter() - began
                if took > _READING:
                    break
            self._feeds[is_kept].rest()
        return took / max(1, rows)

    def _opened(self, is_kept: bool) -> Feed:
        config = self._process.config.model_copy(update={"cache_mb": _NO_LIMIT if is_kept else 0})
        self._open.append(Feeds(self._process, self._one, Alone(), config))
        split, sync = self._process.strategy.split, self._process.strategy.sync(Alone(), config.sync)
        return self._open[-1].training(self._sample, split, sync, config.batch_size)


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
