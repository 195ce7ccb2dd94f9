"""Passes over the training rows: fit vocabularies of text columns, and medians and buckets of number columns.

Tasks count their own rows, and executors merge the counts. The driver gets only the vocabularies and the quantiles.
Neither depends on the number of tasks. Rows of validation and test are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.feature_scaling import as_floats
from sparksplit.dataset.lane_files import tensor_of
from sparksplit.dataset.manifest import SPLITS
from sparksplit.features.quantiles import BINS, Quantiles, pieces
from sparksplit.prepare.passes.numbering import ROWS
from sparksplit.spark.batches import settings

if TYPE_CHECKING:
    from sparksplit.prepare.passes.cut import Cut
    from sparksplit.prepare.passes.identify import Identified, Identify
    from sparksplit.prepare.passes.kept import Kept

Tokens = Callable[[pa.Array], pa.Array]
COLUMN, TEXT, RANK, SHIFT, VALUE = "column", "text", "rank", "shift", "value"
_TRAIN = SPLITS.index("train")
_COUNTED_BYTES = 64 * 2**20
"""Bytes of texts that a task counts before it sends them on."""
_ROWS = 10_000
"""Rows in a record batch."""


# Vocabularies.


@dataclass(frozen=True)
class Want:
    """A vocabulary that is wanted.

    column: text column of the kept rows.
    min_count: smallest number of occurrences of an entry.
    max_size: largest number of entries.
    tokens: makes the entries of a text column, list<string> [rows], null or empty for no entries. Picklable. None: an
        entry is a whole text.
    """

    column: str
    min_count: int = 1
    max_size: int = 20_000
    tokens: Tokens | None = None


def fitted_texts(rows: Kept, identify: Identify, cut: Cut, wants: Sequence[Want]) -> list[list[str]]:
    """Return the vocabulary of each of `wants`, from the training rows. The empty text is in no vocabulary.

    The most frequent entries come first. In a tie, the entry with the lower code points comes first.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    vocabularies: list[list[str]] = [[] for _ in wants]
    if not wants:
        return vocabularies
    least, most = (
        sql.array(*(sql.lit(number) for number in numbers))[sql.col(COLUMN)]
        for numbers in ([want.min_count for want in wants], [want.max_size for want in wants])
    )
    longest = max(want.max_size for want in wants)
    # Spark compares strings as bytes of UTF-8, which sort like code points.
    order = Window.partitionBy(COLUMN).orderBy(sql.col(ROWS).desc(), sql.col(TEXT))
    counted = rows.through(TextCounts(identify, cut, wants)).groupBy(COLUMN, TEXT).agg(sql.sum(ROWS).alias(ROWS))
    ranked = counted.where(sql.col(ROWS) >= least).withColumn(RANK, sql.row_number().over(order))
    chosen = ranked.where((sql.col(RANK) <= longest) & (sql.col(RANK) <= most)).select(COLUMN, RANK, TEXT)
    # With this setting, a task sends at most `longest` entries of a column to the task that ranks them.
    with settings(counted.sparkSession, {"spark.sql.optimizer.windowGroupLimitThreshold": str(longest)}):
        for column, _, text in sorted(chosen.collect()):
            vocabularies[column].append(text)
    return vocabularies


@dataclass(frozen=True)
class TextCounts:
    """Counts the entries of the training rows, in a task; see `Stage`. An entry may have several counts."""

    identify: Identify
    cut: Cut
    wants: Sequence[Want]
    counted_bytes: int = _COUNTED_BYTES
    schema: pa.Schema = field(default=pa.schema([(COLUMN, pa.int32()), (TEXT, pa.string()), (ROWS, pa.int64())]))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = [_Counts(self.counted_bytes // len(self.wants)) for _ in self.wants]
        for batch in self.identify(batches):
            train = _training(batch, self.cut)
            for place, want in enumerate(self.wants):
                texts = batch.rows.column(want.column).filter(train)
                entries = texts if want.tokens is None else want.tokens(texts).flatten()
                yield from self._batches(place, counts[place].add(entries))
        for place, left in enumerate(counts):
            yield from self._batches(place, left.taken())

    def _batches(self, place: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
        column = pa.repeat(pa.scalar(place, pa.int32()), table.num_rows)
        yield from pa.table([column, *table.columns], schema=self.schema).to_batches(max_chunksize=_ROWS)


class _Counts:
    """Counts how often texts occur. size: largest number of bytes of texts and counts to collect"""

    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: list[pa.Table] = []
        self._bytes = 0

    def add(self, texts: pa.Array) -> pa.Table:
        """Count texts, which may be null. Return the counts if there is no more room for them, usually an empty
        table."""
        counted = pc.value_counts(texts.filter(pc.greater(pc.binary_length(texts), 0)))
        self._parts.append(pa.table([counted.field(0), counted.field(1)], [TEXT, ROWS]))
        self._bytes += self._parts[-1].nbytes
        if self._bytes > self._size:
            whole = self._added()
            # If few texts are new, there is room again.
            if whole.nbytes > self._size // 2:
                return whole
            self._parts, self._bytes = [whole], whole.nbytes
        return _NOTHING

    def taken(self) -> pa.Table:
        """Return the counts that are left."""
        return self._added() if self._parts else _NOTHING

    def _added(self) -> pa.Table:
        every = pa.concat_tables(self._parts)
        self._parts, self._bytes = [], 0
        added = every.group_by(TEXT).aggregate([(ROWS, "sum")])
        return added.rename_columns([TEXT, ROWS]).combine_chunks()


_NOTHING = pa.table({TEXT: pa.array([], pa.string()), ROWS: pa.array([], pa.int64())})


# Quantiles.


@dataclass(frozen=True)
class NumberColumn:
    """A number column to fit: the values at `place` in each row of a tensor.

    tensor: the tensor's column in the kept rows. buckets: number of buckets. None: the median is wanted.
    """

    tensor: str
    spec: TensorSpec
    place: int
    buckets: int | None = None


def fitted_quantiles(rows: Kept, identify: Identify, cut: Cut, columns: Sequence[NumberColumn]) -> list[list[float]]:
    """Return the bucket boundaries or the median of each column, from the training rows. Empty if all values are
    missing.

    A task holds the bins of all columns: 65,536 for each of up to 64 columns. With more columns, each has fewer bins,
    but at least 4,096. features/quantiles.py says how large the error may be.
    """
    quantiles: list[list[float]] = [[] for _ in columns]
    if not columns:
        return quantiles
    bins = max(1 << 12, min(BINS, 64 * BINS // len(columns)))
    counted = rows.through(NumberCounts(identify, cut, columns, bins))
    partitions = min(len(columns), counted.sparkSession.sparkContext.defaultParallelism)
    merged = counted.repartition(partitions, COLUMN).mapInArrow(
        Merge(columns, bins), f"{COLUMN} int, {RANK} int, {VALUE} double"
    )
    for column, _, value in sorted(merged.collect()):
        quantiles[column].append(value)
    return quantiles


_BINS_IN_ROW = 64
"""A record batch of 10,000 such rows has 10 MB."""


@dataclass(frozen=True)
class NumberCounts:
    """Counts the training rows' values by bin, in a task; see `Stage`. Each row of the result has some bins of one
    column."""

    identify: Identify
    cut: Cut
    columns: Sequence[NumberColumn]
    bins: int
    schema: pa.Schema = field(
        default=pa.schema([(COLUMN, pa.int32()), (SHIFT, pa.int32()), ("bins", pa.binary()), (ROWS, pa.binary())])
    )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = [Quantiles(self.bins) for _ in self.columns]
        specs = {column.tensor: column.spec for column in self.columns}
        for batch in self.identify(batches):
            train = _training(batch, self.cut)
            tensors = {
                name: tensor_of(pa.chunked_array([batch.rows.column(name).filter(train)]), spec)
                for name, spec in specs.items()
            }
            for column, of_column in zip(self.columns, counts, strict=True):
                values = tensors[column.tensor]
                of_column.update(as_floats(values.reshape(len(values), column.spec.values)[:, column.place]))
        for place, of_column in enumerate(counts):
            some = list(pieces(of_column.state(), _BINS_IN_ROW))
            columns = [
                pa.repeat(pa.scalar(place, pa.int32()), len(some)),
                pa.array([shift for _, _, shift in some], pa.int32()),
                pa.array([keys.tobytes() for keys, _, _ in some], pa.binary()),
                pa.array([rows.tobytes() for _, rows, _ in some], pa.binary()),
            ]
            yield from pa.table(columns, schema=self.schema).to_batches(max_chunksize=_ROWS)


@dataclass(frozen=True)
class Merge:
    """Merges the bins of the columns in a partition, into bucket boundaries or medians."""

    columns: Sequence[NumberColumn]
    bins: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        merged: dict[int, Quantiles] = {}
        for batch in batches:
            groups = pa.table(batch.columns[:2], names=[COLUMN, SHIFT]).group_by([COLUMN, SHIFT]).aggregate([])
            for group in groups.to_pylist():
                same = pc.and_(pc.equal(batch.column(0), group[COLUMN]), pc.equal(batch.column(1), group[SHIFT]))
                keys, counts = (b"".join(batch.column(place).filter(same).to_pylist()) for place in (2, 3))
                quantiles = merged.setdefault(group[COLUMN], Quantiles(self.bins))
                quantiles.add(np.frombuffer(keys, np.uint64), np.frombuffer(counts, np.int64), group[SHIFT])
        for place, quantiles in merged.items():
            buckets = self.columns[place].buckets
            values = [quantiles.quantile(Fraction(1, 2))] if buckets is None else quantiles.boundaries(buckets)
            columns = [pa.array([place] * len(values), pa.int32()), pa.array(range(len(values)), pa.int32())]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(values, pa.float64())], [COLUMN, RANK, VALUE])


def _training(batch: Identified, cut: Cut) -> pa.Array:
    """Return which rows are training rows: boolean [rows]."""
    return pa.array(batch.splits(cut) == _TRAIN)
