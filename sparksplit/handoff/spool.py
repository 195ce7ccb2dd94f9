"""A node's rows on its local disk: memory-mapped Arrow files, read by lanes and blocks like a prepared data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io import activity, filesystem
from hdfs_io.errors import using_own
from sparksplit.base.errors import InputError, RunError
from sparksplit.dataset import row_ids
from sparksplit.dataset.block_table import Segment
from sparksplit.dataset.description import Description
from sparksplit.dataset.lane_files import LABEL, ROW_ID, crc32, label_of, tensor_of, values_of
from sparksplit.dataset.prepared import Block
from sparksplit.rows.assembler import Rows
from sparksplit.rows.feed import AtHand
from sparksplit.rows.unfit import Place, by_id

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


class Spool:
    """The rows of the lanes `own` in the files `paths`, each lane in the order of row_id, as in a prepared data set.

    lane_rows: rows of each lane of the whole set, [lanes].
    place: returns where a row is, for people.
    numbered: whether a row_id is the row's number, as with `order: given`.

    16 bytes per row are in memory; the rows stay on the disk. A spool is its own reader, for any number of threads.

    Raise InputError if a row_id occurs twice, or is no row number. Raise RunError if the rows of this node's lanes do
    not match `lane_rows`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        description: Description,
        lane_rows: Sequence[int],
        own: Ints,
        block_rows: int,
        place: Place = by_id,
        numbered: bool = False,
    ) -> None:
        self.place_of = place
        self.tensors, self.label = description.tensors, description.label
        self.lane_rows, self.block_rows = list(lane_rows), block_rows
        self._maps, files = [], []
        for path in paths:
            with using_own(str(path), "cannot be read"):
                self._maps.append(pa.memory_map(str(path)))
                files.append(pa.ipc.open_file(self._maps[-1]))
        tables = [
            pa.Table.from_batches([file.get_batch(number)])
            for file in files
            for number in range(file.num_record_batches)
        ]
        ids = [row_ids.unsigned(values_of(table.column(ROW_ID), np.dtype(np.int64))) for table in tables]
        self._tensors = [[tensor_of(table.column(spec.name), spec) for table in tables] for spec in self.tensors]
        self._labels = None if self.label is None else [label_of(table.column(LABEL), self.label) for table in tables]
        self._index(ids, own)
        if numbered:
            self._check_numbers()

    def _index(self, ids: list[row_ids.U64], own: Ints) -> None:
        """Index the rows by lane, in order of row_id."""
        joined = np.concatenate([np.zeros(0, np.uint64), *ids])
        batch = np.repeat(np.arange(len(ids), dtype=np.int32), [len(part) for part in ids])
        row = np.concatenate([np.zeros(0, np.int32), *(np.arange(len(part), dtype=np.int32) for part in ids)])
        lane = row_ids.lane_of(joined, len(self.lane_rows))
        order = np.lexsort((joined, lane))
        self._ids, self._batch, self._row = joined[order], batch[order], row[order]
        same = np.flatnonzero(self._ids[1:] == self._ids[:-1])
        if len(same):
            raise InputError(
                f"the DataFrame has the row_id {row_ids.signed(self._ids[same[:1]])[0]} twice, "
                "but a row_id must be unique. Check for repeated rows, for example from a join"
            )
        counts = np.bincount(lane, minlength=len(self.lane_rows))
        expected = np.zeros_like(counts)
        expected[own] = np.array(self.lane_rows, np.int64)[own]
        if (counts != expected).any():
            wrong = int(np.argmax(counts != expected))
            raise RunError(f"the hand-off lost rows: lane {wrong} has {counts[wrong]}, not {expected[wrong]}")
        self._starts = np.concatenate(([0], np.cumsum(counts)))

    def _check_numbers(self) -> None:
        """Raise InputError unless the row_ids of all nodes' rows are 0 to rows - 1.

        They are if none is `rows` or more, because no row_id occurs twice.
        """
        rows = sum(self.lane_rows)
        wrong = self._ids[self._ids >= np.uint64(rows)]
        if len(wrong):
            raise InputError(
                f"the DataFrame has the row_id {row_ids.signed(wrong.min())[0]}, but its {rows} rows must have the "
                f"row_ids 0 to {rows - 1}, because the data set has `order: given`. Number the rows in their order, "
                "without gaps"
            )

    def reader(self) -> Spool:
        """Return a reader of blocks."""
        return self

    def read(self, lane: int, block: int) -> Block:
        """Return block `block` of `lane`. Raise IndexError if the lane has no such block."""
        start = int(self._starts[lane]) + block * self.block_rows
        stop = min(start + self.block_rows, int(self._starts[lane + 1]))
        if block < 0 or start >= stop:
            raise IndexError(f"lane {lane} has no block {block}")
        return self._rows(start, stop)

    def verify(self, folder: str, segments: Mapping[int, Sequence[Segment]]) -> None:
        """Raise InputError, with file and row group, if the rows differ from the prepared data set in `folder`. Each
        row is read once.

        segments: the segments of the data set's training split, by lane.
        Spark compares no checksums, and takes a flipped byte for a value.
        """
        for lane, of_lane in segments.items():
            first, size = int(self._starts[lane]), self.block_rows
            if first == self._starts[lane + 1]:
                continue  # another node's lane, or an empty one
            for segment in of_lane:
                end = segment.offset + segment.rows
                for number, known in enumerate(segment.crc32.tolist()):
                    block = segment.offset // size + number
                    rows = self._rows(first + max(segment.offset, block * size), first + min(end, (block + 1) * size))
                    activity.note()
                    label = [] if rows.label is None else [rows.label]
                    crc = crc32([rows.row_ids, *rows.tensors.values(), *label])
                    if crc != known:
                        place = f"{filesystem.join(folder, segment.path)}: row group {segment.first_row_group + number}"
                        raise InputError(
                            f"{place}: is damaged: its checksum is {crc:08x}, but was {known:08x} when it was written"
                        )

    def _rows(self, start: int, stop: int) -> Block:
        """Return the rows start..stop-1 of the index."""
        index = np.arange(start, stop)
        tensors = {spec.name: np.empty((len(index), *spec.shape), spec.numpy_dtype) for spec in self.tensors}
        label = None if self.label is None else np.empty((len(index), *self.label.shape), self.label.dtype)
        self._gather(index, list(tensors.values()), label)
        return Block(self._ids[start:stop], tensors, label)

    def at_hand(self) -> AtHand:
        """Return all rows. They lie in the order of arrival, so random access is as fast as reading in order."""
        return AtHand(self, self._starts[:-1])

    def take(self, index: Ints, target: Rows, start: int) -> None:
        """Copy the rows `index` into `target`, starting at its row `start`."""
        stop = start + len(index)
        target.row_ids[start:stop] = self._ids[index]
        label = None if target.label is None else target.label[start:stop]
        self._gather(index, [tensor[start:stop] for tensor in target.tensors], label)

    def _gather(self, index: Ints, tensors: Sequence[Array], label: Array | None) -> None:
        if not len(index):
            return  # this node has no rows of the mini-batch
        columns = list(zip(tensors, self._tensors, strict=True))
        if label is not None and self._labels is not None:
            columns.append((label, self._labels))
        batch, row = self._batch[index], self._row[index]
        # One gather per record batch.
        by_batch = np.argsort(batch, kind="stable")
        numbers, firsts = np.unique(batch[by_batch], return_index=True)
        for number, places in zip(numbers.tolist(), np.split(by_batch, firsts[1:]), strict=True):
            rows = row[places]
            for to, parts in columns:
                to[places] = parts[number][rows]

    def close(self) -> None:
        """Do nothing, because the files serve all threads. `end` closes the files."""

    def end(self) -> None:
        """Close the files. Nothing can be read afterwards."""
        self._tensors, self._labels = [], None
        for source in self._maps:
            source.close()
