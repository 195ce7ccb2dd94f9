"""Rows packed into chunks of bytes, which is how Spark keeps and shuffles them: it then moves a few thousand bytes at a
time instead of single rows with all their columns.

A row is a record of fixed length: its numbers, its tensors, and how long its texts are. The texts, and whatever else is
not of the same length in all rows, lie beside the records, one after the other. A chunk is a stretch of records, and of
each such column. Packing and unpacking cost no work for each chunk: those of a record batch are one stretch of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.lane_files import tensor_of
from sparksplit.spark.batches import BATCH_BYTES

Records = npt.NDArray[np.void]
Order = npt.NDArray[np.int64]


class Part(NamedTuple):
    """Some rows. records: [rows], with the fields of `Codec.record`. texts: of each column of `Codec.texts`, [rows]"""

    records: Records
    texts: list[pa.Array]


@dataclass(frozen=True)
class Codec:
    """Packs the columns of `schema`: numbers, texts and bytes that may be null, and bytes of which all values have the
    same number, which are fixed_size_binary here and binary where they are packed and unpacked.
    """

    schema: pa.Schema

    @cached_property
    def record(self) -> np.dtype[np.void]:
        """The fields of a record, one for each column (f0, f1, ...); of a text its length, -1 for a null."""
        return np.dtype([(f"f{place}", _field(field.type)) for place, field in enumerate(self.schema)])

    @cached_property
    def texts(self) -> list[int]:
        """The places of the columns of texts and bytes."""
        return [place for place, field in enumerate(self.schema) if _varies(field.type)]

    @cached_property
    def unpacked(self) -> pa.Schema:
        """The schema of what is packed and unpacked."""
        kinds = [pa.binary() if pa.types.is_fixed_size_binary(field.type) else field.type for field in self.schema]
        return pa.schema([(field.name, kind) for field, kind in zip(self.schema, kinds, strict=True)])

    def pack(
        self, columns: Sequence[pa.Array], chunk_bytes: int, group: npt.NDArray[Any] | None = None
    ) -> tuple[Order, list[pa.Array]]:
        """(a row of each chunk; a binary column of the chunks' records, and one of each text column).

        columns: as the schema has them. chunk_bytes: of a chunk, roughly; it has a row at least. group: rows of
        different groups do not share a chunk: integers from 0 [rows]

        Raises ValueError where a binary value does not have the bytes that it should have, or for 2 GiB at a time.
        """
        rows = len(columns[0])
        order = np.arange(rows) if group is None else np.argsort(_narrow(group), kind="stable")
        records = np.empty(rows, self.record)
        ends = np.arange(1, rows + 1) * self.record.itemsize
        texts = []
        for place, (field, column) in enumerate(zip(self.schema, columns, strict=True)):
            if _varies(field.type):
                empty = pa.scalar(b"", pa.binary()).cast(field.type)
                offsets, data = _buffers(column.fill_null(empty).take(pa.array(order)))
                known = column.is_valid().to_numpy(zero_copy_only=False)[order]
                records[f"f{place}"] = np.where(known, np.diff(offsets), -1)
                ends += offsets[1:] - offsets[0]
                texts.append((offsets, data))
            else:
                records[f"f{place}"] = _values(column, field)[order]
        starts = _starts(None if group is None else group[order], ends, chunk_bytes)
        cuts = np.append(starts, rows)
        packed = [_binary(cuts * self.record.itemsize, pa.py_buffer(records))]
        packed += [_binary(offsets[cuts], data) for offsets, data in texts]
        return order[starts], packed

    def unpack(self, chunks: Sequence[pa.Array]) -> Part:
        """The rows of chunks, as views of them. chunks: the binary columns that `pack` makes

        Raises ValueError where the texts are not as long as the records say.
        """
        offsets, data = _buffers(chunks[0])
        count = int(offsets[-1] - offsets[0]) // self.record.itemsize
        records = np.frombuffer(data, self.record, count, int(offsets[0])) if count else np.empty(0, self.record)
        texts = []
        for place, column in zip(self.texts, chunks[1:], strict=True):
            offsets, data = _buffers(column)
            lengths = records[f"f{place}"]
            own = np.cumsum(np.concatenate([offsets[:1], np.maximum(lengths, 0)]))
            if own[-1] != offsets[-1]:
                name = self.schema.names[place]
                raise ValueError(f"{name} has {offsets[-1] - offsets[0]} bytes, not {own[-1] - own[0]}")
            valid = np.packbits(lengths >= 0, bitorder="little")
            buffers = [pa.py_buffer(valid), pa.py_buffer(own.astype(np.int32)), data]
            texts.append(pa.Array.from_buffers(self.schema.types[place], count, buffers))
        return Part(records, texts)

    def columns(self, part: Part) -> list[pa.Array]:
        """The columns of the rows, as `unpacked` has them."""
        texts = iter(part.texts)
        return [
            next(texts) if _varies(field.type) else _fixed(np.ascontiguousarray(part.records[f"f{place}"]))
            for place, field in enumerate(self.schema)
        ]

    def taken(self, parts: Sequence[Part], starts: Order, chosen: Order) -> Part:
        """Rows by their places among those of all parts. starts: the place of each part's first row"""
        part = np.searchsorted(starts, chosen, side="right") - 1
        order = np.argsort(part, kind="stable")
        numbers, first = np.unique(part[order], return_index=True)
        records, texts = [], []
        for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
            own = chosen[rows] - starts[number]
            # Without their fields, records are copied whole.
            records.append(parts[number].records.view(f"V{self.record.itemsize}")[own])
            texts.append([column.take(pa.array(own)) for column in parts[number].texts])
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        whole = [pa.concat_arrays(columns).take(pa.array(back)) for columns in zip(*texts, strict=True)]
        return Part(np.concatenate(records)[back].view(self.record), whole)


def chunk_bytes(batch_rows: int) -> int:
    """How long a chunk may be, where Spark puts `batch_rows` into a record batch."""
    return max(1, BATCH_BYTES // batch_rows)


def joined(pieces: Iterable[Sequence[pa.Array]]) -> list[pa.Array]:
    """The columns of several record batches, each as one."""
    return [pa.concat_arrays(columns) for columns in zip(*pieces, strict=True)]


def _varies(kind: pa.DataType) -> bool:
    """Whether values are not all of the same number of bytes."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _field(kind: pa.DataType) -> Any:
    if _varies(kind):
        return "<i4"
    return f"V{kind.byte_width}" if pa.types.is_fixed_size_binary(kind) else kind.to_pandas_dtype()


def _values(column: pa.Array, field: pa.Field) -> npt.NDArray[Any]:
    """The values of a column of numbers, without nulls, or of bytes."""
    if not pa.types.is_fixed_size_binary(field.type):
        numbers: npt.NDArray[Any] = column.to_numpy()
        return numbers
    size = field.type.byte_width
    spec = TensorSpec(name=field.name, dtype="uint8", shape=[size])
    return tensor_of(pa.chunked_array([column]), spec).reshape(-1).view(f"V{size}")


def _fixed(values: npt.NDArray[Any]) -> pa.Array:
    """A column of numbers, or of values of the same number of bytes."""
    if values.dtype.kind != "V":
        return pa.array(values)
    offsets = np.arange(len(values) + 1, dtype=np.int64) * values.dtype.itemsize
    return _binary(offsets, pa.py_buffer(values.view(np.uint8)))


def _narrow(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`numbers`, from 0, in few bits: NumPy sorts 16 of them in the time that it takes to count."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _starts(group: npt.NDArray[Any] | None, ends: Order, size: int) -> Order:
    """Where chunks begin: at a new group, and where one is full. group: ascending. ends: bytes up to each row's end"""
    fresh = np.zeros(len(ends), np.bool_) if group is None else np.diff(group.astype(np.int64), prepend=-1) != 0
    fresh[:1] = True
    first = np.flatnonzero(fresh)
    before = np.concatenate([[0], ends[:-1]])
    within = before - np.repeat(before[first], np.diff(first, append=len(ends)))
    full = np.diff(within // size, prepend=0) != 0
    return np.flatnonzero(fresh | full)


def _buffers(column: pa.Array) -> tuple[Order, pa.Buffer]:
    """(offsets [values + 1], bytes) of a column of bytes or text without nulls."""
    _, offsets, data = column.buffers()
    if not len(column):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    found = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    return found, data if data is not None else pa.py_buffer(b"")


def _binary(offsets: Order, data: pa.Buffer) -> pa.Array:
    if offsets[-1] >= 2**31:
        raise ValueError("more than 2 GiB of rows at a time")
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data])
