"""A configuration in a node's process, ready to be measured: its strategy, its compiled step, a sample of its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparksplit.collectives import Alone, Collective
from sparksplit.dataset.plan import window_for
from sparksplit.diagnosis.node.blocks import Read, begin_of, sync_interval
from sparksplit.diagnosis.node.runner import Runner, Variant
from sparksplit.rows import order
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import Feed, RowSource
from sparksplit.rows.samples import Again, Rows, Sample, Unread, part
from sparksplit.strategies import find
from sparksplit.training.node.feeds import Feeds
from sparksplit.training.node.process import Process
from sparksplit.training.node.schedule import Schedule
from sparksplit.training.report import diverged
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.training.node.compiled.step import Step

_LANES = 8
"""The fewest lanes of each node in a sample. So all tried readers can read at the same time."""
_BYTES = 64 << 20
"""The most bytes of each node's sample."""
_WINDOWS = 4
"""The most windows of blocks in a sample. Of deeper lanes, two windows are measured, from the arrival of the first
window's rows."""
_LONG = 8.0
"""If the shortest block of whole windows takes more seconds than this, reading must be a large part of it."""
_SHORT = 0.25
"""The share of these seconds that reading alone must take."""
_NO_LIMIT = 1 << 20


class Rig:
    """`config` on `member`, with the member's `process`. Every node must create the rig, and call its methods, in the
    same way.

    rows: the training split. like: another rig, whose sample is taken if it has rows for every node. kept: whether rows
    stay in memory after the first pass. first_reading: seconds until kept rows are in memory; None if rows are not
    kept. begin_reading: the part of these seconds that does not depend on the rows, in a process that has read nothing
    before. reads: whether rows are really read in every pass. steps: the steps of a round, on the node with the most.
    """

    def __init__(
        self,
        process: Process,
        member: Member,
        collective: Collective,
        config: TrainConfig,
        rows: RowSource,
        runner: Runner,
        like: Rig | None = None,
    ) -> None:
        self.process, self.member, self.collective, self.config = process, member, collective, config
        self._runner, self._rows = runner, rows
        self.strategy = find(config.strategy, process.payload.sources.get("strategy"))
        self.sync = self.strategy.sync(collective, config.sync)
        self.step: Step = process.step(self.sync, collective)
        self.steps = self._steps(rows)
        self.first_reading: float | None = None
        self.begin_reading = 0.0
        self.held_out_bytes = 0
        self._open: list[Rows] = []
        self._lanes: list[int] = []
        self._window: int | None = None
        self.in_memory: Feed | None = None
        """A feed that has the sample in memory; None if the sample is mapped."""
        self._alone: Step | None = None
        self._saved = [(variable, np.array(variable.numpy())) for variable in self.step.variables()]
        if process.warmed_up is not None:
            process.warmed_up.updates.assign(self.steps)
        lanes = process.data.manifest.lanes
        self._own: list[list[int]] = [
            self.strategy.split.lanes(lanes, rank, member.size).tolist() for rank in range(member.size)
        ]
        self.own_rows = max(sum(rows.lane_rows[lane] for lane in of_node) for of_node in self._own)
        self._take(like)

    # Rows.

    def feed(
        self,
        *,
        transform: bool = True,
        readers: int | None = None,
        source: RowSource | None = None,
        batch_size: int | None = None,
    ) -> Feed:
        """Return a feed of the sample, or of `source`. The rig closes the feed at the latest in `close`.

        The rows of `source` stay in memory once they are read, but not those of an `unread` sample. batch_size: rows of
        a mini-batch, instead of the configured number.
        """
        is_read = source is not None and source.at_hand() is None and not isinstance(source, Unread)
        changed: dict[str, Any] = {"cache_mb": _NO_LIMIT if is_read else 0}
        if not transform:
            changed["transform"] = None
        if readers is not None:
            changed["readers"] = readers
        feeds = Feeds(self.process, self.member, self.collective, self.config.model_copy(update=changed))
        feed = feeds.training(source or self.sample, self.strategy.split, self.sync, batch_size or self._batch_size)
        assert isinstance(feed, Feed)
        self._open.append(feed)
        return feed

    def unread(self) -> Unread:
        """Return a sample as large as this one, of rows that nothing has read yet, as long as there are some."""
        return Unread(self._rows, self._lanes, self._blocks)

    def first(self, batch_size: int | None = None, epoch: int = 0) -> Chunk:
        """Return the first mini-batch of an epoch over the sample. batch_size: its rows, instead of the configured
        number."""
        if self.in_memory is not None and batch_size is None:
            return _first(self.in_memory, epoch)
        feed = self.feed(batch_size=batch_size)
        chunk = _first(feed, epoch)
        self.end(feed)
        return chunk

    def again(self, chunk: Chunk, placed: Callable[[Any], Any] = lambda tensor: tensor) -> Again:
        """Return the first mini-batch of `chunk`, again and again. placed: as for Again."""
        rows = Again(chunk, placed)
        self._open.append(rows)
        return rows

    def end(self, rows: Rows) -> None:
        """Close `rows`, which are no longer needed."""
        self._open.remove(rows)
        rows.close()

    def close(self) -> None:
        """Close all open rows."""
        while self._open:
            self._open.pop().close()

    def _take(self, like: Rig | None) -> None:
        """Take a sample of the rows that can be read and trained on in a moment, or the sample of `like`."""
        config, manifest = self.config, self.process.data.manifest
        whole = self._whole_feed()
        self.row_bytes: int = whole.row_bytes
        self.kept = bool(self._runner.table(whole.keeps).min())
        mapped = self._rows.at_hand() is not None
        self.reads = not self.kept and not mapped
        self.end(whole)
        window = config.window or window_for(manifest.lanes, manifest.block_bytes)
        deepest = -(-max(self._rows.lane_rows) // self._rows.block_rows)
        self._blocks = min(deepest, _WINDOWS * window)
        if like is not None and self._has_sample_of(like):
            self._lanes, self._blocks, self.reads = like._lanes, like._blocks, self.reads and (like.reads or like.kept)
            self.sample = Sample(self._rows, self._lanes, self._blocks)
            if self.reads and deepest > self._blocks:
                self._window = self._steps_of_windows(2, window)
            if not mapped:
                self._read()
            return
        self._take_lanes(_LANES)
        seconds = self._read() if not mapped else 0.0
        read = first = Read(self._own_rows_of(self.sample), seconds)
        most = max(map(len, self._own))
        room = _BYTES / max(1, self._sample_bytes())
        effort = self._runner.effort
        if self.reads:
            if deepest > self._blocks:
                self._window = self._steps_of_windows(2, window)
            calibration = self._runner.calibrate(self.whole())
            if calibration.seconds > _LONG and seconds < _SHORT * calibration.seconds:
                self.reads = False  # reading is fast enough to ignore, and whole windows would take too long
                return
            times = min(room, effort.reading / max(calibration.seconds, 1e-9))
        else:
            times = min(room, 2 * effort.reading / max(seconds, 1e-9))
        if times > 1.5 and len(self._lanes) < sum(rows > 0 for rows in self._rows.lane_rows):
            self._take_lanes(min(most, int(_LANES * times)))
            seconds = self._read() if not mapped else 0.0
            read = Read(self._own_rows_of(self.sample), seconds)
        elif self.kept and not mapped and seconds < effort.reading:
            read = Read(first.rows, self._read())
        if self.kept:
            begin = begin_of(first, read)
            self.begin_reading = self._runner.most(begin)
            self.first_reading = self._runner.most(begin + read.per_row * self._own_rows_of(self._rows))

    def _own_rows_of(self, rows: RowSource) -> int:
        """Return this node's part of `rows`, in rows."""
        return sum(rows.lane_rows[lane] for lane in self._own[self.member.rank])

    def _has_sample_of(self, like: Rig) -> bool:
        """Whether the sample of `like` has rows for every node, in blocks of equal size."""
        same = like._rows.block_rows == self._rows.block_rows
        return same and all(set(of_node) & set(like._lanes) for of_node in self._own)

    def _take_lanes(self, count: int) -> None:
        self._lanes = sorted({lane for of_node in self._own for lane in of_node[:count]})
        self.sample = Sample(self._rows, self._lanes, self._blocks)

    def _read(self) -> float:
        """Read the sample into memory. Return the seconds of the slowest node."""
        if self.in_memory is not None:
            self.end(self.in_memory)
        # Rows that were read before are given up first, so that there is never a second sample in memory.
        self.in_memory, self.sample = None, Sample(self._rows, self._lanes, self._blocks)
        began = time.perf_counter()
        self.in_memory = self.feed(source=self.sample)
        _first(self.in_memory)
        seconds = self._runner.most(time.perf_counter() - began)
        if self.kept and self.in_memory.at_hand is not None:
            self.sample = self.sample.held(self.in_memory.at_hand)
        return seconds

    def _sample_bytes(self) -> int:
        rows: int = max(sum(self.sample.lane_rows[lane] for lane in of_node) for of_node in self._own)
        return self.row_bytes * rows

    def _whole_feed(self) -> Feed:
        """Return the feed of a run, after held-out rows have taken their part of the cache. Nothing is read."""
        feeds = Feeds(self.process, self.member, self.collective, self.config)
        for name in ("validation", "test"):
            held = feeds.held_out(name, {})
            if held is not None:
                feeds.end(held)
                self.held_out_bytes += int(self._runner.most(held.own_bytes))
        feed = feeds.training(self._rows, self.strategy.split, self.sync, self._batch_size)
        assert isinstance(feed, Feed)
        self._open.append(feed)
        return feed

    @property
    def _batch_size(self) -> int:
        return self._schedule(self._rows).rows_of_batch(self.strategy.split)

    def _schedule(self, rows: RowSource) -> Schedule:
        config, split = self.config, self.strategy.split
        size, lanes = self.member.size, self.process.data.manifest.lanes
        return Schedule(split, size, lanes, rows.lane_rows, 1, config.batch_size, config.local_batch_size)

    def _steps(self, rows: RowSource) -> int:
        return self._schedule(rows).stretches()[-1].steps or 1

    def _steps_of_windows(self, windows: int, window: int) -> int:
        lanes = np.array(self.sample.lane_rows, np.int64)
        if self.strategy.split.dealt_apart:
            lanes = lanes[self._own[0]]
        edge = np.array([windows * window * self._rows.block_rows])
        return max(1, int(order.rows_above(lanes, edge)[0]) // self._batch_size)

    # Variants.

    def variant(
        self,
        rows: Rows,
        train: Callable[[Chunk], Any],
        agree: Callable[[int], None] | None = None,
        *,
        resets: bool = True,
    ) -> Variant:
        """Return a variant of this configuration. resets: whether weights and optimizer are reset before each block."""
        endless = isinstance(rows, Again)
        return Variant(
            rows,
            train,
            1 << 40 if endless else self._steps(self.sample),
            self._epoch,
            self.reset if resets else lambda: None,
            agree if self.collective.size > 1 and not self.sync.every_step else None,
            sync_interval(self.sync.every, self.steps),
            self.reads and isinstance(rows, Feed) and rows.at_hand is None,
            None if endless else self._window,
            readers=self.config.readers if isinstance(rows, Feed) else 0,
            transforms=isinstance(rows, Feed) and rows.transforms,
        )

    def whole(self, readers: int | None = None, like: Variant | None = None) -> Variant:
        """Return the whole step, as `train` runs it, and make its graphs.

        readers: instead of the configured number. like: a variant whose blocks and calls have about as many rows.
        """
        self.warm(self.step, self.first())
        made = self.variant(self.feed(readers=readers), self.trained, self.step.synchronise)
        if readers is not None:
            made.readers = readers
        if like is not None:
            self._runner.alike(made, like)
        return made

    def trained(self, chunk: Chunk) -> None:
        """Train on `chunk`. Raise the error of `train` if the loss is not finite."""
        losses = self.step.train(chunk)
        if not np.isfinite(losses).all():
            bad = int(np.argmin(np.isfinite(losses)))
            raise diverged(1, chunk.first + bad + 1, losses[bad], chunk.suspect)

    def alone(self) -> Step:
        """Return the step without exchanges."""
        if not self.sync.every_step or self.collective.size == 1:
            return self.step
        if self._alone is None:
            on_its_own = Alone()
            self._alone = self.process.step(self.strategy.sync(on_its_own, self.config.sync), on_its_own)
        return self._alone

    def warm(self, step: Step, chunk: Chunk) -> None:
        """Make the step's graphs: for mini-batches in which this node always has equally many rows, and for other
        mini-batches."""
        nothing = part(chunk, 0)
        for share in {chunk.share, None}:
            step.train(replace(nothing, share=share))

    def _epoch(self, number: int) -> int:
        size = self.member.size
        epochs: Sequence[int] = self.strategy.split.epochs(0, size * (number + 1), self.member.rank, size)
        return epochs[number]

    def reset(self) -> None:
        """Give weights and optimizer their original values back."""
        for variable, value in self._saved:
            variable.assign(value)
        self.sync.begin(self.process.model)


def _first(feed: Feed, epoch: int = 0) -> Chunk:
    """The first mini-batch of an epoch of `feed`."""
    feed.max_updates = 1
    chunks = feed.epoch(epoch)
    chunk = next(chunks)
    chunks.close()  # type: ignore[attr-defined]  # a generator
    feed.rest()
    return chunk
