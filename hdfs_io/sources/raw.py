"""Raw rows as a trained model wants them, for `predict`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hdfs_io import row_ids
from hdfs_io.counts import count
from hdfs_io.lane_files import LABEL, ROW_ID
from hdfs_io.manifest import SPLITS
from hdfs_io.preprocessing import TOKENS, Description
from hdfs_io.sources.base import BadRow, Source
from hdfs_io.sources.identify import Cut, Identify, rows_digest
from hdfs_io.sources.parse import bad_rows, keep_names, parsed_schema, tensor_names
from hdfs_io.sources.passes import passes
from hdfs_io.spark_batches import bounded_batches, rows_per_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def raw_rows(
    spark: SparkSession,
    source: Source,
    description: Description,
    max_bad_rows: int = 0,
    parts: Sequence[str] = SPLITS,
) -> Iterator[Raw]:
    """Raw rows as a model wants them.

    source: opened for the data that `description` belongs to.

    A frame has `row_id` (bigint; that of the data set that `preprocess` makes of the same input), a binary column for
    each tensor, `label` (the class's index as bigint, or float; null for a class that the model does not know; binary
    where it is a token at each position; no column where the configuration has `label: null`) and the columns to keep.
    Its rows are read when it is used, unless the source keeps them.

    parts: of an IDX folder, train and test (t10k); of CSV, the files of `path` and of `test`. Rows of the others are
        read too, because equal rows are numbered over all of them.

    Raises InputError for more bad rows than `max_bad_rows`.
    """
    row_bytes = sum(tensor.row_bytes for tensor in source.tensors)
    with bounded_batches(spark, rows_per_batch(row_bytes)), passes(spark, source, parts) as both:
        _, some = both.count()
        bad = bad_rows(spark, both.keys, max_bad_rows) if some else []
        identify = both.identify()
        counted = count(both.keys, source, identify, Cut(), labels=False)
        known = None if description.label is None or source.label_kind in TOKENS else description.label.classes
        label = None if known is None or source.label_kind is None else pa.array(known, pa.string())
        frames = {part: both.through(_ForModel.of(source, part, identify, label)) for part in parts}
        digest = None if source.files else rows_digest(both.keys, source)
        yield Raw(frames, {part: counted.rows[part] for part in parts}, bad, digest)


class Raw(NamedTuple):
    """Raw rows as a model wants them: frames and numbers of rows by part, the bad rows that were left out, and
    `rows_digest` where the source has no files."""

    frames: dict[str, DataFrame]
    rows: dict[str, int]
    bad: list[BadRow]
    digest: str | None


@dataclass(frozen=True)
class _ForModel:
    """Names the rows of a part, and puts the model's classes for their labels; see `Stage`.

    columns: those of parsed rows that stay. classes: the model's, as text; None where labels stay as they are.
    """

    part: int
    columns: list[str]
    schema: pa.Schema
    identify: Identify
    classes: pa.Array | None

    @classmethod
    def of(cls, source: Source, part: str, identify: Identify, classes: pa.Array | None) -> _ForModel:
        parsed = parsed_schema(source)
        tensors, kept = tensor_names(len(source.tensors)), keep_names(len(source.keep))
        label = [] if source.label_kind is None else [LABEL]
        columns = [*tensors, *label, *kept]
        names = [*(tensor.name for tensor in source.tensors), *label, *source.keep]
        fields = [(name, parsed.field(column).type) for name, column in zip(names, columns, strict=True)]
        if classes is not None:
            fields[len(tensors)] = (LABEL, pa.int64())
        return cls(SPLITS.index(part), columns, pa.schema([(ROW_ID, pa.int64()), *fields]), identify, classes)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in self.identify(batches):
            mine = pa.array(found.part == self.part)
            columns = [pa.array(row_ids.signed(found.ids))]
            for name in self.columns:
                column = found.rows.column(name)
                if name == LABEL and self.classes is not None:
                    column = pc.index_in(column.cast(pa.string()), value_set=self.classes).cast(pa.int64())
                columns.append(column)
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema).filter(mine)
