"""Numbers each row among equal rows of the whole source, in the task that has the row. No join, window or shuffle of
rows.

A first pass reads the rows' keys: 16 bytes of content hash, part, kept columns, weight. It finds the contents that
occur more than once, and their counts in each partition (entries). Entries are usually few, and every task of the
second pass gets them. A row's number is the count of equal rows in earlier entries, plus a running count within the
partition.

Equal rows are numbered through the files of train, then validation, then test. Within these, the order is by kept
columns, cut value and weight (`parse.told_apart`). Rows that are equal in these too are interchangeable.

Both passes need the same partitions. If equal rows are too many to send, Spark numbers the whole rows instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.base.errors import RunError
from sparksplit.dataset import row_ids
from sparksplit.dataset.lane_files import CHANGED
from sparksplit.dataset.plan import high_product, partition_keys
from sparksplit.prepare.passes.codec import Codec, chunk_bytes
from sparksplit.prepare.passes.parse import CONTENT, NUMBER, PART
from sparksplit.spark.batches import BATCH_BYTES, partition_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparksplit.prepare.passes.kept import Kept

I64 = npt.NDArray[np.int64]
MAX_ENTRIES = 2_000_000
"""Largest number of entries (see `Numbering`). An entry takes about 40 bytes in every task."""
MAX_BYTES = 128 * 2**20
"""Largest size in bytes of all entries with their kept columns, on the driver and in a task."""
_GROUPED_BYTES = 32 * 2**20
"""Bytes of entries that a task collects before it joins equal entries."""
PARTITION, ROWS = "partition", "rows"
_PACKED = "packed"
_SHUFFLED_BYTES = 16 * 2**20
"""Bytes of contents in which one task searches for equal contents."""


@dataclass(frozen=True, eq=False)
class Numbering:
    """For each partition: how many copies it holds of each repeated row.

    An entry is a content, a part and the kept columns' values in a partition.
    starts: place of each partition's first entry, int64 [partitions + 1].
    prints: hashes by which entries are found, ascending in a partition, uint64 [entries].
    content: uint64 [entries, 2].
    base: number of the entry's first row [entries].
    rows: number of the entry's rows [entries].
    salt: changes the prints, so that they differ within a partition.
    """

    starts: I64
    prints: row_ids.U64
    content: row_ids.U64
    base: I64
    rows: I64
    salt: int = 0

    @classmethod
    def none(cls) -> Numbering:
        """Return the numbering of rows that are all different."""
        empty = np.zeros(0, np.int64)
        return cls(np.zeros(1, np.int64), empty.view(np.uint64), np.zeros((0, 2), np.uint64), empty, empty)

    def of(self, partition: int) -> Numberer:
        """Return the numberer of a partition's rows."""
        if partition + 1 >= len(self.starts):
            return Numberer(Numbering.none())
        mine = slice(self.starts[partition], self.starts[partition + 1])
        starts = np.array([0, mine.stop - mine.start])
        return Numberer(
            Numbering(starts, self.prints[mine], self.content[mine], self.base[mine], self.rows[mine], self.salt)
        )


class Numberer:
    """Numbers the rows of one partition, batch by batch."""

    def __init__(self, entries: Numbering) -> None:
        self._entries = entries
        self._seen = np.zeros(len(entries.base), np.int64)
        self._first = np.unique(entries.content[:, 0])

    def numbers(self, content: row_ids.U64, part: npt.NDArray[np.int32], keep: Sequence[pa.Array] = ()) -> I64:
        """Return the number, from 0, of each row: int64 [rows].

        content: uint64 [rows, 2]. part: index in SPLITS [rows]. keep: columns that distinguish rows of equal content
            [rows]
        """
        numbers = np.zeros(len(content), np.int64)
        if not len(self._first):
            return numbers
        place = np.minimum(np.searchsorted(self._first, content[:, 0]), len(self._first) - 1)
        rows = np.flatnonzero(self._first[place] == content[:, 0])
        if not len(rows):
            return numbers
        chosen, known = content[rows], self._entries
        prints = _prints(chosen, part[rows], _texts([column.take(pa.array(rows)) for column in keep]), known.salt)
        entry = np.minimum(np.searchsorted(known.prints, prints), len(known.prints) - 1)
        matched = (known.prints[entry] == prints) & (known.content[entry] == chosen).all(axis=1)
        rows, entry = rows[matched], entry[matched]
        order = np.argsort(entry, kind="stable")
        ordered = entry[order]
        fresh = np.flatnonzero(np.diff(ordered, prepend=-1))
        counts = np.diff(fresh, append=len(ordered))
        numbers[rows[order]] = (
            known.base[ordered] + self._seen[ordered] + np.arange(len(ordered)) - fresh.repeat(counts)
        )
        self._seen[ordered[fresh]] += counts
        return numbers

    def check(self) -> None:
        """Raise RunError if the partition did not have the rows that were counted in it."""
        if (self._seen != self._entries.rows).any():
            raise RunError(CHANGED)


def number(entries: pa.Table, kept: Sequence[str]) -> Numbering:
    """Return the numbering of the entries that `_Entries` counts, in any order, each entry once.

    entries: columns partition, part, content_a, content_b, the `kept` columns, rows
    """
    if not entries.num_rows:
        return Numbering.none()
    part, partition, rows = (entries.column(name).to_numpy() for name in (PART, PARTITION, ROWS))
    content = _content(entries)
    keep = [entries.column(name).combine_chunks() for name in kept]
    ranks = [_rank(column) for column in keep]
    order = np.lexsort((partition, *reversed(ranks), part, content[:, 1], content[:, 0]))
    before = np.cumsum(rows[order]) - rows[order]
    first = np.flatnonzero((np.diff(content[order], axis=0, prepend=~content[order[:1]]) != 0).any(axis=1))
    base = np.empty(len(order), np.int64)
    base[order] = before - np.repeat(before[first], np.diff(first, append=len(order)))
    texts = _texts(keep)
    for salt in range(100):
        prints = _prints(content, part, texts, salt)
        placed = np.lexsort((prints, partition))
        same = (np.diff(prints[placed]) == 0) & (np.diff(partition[placed]) == 0)
        if not same.any():
            break
    else:
        raise AssertionError("equal rows are listed twice")
    starts = np.searchsorted(partition[placed], np.arange(int(partition.max()) + 2))
    return Numbering(starts, prints[placed], content[placed], base[placed], rows[placed], salt)


def _content(table: pa.Table | pa.RecordBatch) -> row_ids.U64:
    words = (table.column(word).to_numpy() for word in CONTENT)
    return np.stack([row_ids.unsigned(word) for word in words], axis=1)


def _rank(column: pa.Array) -> I64:
    """Return the place of each value among the different values. Null comes first. Texts sort by code points, bytes as
    bytes."""
    known = pc.unique(column.drop_null()).sort()
    places = pc.index_in(column, value_set=known).fill_null(-1)
    ranks: I64 = places.to_numpy(zero_copy_only=False).astype(np.int64)
    return ranks


def _texts(columns: Sequence[pa.Array]) -> list[tuple[Any, ...]] | None:
    return list(zip(*(column.to_pylist() for column in columns), strict=True)) if columns else None


def _prints(
    content: row_ids.U64, part: npt.NDArray[np.int32], texts: Sequence[tuple[Any, ...]] | None, salt: int
) -> row_ids.U64:
    """Return the hash by which an entry is found, made of all parts of the entry: uint64 [rows]."""
    mixed = row_ids.mix64(row_ids.mix64(content[:, 0] + np.uint64(salt)) ^ content[:, 1]) + part.astype(np.uint64)
    if texts is not None:
        key = str(salt).encode()
        hashed = b"".join(hashlib.blake2b(repr(row).encode(), digest_size=8, key=key).digest() for row in texts)
        mixed = row_ids.mix64(mixed) ^ np.frombuffer(hashed, "<u8")
    return row_ids.mix64(mixed)


# With Spark.


def numbering(keys: Kept, kept: Sequence[str], rows: int, batch_rows: int) -> Numbering | None:
    """Return the numbering of the rows of `keys`. Return None if equal rows, or their kept columns, are too large for
    the driver and every task.

    keys: part, content hash and the kept columns, in the partitions that the rows will have.
    rows: number of rows. batch_rows: rows in one of Spark's record batches.
    """
    from pyspark.sql import functions as sql

    several = _several(keys, rows, batch_rows)
    if not several.num_rows:
        return Numbering.none()
    if several.num_rows > MAX_ENTRIES:
        return None
    frame = keys.through(_Entries(_content(several), [PART, *CONTENT, *kept])).persist()
    try:
        # Check the size before the entries go to the driver, which can receive and hold only so much.
        entries, size = frame.agg(sql.sum(ROWS), sql.sum(sql.length(_PACKED))).collect()[0]
        if _too_many(entries or 0, size or 0):
            return None
        tables = [unpacked(row[0]) for row in frame.select(_PACKED).collect()]
        return number(pa.concat_tables(tables), kept) if tables else Numbering.none()
    finally:
        frame.unpersist()


def _too_many(entries: int, size: int) -> bool:
    return entries > MAX_ENTRIES or size > MAX_BYTES


def _several(keys: Kept, rows: int, batch_rows: int) -> pa.Table:
    """Return the contents that occur more than once. If there are more than MAX_ENTRIES, return only some of them.

    The shuffle moves 16 bytes of each row.
    """
    partitions = max(1, -(-rows * 16 // _SHUFFLED_BYTES))
    spread = Spread(partition_keys(partitions), chunk_bytes(batch_rows))
    frame = keys.through(spread).repartition(partitions, PARTITION).select(ROWS)
    return collected(frame.mapInArrow(several, ", ".join(f"{word} bigint" for word in CONTENT)).limit(MAX_ENTRIES + 1))


_CONTENTS = Codec(pa.schema([(word, pa.int64()) for word in CONTENT]))


@dataclass(frozen=True, eq=False)
class Spread:
    """Sends all rows of a content to one partition; see `Stage`.

    A content that a record batch has several times is sent only twice. So many equal rows cost no more than few.
    keys: for each partition, the int that Spark puts into this partition.
    """

    keys: npt.NDArray[np.int32]
    chunk_bytes: int

    @property
    def schema(self) -> pa.Schema:
        """The key of the partition, and a chunk of contents."""
        return pa.schema([(PARTITION, pa.int32()), (ROWS, pa.binary())])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            content = _by_first_word(_content(batch))
            again = _again(content)
            content = content[~(again & np.append(False, again[:-1])[: len(again)])]
            partition = high_product(content[:, 0], np.full(1, len(self.keys), np.uint64))
            columns = [pa.array(row_ids.signed(content[:, word])) for word in (0, 1)]
            chosen, chunks = _CONTENTS.pack(columns, self.chunk_bytes, partition.astype(np.int64))
            yield pa.RecordBatch.from_arrays([pa.array(self.keys[partition[chosen]]), *chunks], schema=self.schema)


def several(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the contents that occur more than once in the chunks of a partition, each content once."""
    parts = [_CONTENTS.unpack(batch.columns).records for batch in batches]
    if not parts:
        return
    content = _by_first_word(np.concatenate(parts).view(np.uint64).reshape(-1, 2))
    alike = np.zeros(len(content) + 1, np.bool_)  # few
    alike[1:-1] = content[1:, 0] == content[:-1, 0]
    content = content[alike[1:] | alike[:-1]]
    content = content[np.lexsort((content[:, 1], content[:, 0]))]
    again = _again(content)
    first = again & ~np.append(False, again[:-1])[: len(again)]
    columns = [pa.array(row_ids.signed(content[first, word])) for word in (0, 1)]
    yield from pa.table(columns, names=list(CONTENT)).to_batches(max_chunksize=10_000)


def _by_first_word(content: row_ids.U64) -> row_ids.U64:
    ordered: row_ids.U64 = content[np.argsort(content[:, 0])]
    return ordered


def _again(content: row_ids.U64) -> npt.NDArray[np.bool_]:
    """Return which contents equal the content before them."""
    same: npt.NDArray[np.bool_] = np.zeros(len(content), np.bool_)
    same[1:] = (content[1:] == content[:-1]).all(axis=1)
    return same


class _Entries:
    """Counts the rows of `content` by all columns, in a task; see `Stage`. names: these columns

    Each record batch has the number of its entries, and the packed entries. A task with too many entries stops, and
    reports only that.
    """

    schema = pa.schema([(ROWS, pa.int64()), (_PACKED, pa.binary())])

    def __init__(self, content: row_ids.U64, names: Sequence[str]) -> None:
        self._names = list(names)
        self._content = content[np.lexsort((content[:, 1], content[:, 0]))]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        entries: pa.Table | None = None
        pending: list[pa.Table] = []
        size = 0
        for batch in batches:
            rows = np.flatnonzero(self._several(_content(batch)))
            if not len(rows):
                continue
            some = pa.Table.from_batches([batch]).take(pa.array(rows))
            pending.append(self._grouped([some.append_column(ROWS, pa.array(np.ones(len(rows), np.int64)))]))
            size += pending[-1].nbytes
            if size >= _GROUPED_BYTES:
                entries = self._grouped(pending if entries is None else [entries, *pending])
                pending, size = [], 0
                if _too_many(entries.num_rows, entries.nbytes):
                    break
        if pending:
            entries = self._grouped(pending if entries is None else [entries, *pending])
        if entries is None:
            return
        if _too_many(entries.num_rows, entries.nbytes):
            yield self._batch(MAX_ENTRIES + 1, b"")
            return
        partition = pa.array(np.full(entries.num_rows, partition_id(), np.int32))
        whole = entries.append_column(PARTITION, partition)
        step = max(1, whole.num_rows * BATCH_BYTES // whole.nbytes)
        for start in range(0, whole.num_rows, step):
            part = whole.slice(start, step)
            yield self._batch(part.num_rows, _stream(part))

    def _batch(self, entries: int, stream: bytes) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({ROWS: [entries], _PACKED: [stream]}, schema=self.schema)

    def _several(self, content: row_ids.U64) -> npt.NDArray[np.bool_]:
        """Return whether each content may occur more than once, by its first word."""
        known = self._content[:, 0]
        place = np.minimum(np.searchsorted(known, content[:, 0]), len(known) - 1)
        several: npt.NDArray[np.bool_] = known[place] == content[:, 0]
        return several

    def _grouped(self, tables: list[pa.Table]) -> pa.Table:
        grouped = pa.concat_tables(tables).group_by(self._names, use_threads=False).aggregate([(ROWS, "sum")])
        return grouped.rename_columns([*self._names, ROWS])


def collected(frame: DataFrame) -> pa.Table:
    """Return the rows of a small frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({_PACKED: [_stream(pa.Table.from_batches([batch]))]})

    tables = [unpacked(row[0]) for row in frame.mapInArrow(packed, f"{_PACKED} binary").collect()]
    return pa.concat_tables(tables) if tables else to_arrow_schema(frame.schema).empty_table()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(stream: bytes | bytearray) -> pa.Table:
    """Return the rows of a packed table."""
    return pa.ipc.open_stream(bytes(stream)).read_all()


def numbered_whole(frame: DataFrame, kept: Sequence[str]) -> DataFrame:
    """Return a frame of parsed rows with `number` (bigint, from 0), from a window over whole rows.

    All rows of equal content go to one task.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    window = Window.partitionBy(*CONTENT).orderBy(PART, *kept)
    return frame.withColumn(NUMBER, (sql.row_number().over(window) - 1).cast("bigint"))
