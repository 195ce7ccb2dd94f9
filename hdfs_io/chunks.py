"""Rows on their way to the file that they belong to, packed into chunks of bytes.

Spark then moves a few thousand bytes at a time instead of single rows, and sorts nothing. A chunk has rows of one
file, each as a record of the same length: its row_id, tensors and label, and how long its kept texts are. The texts lie
beside the records, one after the other, in a column of chunks for each column to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io import row_ids
from hdfs_io.lane_files import LABEL, ROW_ID, Layout, tensor_of
from hdfs_io.preprocessing import TensorSpec

FILE, ROWS = "file", "rows"
_BATCH_BYTES = 32 * 2**20
"""Of the chunks in a record batch, and of what a task collects before it packs: with many files, chunks of a few rows
would be no better than rows."""

Records = npt.NDArray[np.void]
Order = npt.NDArray[np.int64]


class Part(NamedTuple):
    """Some rows of a file. records: [rows], with the fields of `Packing.record`. texts: of each kept column, [rows]"""

    records: Records
    texts: list[pa.Array]


@dataclass(frozen=True)
class Packing:
    """How rows with the columns of `layout` are packed. chunk_bytes: of a chunk, roughly; one has a row at least.
    enough: bytes that are worth packing together."""

    layout: Layout
    chunk_bytes: int
    enough: int

    @classmethod
    def of(cls, layout: Layout, files: int, batch_rows: int) -> Packing:
        """batch_rows: chunks that Spark puts into a record batch"""
        chunk = max(1, _BATCH_BYTES // batch_rows)
        return cls(layout, chunk, min(_BATCH_BYTES, files * chunk))

    @property
    def schema(self) -> pa.Schema:
        """The number by which Spark finds the file's partition, the records, and the texts."""
        texts = [(name, pa.binary()) for name in self._texts]
        return pa.schema([(FILE, pa.int32()), (ROWS, pa.binary()), *texts])

    @property
    def record(self) -> np.dtype[np.void]:
        """The fields of a record."""
        fields: list[tuple[str, Any]] = [(ROW_ID, "<i8")]
        fields += [(name, f"V{tensor.row_bytes}") for name, tensor in self._binary]
        label = self.layout.label
        fields += [(LABEL, label.numpy_dtype)] if label is not None and not label.shape else []
        return np.dtype([*fields, *((name, "<i4") for name in self._texts)])

    @property
    def _binary(self) -> list[tuple[str, TensorSpec]]:
        """(field of a record, what it holds) of each binary column."""
        label = self.layout.label
        tokens = [] if label is None or not label.shape else [label]
        names = [f"tensor_{place}" for place in range(len(self.layout.tensors))] + [LABEL] * len(tokens)
        return list(zip(names, [*self.layout.tensors, *tokens], strict=True))

    @property
    def _texts(self) -> list[str]:
        return [f"text_{place}" for place in range(len(self.layout.keep))]

    def pack(
        self, file: npt.NDArray[np.int64], columns: Sequence[pa.Array], partitions: npt.NDArray[np.int32]
    ) -> pa.RecordBatch:
        """The chunks of some rows: a record batch of `schema`.

        file: the number of each row's file, int64 [rows]. columns: those of the layout's schema. partitions: what the
        chunks of each file have in the column `file`

        Raises ValueError where a row's tensor does not have the bytes that it should have.
        """
        order = np.argsort(_narrow(file, len(partitions)), kind="stable")
        records = np.empty(len(file), self.record)
        records[ROW_ID] = columns[0].to_numpy()[order]
        for place, (name, tensor) in enumerate(self._binary, 1):
            values = tensor_of(pa.chunked_array([columns[place]]), tensor)
            records[name] = values.reshape(-1).view(f"V{tensor.row_bytes}")[order]
        label = self.layout.label
        if label is not None and not label.shape:
            records[LABEL] = columns[1 + len(self.layout.tensors)].to_numpy()[order]
        ends = np.arange(1, len(file) + 1) * self.record.itemsize
        texts = []
        for name, column in zip(self._texts, columns[len(columns) - len(self._texts) :], strict=True):
            offsets, data = _text_buffers(column.fill_null("").take(pa.array(order)))
            records[name] = np.where(column.is_valid().to_numpy(zero_copy_only=False)[order], np.diff(offsets), -1)
            ends += offsets[1:] - offsets[0]
            texts.append((offsets, data))
        starts = self._starts(file[order], ends)
        cuts = np.append(starts, len(file))
        found = [_chunks(cuts * self.record.itemsize, pa.py_buffer(records))]
        found += [_chunks(offsets[cuts], data) for offsets, data in texts]
        return pa.RecordBatch.from_arrays([pa.array(partitions[file[order[starts]]]), *found], schema=self.schema)

    def _starts(self, file: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Order:
        """Where chunks begin: at a new file, and where one is full. file: ascending. ends: bytes up to a row's end"""
        fresh = np.diff(file, prepend=-1) != 0
        first = np.flatnonzero(fresh)
        before = np.concatenate([[0], ends[:-1]])
        of_file = before - np.repeat(before[first], np.diff(first, append=len(file)))
        full = np.diff(of_file // self.chunk_bytes, prepend=0) != 0
        return np.flatnonzero(fresh | full)

    def unpack(self, batch: pa.RecordBatch) -> Part:
        """The rows of a record batch of `pack`, as views of it."""
        offsets, data = _text_buffers(batch.column(1))
        size = self.record.itemsize
        count = int(offsets[-1] - offsets[0]) // size
        records = np.frombuffer(data, self.record, count, int(offsets[0])) if count else np.empty(0, self.record)
        texts = []
        for place, name in enumerate(self._texts, 2):
            offsets, data = _text_buffers(batch.column(place))
            lengths = records[name]
            own = np.cumsum(np.concatenate([offsets[:1], np.maximum(lengths, 0)]))
            if own[-1] != offsets[-1]:
                raise ValueError(f"the kept texts have {offsets[-1] - offsets[0]} bytes, not {own[-1] - own[0]}")
            valid = np.packbits(lengths >= 0, bitorder="little")
            buffers = [pa.py_buffer(valid), pa.py_buffer(own.astype(np.int32)), data]
            texts.append(pa.Array.from_buffers(pa.string(), count, buffers))
        return Part(records, texts)

    def columns(self, part: Part) -> pa.Table:
        """The rows as a table of the layout's schema."""
        records = part.records
        found = {name: _chunks(*_binary_of(records[name])) for name, _ in self._binary}
        columns = [pa.array(np.ascontiguousarray(records[ROW_ID]))]
        columns += [found[name] for name, _ in self._binary if name != LABEL]
        if self.layout.label is not None:
            columns.append(found.get(LABEL) or pa.array(np.ascontiguousarray(records[LABEL])))
        return pa.table([*columns, *part.texts], schema=self.layout.schema)


def _narrow(numbers: npt.NDArray[Any], limit: int) -> npt.NDArray[Any]:
    """`numbers`, from 0 to below `limit`, in few bits: NumPy sorts 16 of them in the time that it takes to count."""
    return numbers.astype(np.min_scalar_type(limit))


def _text_buffers(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """(offsets [values + 1], bytes) of a column without nulls."""
    _, offsets, data = column.buffers()
    if not len(column):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    found = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    return found, data if data is not None else pa.py_buffer(b"")


def _chunks(offsets: npt.NDArray[np.int64], data: pa.Buffer) -> pa.Array:
    """A binary column. Raises ValueError for more bytes than one has."""
    if offsets[-1] >= 2**31:
        raise ValueError("more than 2 GiB of rows at a time")
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data])


def _binary_of(values: npt.NDArray[np.void]) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    offsets = np.arange(len(values) + 1, dtype=np.int64) * values.dtype.itemsize
    return offsets, pa.py_buffer(np.ascontiguousarray(values).view(np.uint8))


class FileRows:
    """All rows of a file, in memory. parts: as they have come; they are not copied."""

    def __init__(self, packing: Packing, parts: Sequence[Part], lanes: int) -> None:
        self._packing, self._parts = packing, parts
        self._starts = np.cumsum([0, *(len(part.records) for part in parts)])
        ids = np.concatenate([part.records[ROW_ID] for part in parts]).view(np.uint64)
        by_id = np.argsort(ids)
        lane = _narrow(row_ids.lane_of(ids, lanes)[by_id], lanes)
        by_lane = np.argsort(lane, kind="stable")
        self._order = by_id[by_lane]
        self._lane = lane[by_lane]

    def sorted(self) -> Iterator[tuple[int, pa.Table]]:
        """(lane, its next rows: at most a block), by lane and row_id as unsigned number."""
        rows = self._packing.layout.block_rows
        cuts = [*np.flatnonzero(np.diff(self._lane, prepend=-1)).tolist(), len(self._lane)]
        for start, stop in pairwise(cuts):
            for first in range(start, stop, rows):
                chosen = self._order[first : min(first + rows, stop)]
                yield int(self._lane[start]), self._packing.columns(self._gathered(chosen))

    def _gathered(self, chosen: Order) -> Part:
        """Rows by their places among all."""
        part = np.searchsorted(self._starts, chosen, side="right") - 1
        order = np.argsort(part, kind="stable")
        numbers, first = np.unique(part[order], return_index=True)
        records, texts = [], []
        for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
            own = chosen[rows] - self._starts[number]
            # Without their fields, rows are copied whole.
            records.append(self._parts[number].records.view(f"V{self._packing.record.itemsize}")[own])
            texts.append([column.take(pa.array(own)) for column in self._parts[number].texts])
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        whole = [pa.concat_arrays(columns).take(pa.array(back)) for columns in zip(*texts, strict=True)]
        return Part(np.concatenate(records)[back].view(self._packing.record), whole)
