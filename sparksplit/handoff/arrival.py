"""Training while rows arrive: the first epoch in the order in which they come, the others in the exact order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa

from hdfs_io.errors import using
from sparksplit.collectives import Collective
from sparksplit.dataset import row_ids
from sparksplit.dataset.lane_files import LABEL, ROW_ID, label_of, tensor_of, values_of
from sparksplit.handoff.receiver import Receiver
from sparksplit.rows import order
from sparksplit.rows.chunks import Assembler, Chunk, Piece, Rows
from sparksplit.rows.feed import Feed, Stops, never

_WAIT = 0.02
"""Seconds between two looks for rows while all nodes together have too few for a mini-batch."""


class ArrivingFeed:
    """A feed like `sparksplit.rows.feed.Feed`, for all of a run's epochs.

    Before each chunk the nodes tell one another how many rows they have; a node that has none contributes none, so no
    node waits for another's rows while there are enough for a mini-batch. Each mini-batch has `batch_size` rows, the
    epoch's last one whatever is left.

    told: what the driver said once all rows had been fed; None until then. exact: makes the later epochs' feed from
    that. idle: the context to be in while there are not enough rows.
    """

    def __init__(
        self,
        receiver: Receiver,
        assembler: Assembler,
        collective: Collective,
        batch_size: int,
        told: Callable[[], Any],
        exact: Callable[[Any], Feed],
        idle: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._receiver, self._assembler, self._collective = receiver, assembler, collective
        self._batch_size, self._told, self._make, self._idle = batch_size, told, exact, idle
        self._later: Feed | None = None
        self._opened = 0
        self._maps: list[Any] = []
        self._waiting: deque[tuple[Rows, int]] = deque()
        self.max_updates = 1
        """The most mini-batches in each chunk from now on; may be changed at any time."""

    @property
    def exact(self) -> bool:
        """Whether the coming chunks follow the order of rows: only then can a run be resumed within an epoch."""
        return self._later is not None

    @property
    def updates(self) -> int:
        """Mini-batches in one epoch; known once the first has ended."""
        if self._later is None:
            raise RuntimeError("how many rows there are is not known before all have arrived")
        return self._later.updates

    def epoch(self, epoch: int, first: int = 0, last: int | None = None, stops: Stops = never) -> Iterator[Chunk]:
        """The chunks of `epoch`; `stops` has no effect on the first one."""
        if self._later is not None:
            self._later.max_updates = self.max_updates
            for chunk in self._later.epoch(epoch, first, last, stops):
                yield chunk
                self._later.max_updates = self.max_updates
            return
        done = 0
        while (shares := self._next_shares()) is not None:
            taken, totals = shares
            yield self._chunk(epoch, done, taken, totals)
            done += len(totals)
        self._waiting.clear()
        for source in self._maps:
            source.close()
        self._later = self._make(self._told())

    def _next_shares(self) -> tuple[order.Ints, order.Ints] | None:
        """(rows that each node contributes to the next chunk, rows of its mini-batches); None when the epoch ends."""
        size, rank = self._collective.size, self._collective.rank
        idle: AbstractContextManager[None] | None = None
        try:
            while True:
                # In this order: once the driver has said that all are fed, what has arrived is complete.
                ended = self._told() is not None
                self._open_arrived()
                facts = np.zeros((2, size), np.int64)
                have = sum(len(rows.row_ids) - begun for rows, begun in self._waiting)
                facts[:, rank] = min(have, self.max_updates * self._batch_size), ended
                available, all_ended = (np.array(part) for part in self._collective.sum([facts])[0])
                total = int(available.sum())
                if total >= self._batch_size:
                    taken = order.whole_batches(available, self._batch_size)
                    return taken, np.full(int(taken.sum()) // self._batch_size, self._batch_size, np.int64)
                if all_ended.all():
                    return (available, np.array([total], np.int64)) if total else None
                if idle is None:
                    idle = self._idle()
                    idle.__enter__()
                time.sleep(_WAIT)
        finally:
            if idle is not None:
                idle.__exit__(None, None, None)

    def _chunk(self, epoch: int, first: int, taken: order.Ints, totals: order.Ints) -> Chunk:
        positions = order.interleaved(taken, self._collective.rank)
        edges = np.concatenate(([0], np.cumsum(totals)))
        offsets = np.searchsorted(positions, edges).astype(np.int64)
        return self._assembler.chunk(epoch, first, self._take(int(offsets[-1])), offsets, totals)

    def _take(self, count: int) -> list[Piece]:
        pieces: list[Piece] = []
        while count:
            rows, begun = self._waiting.popleft()
            until = min(begun + count, len(rows.row_ids))
            pieces.append((rows, np.arange(begun, until, dtype=np.int64)))
            count -= until - begun
            if until < len(rows.row_ids):
                self._waiting.appendleft((rows, until))
        return pieces

    def _open_arrived(self) -> None:
        paths = self._receiver.arrived()
        for path in paths[self._opened :]:
            with using(str(path)):
                source = pa.memory_map(str(path))
                self._maps.append(source)
                file = pa.ipc.open_file(source)
            for number in range(file.num_record_batches):
                table = pa.Table.from_batches([file.get_batch(number)])
                if table.num_rows:
                    self._waiting.append((self._rows(table), 0))
        self._opened = len(paths)

    def _rows(self, table: pa.Table) -> Rows:
        label = self._assembler.label
        return Rows(
            row_ids.unsigned(values_of(table.column(ROW_ID), np.dtype(np.int64))),
            [tensor_of(table.column(spec.name), spec) for spec in self._assembler.specs],
            None if label is None else label_of(table.column(LABEL), label),
        )
