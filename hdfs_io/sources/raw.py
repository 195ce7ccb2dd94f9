"""Raw rows as a trained model wants them, for `predict`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hdfs_io.cut import Cut
from hdfs_io.lane_files import LABEL, ROW_ID
from hdfs_io.manifest import SPLITS
from hdfs_io.preprocessing import TOKENS, Description
from hdfs_io.sources.base import BadRow, Source
from hdfs_io.sources.identify import rows_digest, with_row_ids
from hdfs_io.sources.parse import PART, bad_rows, keep_names, parse, tensor_names
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
) -> Iterator[tuple[dict[str, DataFrame], list[BadRow], str | None]]:
    """(raw rows as a model wants them, by part; the bad rows left out; `rows_digest` where the source has no files).

    source: opened for the data that `description` belongs to.

    A frame has `row_id` (bigint; that of the data set that `preprocess` makes of the same input), a binary column for
    each tensor, `label` (the class's index as bigint, or float; null for a class that the model does not know; binary
    where it is a token at each position; no column where the configuration has `label: null`) and the columns to keep.
    It is cached inside the block.

    parts: of an IDX folder, train and test (t10k); of CSV, the files of `path` and of `test`. Rows of the others are
        read too, because equal rows are numbered over all of them.

    Raises InputError for more bad rows than `max_bad_rows`.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    row_bytes = sum(tensor.row_bytes for tensor in source.tensors)
    with bounded_batches(spark, rows_per_batch(row_bytes)):
        numbered = with_row_ids(parse(spark, source, parts), len(source.keep), lanes=1, cut=Cut())
        numbered = numbered.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            bad = bad_rows(spark, numbered, max_bad_rows) if numbered.where("bad is not null").take(1) else []
            columns = [sql.col(ROW_ID), *(sql.col(name) for name in tensor_names(len(source.tensors)))]
            names = [ROW_ID, *(tensor.name for tensor in source.tensors)]
            if source.label_kind is not None:
                label = sql.col(LABEL)
                known = None if source.label_kind in TOKENS or description.label is None else description.label.classes
                if known is not None:
                    classes = sql.array(*(sql.lit(name) for name in known))
                    place = sql.call_function("array_position", classes, label.cast("string"))
                    label = sql.when(place > 0, place - 1).cast("bigint")
                columns.append(label)
                names.append(LABEL)
            columns += [sql.col(name) for name in keep_names(len(source.keep))]
            good = numbered.where("bad is null")
            yield (
                {
                    part: good.where(sql.col(PART) == SPLITS.index(part)).select(*columns).toDF(*names, *source.keep)
                    for part in parts
                },
                bad,
                None if source.files else rows_digest(numbered, source),
            )
        finally:
            numbered.unpersist()
