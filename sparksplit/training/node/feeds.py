"""A node's feeds of training, validation and test rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparksplit.collectives import Collective
from sparksplit.dataset.plan import window_for
from sparksplit.rows import order
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import Feed, LanesOf, RowSource
from sparksplit.rows.unfit import Fit
from sparksplit.strategies.splits import Split
from sparksplit.strategies.syncs import Sync
from sparksplit.training.node.process import Process
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from sparksplit.cluster import Member


_EVALUATED = 1024
"""Smallest number of rows in a mini-batch that is only evaluated."""


class Feeds:
    """The feeds of `member`, a node of `process`. `close` ends the feeds that are still open.

    config: replaces the process's configuration, for another feed of the same rows.

    Make the held-out feeds first. The training rows get the rest of `cache_mb`.
    """

    def __init__(
        self, process: Process, member: Member, collective: Collective, config: TrainConfig | None = None
    ) -> None:
        self._process, self._member, self._collective = process, member, collective
        self._config = config or process.config
        self._cache = 0 if self._config.virtual else self._config.cache_mb << 20
        self._open: list[Feed] = []
        self._fit = Fit.of(process.data.manifest.description, process.config.loss)

    def held_out(self, name: str, held: dict[str, RowSource]) -> Feed | None:
        """Return the feed of `validation` or `test`; None if the run does not look at its rows.

        held: replaces the data set's sources.
        """
        data, member = self._process.data, self._member
        if name not in self._process.held_out:
            return None
        source = held.get(name) or data.split(name)
        own_lanes = order.owned_lanes(data.manifest.lanes, member.rank, member.size)
        batch_size = max(_EVALUATED, self._process.strategy.split.batch_size(self._config.batch_size, member.size))
        feed = self._feed(source, own_lanes, batch_size)
        row_bytes = sum(spec.row_bytes for spec in source.tensors)
        self._cache = max(0, self._cache - row_bytes * sum(source.lane_rows[lane] for lane in own_lanes))
        return feed

    def by_lane(self, name: str, whole: Feed, held: dict[str, RowSource]) -> Iterator[tuple[int, Iterator[Chunk]]]:
        """Read the node's rows of `validation` or `test` once more, lane by lane. Yield (lane, its chunks) for lanes
        with rows.

        whole: the split's feed, which has been read.
        held: as in the call of `held_out`.
        """
        source = held.get(name) or self._process.data.split(name)
        for lane in order.owned_lanes(self._process.data.manifest.lanes, self._member.rank, self._member.size):
            if source.lane_rows[lane]:
                one_lane = np.array([lane])
                # Rows that `whole` has at hand are not read again, so they need no readers.
                readers = self._config.readers if whole.at_hand is None else 0
                feed = self._feed(
                    LanesOf(source, one_lane, whole.at_hand), one_lane, _EVALUATED, cache=0, readers=readers
                )
                yield int(lane), feed.epoch(0)
                self.end(feed)

    def training(self, rows: RowSource, split: Split, sync: Sync, batch_size: int) -> Feed:
        """Return the feed of the training rows, in mini-batches of `batch_size`."""
        lanes, size = self._process.data.manifest.lanes, self._member.size
        own_lanes = split.lanes(lanes, self._member.rank, size)
        source = LanesOf(rows, own_lanes) if split.dealt_apart else rows
        copies = size if sync.every_step and split.every_row else 1
        return self._feed(
            source, own_lanes, batch_size, training=True, copies=copies, everyone=self._everyone(split, sync)
        )

    def end(self, feed: Feed) -> None:
        """Close `feed`, so that the next feed gets its memory."""
        self._open.remove(feed)
        feed.close()

    def close(self) -> None:
        """Close all open feeds."""
        for feed in self._open:
            feed.close()

    def _everyone(self, split: Split, sync: Sync) -> list[order.Ints] | None:
        """Return all nodes' lanes if their chunks must hold the same mini-batches, because sums match by the loop's
        iteration."""
        lanes, size = self._process.data.manifest.lanes, self._member.size
        if not (self._collective.same_graphs and sync.every_step):
            return None
        return [split.lanes(lanes, rank, size) for rank in range(size)]

    def _feed(
        self,
        source: RowSource,
        lanes: order.Ints,
        batch_size: int,
        *,
        training: bool = False,
        copies: int = 1,
        everyone: Sequence[order.Ints] | None = None,
        cache: int | None = None,
        readers: int | None = None,
    ) -> Feed:
        manifest = self._process.data.manifest
        feed = Feed(
            source,
            lanes,
            batch_size=batch_size,
            seed=self._config.seed,
            window=self._config.window or window_for(manifest.lanes, manifest.block_bytes),
            cache=self._cache if cache is None else cache,
            readers=self._config.readers if readers is None else readers,
            transform=self._process.transform() if training and self._config.transform else None,
            copies=copies,
            shuffled=training and manifest.order == "hash",
            everyone=everyone,
            fit=self._fit,
        )
        self._open.append(feed)
        return feed
