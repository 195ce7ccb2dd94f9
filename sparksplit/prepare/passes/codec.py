"""Packs rows into chunks of bytes, in which Spark keeps and shuffles them. Spark then moves a few thousand bytes at a
time, instead of single rows with all their columns.

A row is a record of fixed length: its numbers, its tensors and the lengths of its texts. Texts, and other values of
variable length, are outside the records, one after another. A chunk is a range of records, and a range of each such
column. All chunks of a record batch are one range of memory, so packing and unpacking cost no work for each chunk.
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
    """Packs the columns of `schema`: numbers, texts or bytes that may be null, and bytes of fixed size.

    Bytes of fixed size are fixed_size_binary in `schema`, but binary before packing and after unpacking.
    """

    schema: pa.Schema

    @cached_property
    def record(self) -> np.dtype[np.void]:
        """The fields of a record, one for each column (f0, f1, ...). A text's field is its length, or -1 for a null."""
        return np.dtype([(f"f{place}", _field(field.type)) for place, field in enumerate(self.schema)])

    @cached_property
    def texts(self) -> list[int]:
        """The places of the columns of texts and bytes of variable length."""
        return [place for place, field in enumerate(self.schema) if _varies(field.type)]

    @cached_property
    def unpacked(self) -> pa.Schema:
        """The schema before packing and after unpacking."""
        kinds = [pa.binary() if pa.types.is_fixed_size_binary(field.type) else field.type for field in self.schema]
        return pa.schema([(field.name, kind) for field, kind in zip(self.schema, kinds, strict=True)])

    def pack(
        self, columns: Sequence[pa.Array], chunk_bytes: int, group: npt.NDArray[Any] | None = None
    ) -> tuple[Order, list[pa.Array]]:
        """Return (the first row of each chunk; a binary column of the chunks' records, and one of each text column).

        columns: as in the schema.
        chunk_bytes: approximate bytes of a chunk. A chunk has at least one row.
        group: integers from 0 [rows]. Rows of different groups do not share a chunk.

        Raise ValueError if a binary value has a wrong size, or for 2 GiB of rows or more at a time.
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
        """Return the rows of chunks, as views of the chunks. chunks: the binary columns that `pack` makes

        Raise ValueError if the texts do not have the length that the records say.
        """
        offsets, data = _buffers(chunks[0])
        count = int(offsets[-1] - offsets[0]) // self.record.itemsize
        records = np.frombuffer(data, self.record, count, int(offsets[0])) if count else np.empty(0, self.record)
        texts = []
        for place, column in zip(self.texts, chunks[1:], strict=True):
            offsets, data = _buffers(column)
            lengths = records[f"f{place}"]
            bounds = np.cumsum(np.concatenate([offsets[:1], np.maximum(lengths, 0)]))
            if bounds[-1] != offsets[-1]:
                name = self.schema.names[place]
                raise ValueError(f"{name} has {offsets[-1] - offsets[0]} bytes, not {bounds[-1] - bounds[0]}")
            valid = np.packbits(lengths >= 0, bitorder="little")
            buffers = [pa.py_buffer(valid), pa.py_buffer(bounds.astype(np.int32)), data]
            texts.append(pa.Array.from_buffers(self.schema.types[place], count, buffers))
        return Part(records, texts)

    def columns(self, part: Part) -> list[pa.Array]:
        """Return the columns of the rows, as in `unpacked`."""
        texts = iter(part.texts)
        return [
            next(texts) if _varies(field.type) else _fixed(np.ascontiguousarray(part.records[f"f{place}"]))
            for place, field in enumerate(self.schema)
        ]

    def taken(self, parts: Sequence[Part], starts: Order, chosen: Order) -> Part:
        """Return rows by their places among the rows of all parts. starts: the place of each part's first row"""
        part = np.searchsorted(starts, chosen, side="right") - 1
        order = np.argsort(part, kind="stable")
        numbers, first = np.unique(part[order], return_index=True)
        records, texts = [], []
        for number, rows in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
            in_part = chosen[rows] - starts[number]
            # Viewed without fields, so that NumPy copies each record whole.
            records.append(parts[number].records.view(f"V{self.record.itemsize}")[in_part])
            texts.append([column.take(pa.array(in_part)) for column in parts[number].texts])
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        whole = [pa.concat_arrays(columns).take(pa.array(back)) for columns in zip(*texts, strict=True)]
        return Part(np.concatenate(records)[back].view(self.record), whole)


def chunk_bytes(batch_rows: int) -> int:
    """Return how large a chunk may be in bytes, if a record batch of Spark has `batch_rows` rows."""
    return max(1, BATCH_BYTES // batch_rows)


def joined(pieces: Iterable[Sequence[pa.Array]]) -> list[pa.Array]:
    """Return the columns of several record batches, each joined into one."""
    return [pa.concat_arrays(columns) for columns in zip(*pieces, strict=True)]


def _varies(kind: pa.DataType) -> bool:
    """Return whether the values have different numbers of bytes."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _field(kind: pa.DataType) -> Any:
    if _varies(kind):
        return "<i4"
    return f"V{kind.byte_width}" if pa.types.is_fixed_size_binary(kind) else kind.to_pandas_dtype()


def _values(column: pa.Array, field: pa.Field) -> npt.NDArray[Any]:
    """Return the values of a column of numbers without nulls, or of bytes of fixed size."""
    if not pa.types.is_fixed_size_binary(field.type):
        numbers: npt.NDArray[Any] = column.to_numpy()
        return numbers
    size = field.type.byte_width
    spec = TensorSpec(name=field.name, dtype="uint8", shape=[size])
    return tensor_of(pa.chunked_array([column]), spec).reshape(-1).view(f"V{size}")


def _fixed(values: npt.NDArray[Any]) -> pa.Array:
    """Return a column of numbers, or of bytes of fixed size."""
    if values.dtype.kind != "V":
        return pa.array(values)
    offsets = np.arange(len(values) + 1, dtype=np.int64) * values.dtype.itemsize
    return _binary(offsets, pa.py_buffer(values.view(np.uint8)))


def _narrow(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `numbers`, from 0, in the smallest dtype. NumPy sorts up to 16 bits in linear time (radix sort)."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _starts(group: npt.NDArray[Any] | None, ends: Order, size: int) -> Order:
    """Return where chunks begin: at a new group, and where the chunk before is full.

    group: ascending. ends: bytes up to each row's end. size: bytes of a chunk
    """
    fresh = np.zeros(len(ends), np.bool_) if group is None else np.diff(group.astype(np.int64), prepend=-1) != 0
    fresh[:1] = True
    first = np.flatnonzero(fresh)
    before = np.concatenate([[0], ends[:-1]])
    within = before - np.repeat(before[first], np.diff(first, append=len(ends)))
    full = np.diff(within // size, prepend=0) != 0
    return np.flatnonzero(fresh | full)


def _buffers(column: pa.Array) -> tuple[Order, pa.Buffer]:
    """Return (offsets [values + 1], bytes) of a column of bytes or text without nulls."""
    _, offsets, data = column.buffers()
    if not len(column):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    array = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    return array, data if data is not None else pa.py_buffer(b"")


def _binary(offsets: Order, data: pa.Buffer) -> pa.Array:
    if offsets[-1] >= 2**31:
        raise ValueError("more than 2 GiB of rows at a time")
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data])
