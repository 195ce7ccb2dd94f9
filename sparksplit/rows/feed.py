"""A node's rows in the order of `sparksplit.rows.order`, read ahead, in chunks of mini-batches.

A feed reads window by window, over all lanes of this node at once:
- If the node's rows fit into `cache`, the feed reads them once and keeps them.
- If the source has mapped the rows into memory, the feed takes them from there.
- Otherwise three windows are in memory at a time, so that memory does not depend on the data set's size: one is read,
  chunks are made of the next, and of the last rows of the window before. Memory is then 3 x own lanes x window x block
  bytes, up to 25 bytes for each row of one window, and a few chunks more than there are readers.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hdfs_io import activity
from sparksplit.dataset.description import LabelSpec, TensorSpec
from sparksplit.dataset.prepared import Block
from sparksplit.rows import order
from sparksplit.rows.assembler import Assembler, Chunk, Piece, RandomRows, Rows
from sparksplit.rows.transforms import Transform
from sparksplit.rows.unfit import Fit

Stops = Callable[[int], int]


def never(update: int) -> int:
    """Never end a chunk early."""
    return update + (1 << 62)


class RowReader(Protocol):
    """Reads blocks, for one thread."""

    def read(self, lane: int, block: int) -> Block:
        """Return block `block` of `lane`."""

    def close(self) -> None:
        """Free the open files."""


class RowSource(Protocol):
    """Rows by lane and block: a split of a prepared data set, or the rows that Spark has handed over.

    lane_rows: rows in each lane.
    block_rows: rows in each block, except in a lane's last block.
    tensors, label: the contents of a row.
    """

    lane_rows: list[int]
    block_rows: int
    tensors: list[TensorSpec]
    label: LabelSpec | None

    def reader(self) -> RowReader:
        """Return a reader of blocks. Each thread needs its own reader."""

    def at_hand(self) -> AtHand | None:
        """Return all rows that a node may ask for, if random access is as fast as reading in order; otherwise None."""

    def place_of(self, row_id: int) -> str:
        """Return where the row with this row_id (unsigned) is, for people."""


@dataclass(frozen=True)
class AtHand:
    """Rows with random access. starts: for each lane, the place of its first row in `rows`; int64 [lanes]."""

    rows: RandomRows
    starts: npt.NDArray[np.int64]


class LanesOf:
    """The lanes `lanes` of a source, as a RowSource. The other lanes are empty.

    at_hand: the rows of these lanes, if a feed already has them. None: as the source has them.
    """

    def __init__(self, source: RowSource, lanes: Iterable[int], at_hand: AtHand | None = None) -> None:
        own_lanes = {*map(int, lanes)}
        self.lane_rows = [rows if lane in own_lanes else 0 for lane, rows in enumerate(source.lane_rows)]
        self.block_rows, self.tensors, self.label = source.block_rows, source.tensors, source.label
        self.reader, self.place_of = source.reader, source.place_of
        self.at_hand = source.at_hand if at_hand is None else lambda: at_hand


@dataclass
class _Window:
    """A window's rows of all lanes of this node: `index` into `rows`, in the order of `positions`."""

    rows: RandomRows
    index: npt.NDArray[Any]
    positions: npt.NDArray[np.int64]


class Feed:
    """The rows of `lanes` of `source`, for any number of epochs.

    batch_size: rows of a global mini-batch.
    seed: seed of the order of rows and of the transform.
    window: number of blocks whose rows are permuted together.
    cache: bytes of rows that the node may keep in memory.
    readers: threads that read blocks and assemble chunks. 0: the thread that asks for chunks does this.
    chunk_bytes: bytes of a chunk's tensors.
    copies: number of nodes that have their own mini-batches at the same time.
    shuffled: False keeps the stored order (validation, test, `order: given`).
    everyone: each node's lanes, if all nodes' chunks must hold the same mini-batches. `max_updates` must then be the
        same on all nodes. None: chunks may end anywhere.
    fit: which rows are accepted.
    """

    def __init__(
        self,
        source: RowSource,
        lanes: npt.NDArray[np.int64],
        *,
        batch_size: int,
        seed: int = 0,
        window: int = 4,
        cache: int = 0,
        readers: int = 1,
        chunk_bytes: int = 4 << 20,
        transform: Transform | None = None,
        copies: int = 1,
        shuffled: bool = True,
        everyone: Sequence[npt.NDArray[np.int64]] | None = None,
        fit: Fit = Fit(),  # noqa: B008
    ) -> None:
        self._source, self._lanes = source, lanes
        self._lane_rows = np.array(source.lane_rows, np.int64)
        self._own_rows = self._lane_rows[lanes]
        self._block_rows, self._window = source.block_rows, window
        self._assembler = Assembler(source.tensors, source.label, seed, transform, source.place_of, fit)
        self._batch_size, self._seed, self._shuffled, self._copies = batch_size, seed, shuffled, copies
        self.transforms = transform is not None
        """Whether a user's function is applied to each chunk."""
        self._looks = 2
        self._even, self._share = 0, None
        if everyone is None:
            self._even, self._share = order.even_share(self._lane_rows, lanes, batch_size)
        self._most_rows = max(int(self._lane_rows[node_lanes].sum()) for node_lanes in everyone or [lanes])
        self._chunk_rows = max(1, chunk_bytes // self._assembler.row_bytes)
        self.max_updates = 1
        """Largest number of mini-batches in each chunk from now on. It may change at any time. The order of rows does
        not depend on it."""
        self._ahead = readers + 1  # so that no reader waits for the thread that takes chunks
        self._pool: Executor = ThreadPoolExecutor(readers, thread_name_prefix="reader") if readers else _AtOnce()
        self._local = threading.local()
        self._readers: list[RowReader] = []
        self._lock = threading.Lock()
        self._spare: list[Rows] = []
        self._begun: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        self.row_bytes = self._assembler.row_bytes
        """Bytes of a row in memory."""
        self.own_bytes = int(self._own_rows.sum()) * self.row_bytes
        """Bytes of all of the node's rows in memory."""
        self.keeps = self.own_bytes <= cache
        """Whether the node's rows stay in memory once they have been read."""
        self.at_hand: AtHand | None = None if self.keeps else source.at_hand()
        """The node's rows, if they have random access: kept from the first epoch on, or mapped into memory. Otherwise
        None."""

    @property
    def rows(self) -> int:
        """Rows of the whole split, over all nodes."""
        return int(self._lane_rows.sum())

    @property
    def updates(self) -> int:
        """Mini-batches in one epoch."""
        return order.updates_per_epoch(self.rows, self._batch_size)

    def epoch(self, epoch: int, first: int = 0, last: int | None = None, stops: Stops = never) -> Iterator[Chunk]:
        """Yield the chunks with the mini-batches first..last-1 of `epoch`, in order.

        stops: returns, for a given mini-batch, the next mini-batch at which a chunk must end.

        Raise InputError for a damaged file, a label that is not a class, or a wrong result of the transform. Errors of
        the transform pass through.
        """
        last = self.updates if last is None else last
        if not self._looks:
            self._assembler.looks = False
        # Look at the values in the first two passes, because a resumed run begins in the middle of the first pass. A
        # transform may change values each time, so with a transform look at all passes.
        self._looks -= not self.transforms
        ahead: deque[Future[Chunk]] = deque()
        plans = self._plans(epoch, first, last, stops)
        try:
            while True:
                while len(ahead) < self._ahead and (plan := next(plans, None)) is not None:
                    ahead.append(self._submit(self._assemble, epoch, *plan))
                if not ahead:
                    return
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()

    def rest(self) -> None:
        """Cancel queued reads, and wait for running reads. An epoch that was left before its end has read ahead."""
        wait([future for future in list(self._begun) if not future.cancel()])

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future = self._pool.submit(function, *arguments)
        self._begun.add(future)
        return future

    def close(self) -> None:
        """End the reader threads and close the files."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for reader in self._readers:
            reader.close()

    # Which rows: from windows to plans of chunks. A plan is the first update, the pieces (rows, index) and the offsets.

    def _plans(
        self, epoch: int, first: int, last: int, stops: Stops
    ) -> Iterator[tuple[int, list[Piece], npt.NDArray[np.int64]]]:
        share = max(1, self._batch_size * self._most_rows // max(1, self.rows))
        most = max(1, self._chunk_rows // share)
        pieces: list[Piece] = []
        held: list[npt.NDArray[np.int64]] = []
        done = first
        for window, reached in self._windows(epoch, first, last):
            rows, position = window.rows, window.positions
            begin, end = np.searchsorted(position, [first * self._batch_size, last * self._batch_size])
            index, position = window.index[begin:end], position[begin:end]
            del window
            # Mini-batches that end within the rows read so far. The last window also completes the last mini-batch.
            complete = last if reached >= min(last * self._batch_size, self.rows) else reached // self._batch_size
            while done < complete:
                until = min(done + min(most, self.max_updates), stops(done), complete)
                if done < self._even:
                    until = min(until, self._even)
                cut = int(np.searchsorted(position, until * self._batch_size))
                pieces.append((rows, index[:cut].astype(np.int64)))
                held.append(position[:cut])
                index, position = index[cut:], position[cut:]
                yield done, pieces, order.batch_offsets(np.concatenate(held), self._batch_size, done, until)
                pieces, held, done = [], [], until
            if len(index):
                pieces.append((rows, index.astype(np.int64)))
                held.append(position.copy())
            # Pieces have copies, so that nothing keeps the whole window's arrays while the next window is dealt.
            del rows, index, position

    def _windows(self, epoch: int, first: int, last: int) -> Iterator[tuple[_Window, int]]:
        """Yield the windows that hold the positions of first..last-1, each with the number of positions read so far."""
        shuffle = self._order(epoch)
        total = min(last * self._batch_size, self.rows)
        if first * self._batch_size >= total:
            return
        depth_rows = shuffle.window_rows
        number = order.depth_of(self._lane_rows, first * self._batch_size) // depth_rows
        loaded = deque([self._load(shuffle, number)])
        while True:
            edge = self._edge(shuffle, number)
            reached = int(order.rows_above(self._lane_rows, np.array([edge]))[0])
            if reached < total:
                loaded.append(self._load(shuffle, number + 1))
            # No name keeps the window's arrays while it is used, nor while the next window is dealt.
            yield self._ready(*loaded.popleft(), number * depth_rows, edge), reached
            if reached >= total:
                return
            number += 1

    def _order(self, epoch: int) -> order.AsStored:
        if not self._shuffled:
            return order.AsStored(self._block_rows, self._window)
        return order.Shuffle(self._block_rows, self._window, self._seed, epoch)

    def _edge(self, shuffle: order.AsStored, number: int) -> int:
        """Return the depth at which window `number` ends."""
        return min((number + 1) * shuffle.window_rows, int(self._lane_rows.max(initial=0)))

    def _ready(self, loading: _Loading, at_depth: npt.NDArray[Any], first: int, edge: int) -> _Window:
        dealt = order.deal(self._lane_rows, self._lanes, first, edge)
        return _Window(loading.finish(), at_depth[dealt.present], dealt.position)

    # Reading: blocks into arrays.

    def _load(self, shuffle: order.AsStored, number: int) -> tuple[_Loading, npt.NDArray[Any]]:
        """Begin to read window `number`. Also return the place in the loaded rows of each own lane's row at each depth,
        integers [depths, own lanes]."""
        if self.keeps and self.at_hand is None:
            everything = [list(range(-(-int(rows) // self._block_rows))) for rows in self._own_rows]
            starts = np.zeros_like(self._lane_rows)
            starts[self._lanes] = np.cumsum(self._own_rows) - self._own_rows
            self.at_hand = AtHand(self._read(everything).finish(), starts)
        first = number * shuffle.window_rows
        depths = self._edge(shuffle, number) - first
        if self.at_hand is None:
            most = depths * len(self._lanes)
        else:
            most = int((self.at_hand.starts[self._lanes] + self._own_rows).max(initial=0))
        # Places of 64 bits would take more memory than narrow rows.
        at_depth = np.zeros((depths, len(self._lanes)), np.int32 if most < 1 << 31 else np.int64)
        blocks, base = [], 0
        for place, (lane, rows) in enumerate(zip(self._lanes.tolist(), self._own_rows.tolist(), strict=True)):
            begin = min(first, rows)
            count = min(rows, first + shuffle.window_rows) - begin
            chosen = shuffle.blocks(lane, rows)[number * self._window : (number + 1) * self._window]
            within = shuffle.rows(lane, number, count)
            if self.at_hand is not None:
                stored = chosen[within // self._block_rows] * self._block_rows + within % self._block_rows
                at_depth[:count, place] = self.at_hand.starts[lane] + stored
            else:
                at_depth[:count, place] = base + within
                blocks.append(chosen.tolist())
                base += count
        return (self._read(blocks) if self.at_hand is None else _Loading([], self.at_hand.rows)), at_depth

    def _read(self, blocks: list[list[int]]) -> _Loading:
        """Begin to read the given blocks of each lane of this node into one array, end to end."""
        counts = [
            [min(self._block_rows, int(rows) - block * self._block_rows) for block in chosen]
            for rows, chosen in zip(self._own_rows, blocks, strict=True)
        ]
        rows = self._room(sum(map(sum, counts)))
        jobs, start = [], 0
        for lane, chosen, sizes in zip(self._lanes.tolist(), blocks, counts, strict=True):
            if chosen:
                jobs.append(self._submit(self._read_lane, rows, start, lane, chosen))
            start += sum(sizes)
        return _Loading(jobs, rows)

    def _room(self, count: int) -> Rows:
        """Return arrays for `count` rows. They reuse the memory of a window that is no longer in use, because new
        memory is slow at its first use."""
        kept = self._spare.pop() if self._spare else None
        if kept is None or len(kept.row_ids) < count:
            kept = self._assembler.empty(count)
        label = None if kept.label is None else kept.label[:count]
        rows = Rows(kept.row_ids[:count], [tensor[:count] for tensor in kept.tensors], label)
        weakref.finalize(rows, self._spare.append, kept).atexit = False
        return rows

    def _read_lane(self, rows: Rows, start: int, lane: int, blocks: Sequence[int]) -> None:
        reader = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._source.reader()
            with self._lock:
                self._readers.append(reader)
        for number in blocks:
            block = reader.read(lane, number)
            activity.note()
            stop = start + len(block.row_ids)
            rows.row_ids[start:stop] = block.row_ids
            for spec, target in zip(self._assembler.specs, rows.tensors, strict=True):
                target[start:stop] = block.tensors[spec.name]
            if rows.label is not None:
                rows.label[start:stop] = block.label
            start = stop

    def _assemble(self, epoch: int, first: int, pieces: list[Piece], offsets: npt.NDArray[np.int64]) -> Chunk:
        until = first + len(offsets) - 1
        totals = order.batch_rows(self.rows, self._batch_size, first, until) * self._copies
        share = self._share if until <= self._even else None
        return self._assembler.chunk(epoch, first, pieces, offsets, totals, share)


class _AtOnce(Executor):
    """Runs each call at once, in the calling thread."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass
class _Loading:
    """Blocks that are being read into `rows`."""

    jobs: list[Future[None]]
    rows: RandomRows

    def finish(self) -> RandomRows:
        for job in self.jobs:
            job.result()
        return self.rows
