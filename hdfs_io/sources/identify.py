"""Numbers parsed rows among equal ones, names them (`row_id`), deals them to lanes and cuts them into splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from hdfs_io import row_ids
from hdfs_io.cut import Cut
from hdfs_io.lane_files import LABEL, ROW_ID, label_of, tensor_of
from hdfs_io.preprocessing import TOKENS, Description, LabelSpec
from hdfs_io.sources.base import ParsedRows, Source
from hdfs_io.sources.parse import BAD, CONTENT, LANE, PART, SPLIT, content_of, keep_names, parse, tensor_names
from hdfs_io.spark_batches import bounded_batches, rows_per_batch
from sparksplit.base.config import digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def with_row_ids(frame: DataFrame, kept: int, lanes: int, cut: Cut) -> DataFrame:
    """A parsed frame with `row_id` (bigint), `lane` (int) and `split` (int, index in SPLITS); bad rows stay in it.

    kept: how many columns are kept. Equal rows are numbered over the whole source: training rows first, so that their
    numbers do not depend on the test files, then in the order of the kept columns; where those are equal too, the order
    does not matter.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.functions import pandas_udf

    @pandas_udf("row_id bigint, lane int, split int")  # type: ignore[call-overload, untyped-decorator]
    def identify(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            first, second, number, part = (column.to_numpy() for column in batch)
            content = np.stack([row_ids.unsigned(first), row_ids.unsigned(second)], axis=1)
            ids = row_ids.row_id(content[:, 0], number - 1)
            splits = cut.splits(content, number - 1, part)
            yield pd.DataFrame({ROW_ID: row_ids.signed(ids), LANE: row_ids.lane_of(ids, lanes), SPLIT: splits})

    # Bad rows have no content of their own, and come last in case a good row has the same.
    window = Window.partitionBy(*CONTENT).orderBy(sql.col(BAD).isNotNull(), PART, *keep_names(kept))
    numbered = frame.withColumn("number", sql.row_number().over(window))
    named = numbered.select(*frame.columns, identify(*CONTENT, "number", PART).alias("ids"))
    return named.select(*frame.columns, f"ids.{ROW_ID}", f"ids.{LANE}", f"ids.{SPLIT}")


def digest_now(spark: SparkSession, source: Source) -> str:
    """`rows_digest` of a source as it is now; reads all of it."""
    with bounded_batches(spark, rows_per_batch(sum(tensor.row_bytes for tensor in source.tensors))):
        return rows_digest(with_row_ids(parse(spark, source, ()), len(source.keep), 1, Cut()), source)


def rows_digest(numbered: DataFrame, source: Source) -> str:
    """A hash of the rows of a frame from `with_row_ids`, whatever their order: of the good ones with what they keep, of
    how many are bad, and why, of how `source` reads them, and of its columns' names."""
    from pyspark.sql import functions as sql

    kept = keep_names(len(source.keep))
    # Spark's hash skips a null: without saying where they are, (null, a) would be (a, null).
    gaps = [sql.col(name).isNull() for name in kept]
    good = sql.when(sql.col(BAD).isNull(), sql.xxhash64(ROW_ID, *gaps, *kept))
    bad = sql.when(sql.col(BAD).isNotNull(), sql.xxhash64(f"{BAD}.reason", f"{BAD}.text"))
    hashed = numbered.select(good.alias("good"), bad.alias("bad"))
    found = hashed.agg(sql.count("good"), sql.bit_xor("good"), sql.count("bad"), sql.bit_xor("bad")).collect()[0]
    read = [[tensor.model_dump() for tensor in source.tensors], source.label_kind, list(source.keep)]
    return digest([*found, *read])


def identified(frame: DataFrame, description: Description) -> DataFrame:
    """A frame of stored rows (a binary column per tensor, and the label) with the `row_id`s that `preprocess` gives to
    a source of just these rows: equal ones are numbered among themselves, whatever a cut has dealt to other splits."""
    from pyspark.sql import functions as sql

    tensors, label = description.tensors, description.label
    names = [tensor.name for tensor in tensors] + ([] if label is None else [LABEL])
    own = tensor_names(len(tensors)) + ([] if label is None else [LABEL])
    stored = frame.select(*(sql.col(quoted(name)) for name in names)).toDF(*own)

    def hashed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows = ParsedRows(
                [tensor_of(table.column(name), tensor) for name, tensor in zip(own, tensors, strict=False)],
                None if label is None else _raw_label(table.column(LABEL), label),
            )
            content = content_of(rows)
            columns = [*batch.columns, *(pa.array(row_ids.signed(content[:, word])) for word in (0, 1))]
            yield pa.RecordBatch.from_arrays(columns, names=[*own, *CONTENT])

    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in stored.schema.fields)
    with_content = stored.mapInArrow(hashed, schema + "".join(f", {word} bigint" for word in CONTENT))
    parsed = with_content.withColumn(PART, sql.lit(0)).withColumn(BAD, sql.lit(None).cast("string"))
    return with_row_ids(parsed, 0, lanes=1, cut=Cut()).select(ROW_ID, *own).toDF(ROW_ID, *names)


def quoted(name: str) -> str:
    """A column's name as Spark's expressions want it."""
    return "`" + name.replace("`", "``") + "`"


def _raw_label(column: pa.ChunkedArray, label: LabelSpec) -> Any:
    """The labels as the source had them, from class indices or numbers; tokens stay indices."""
    values = label_of(column, label)
    if label.kind in ("number", *TOKENS) or label.classes is None:
        return values
    if label.kind == "integer":
        return np.array([int(name) for name in label.classes], np.int64)[values]
    return [label.classes[index] for index in values.tolist()]
