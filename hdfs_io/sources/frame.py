"""Raw rows as a Spark DataFrame: parsed and hashed in executors, then numbered, named and dealt to lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from hdfs_io import row_ids
from hdfs_io.config import InputConfig
from hdfs_io.lane_files import LABEL, binary_column, label_of, tensor_of
from hdfs_io.manifest import SPLITS
from hdfs_io.preprocessing import TOKENS, Description, LabelSpec, TensorSpec
from hdfs_io.sources import open_source
from hdfs_io.sources.base import BadRow, Rows, Source, Task
from hdfs_io.sources.csv import lines_before
from sparksplit.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_BYTES = 8 * 1024 * 1024
"""Bytes of the record batches that Spark hands to Python."""
_BAD = pa.struct(
    [
        ("path", pa.string()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("offset", pa.int64()),
        ("fatal", pa.bool_()),
    ]
)
_LABELS = {
    "integer": pa.int64(),
    "number": pa.float32(),
    "text": pa.string(),
    **dict.fromkeys(TOKENS, pa.binary()),
}


@dataclass(frozen=True)
class Cut:
    """How rows of the training files are dealt to splits: test below `test`, validation below test + validation."""

    seed: int = 0
    validation: float = 0.0
    test: float = 0.0

    def splits(self, content: row_ids.U64, part: str) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The index in SPLITS of each row. content: uint64 [rows, 2]; part: the task's"""
        if part != "train":
            return np.full(len(content), SPLITS.index(part), dtype=np.int32)
        fraction = row_ids.split_fraction(content, self.seed)
        return np.select(
            [fraction < self.test, fraction < self.test + self.validation],
            [np.int32(SPLITS.index("test")), np.int32(SPLITS.index("validation"))],
            np.int32(0),
        )


def parsed_schema(source: Source) -> pa.Schema:
    """split, content hash (two words), the tensors, label and kept columns; or `bad`, and nulls for all else."""
    fields = [("split", pa.int32()), ("content_a", pa.int64()), ("content_b", pa.int64())]
    fields += [(tensor.name, pa.binary()) for tensor in source.tensors]
    if source.label_kind is not None:
        fields.append((LABEL, _LABELS[source.label_kind]))
    return pa.schema([*fields, *((name, pa.string()) for name in source.keep), ("bad", _BAD)])


def parse(spark: SparkSession, source: Source, cut: Cut, parts: Sequence[str] = SPLITS) -> DataFrame:
    """The source's rows, good and bad, with the columns of `parsed_schema`; one Spark task for each of its tasks."""
    tasks = [task for task in source.tasks() if task.part in parts]
    schema = parsed_schema(source)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for item in source.read(tasks[number]):
                    yield to_batch(item, tasks[number], cut, schema)

    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(run, _spark_schema(schema))


def to_batch(item: Rows | BadRow, task: Task, cut: Cut, schema: pa.Schema) -> pa.RecordBatch:
    """What a source read as a record batch of `schema`."""
    if isinstance(item, BadRow):
        bad = {field.name: getattr(item, field.name) for field in _BAD}
        return pa.RecordBatch.from_pylist([{"bad": bad}], schema=schema)
    count = len(item)
    if count == 0:
        return pa.RecordBatch.from_pylist([], schema=schema)
    content = content_of(item)
    columns: list[pa.Array] = [pa.array(cut.splits(content, task.part))]
    columns += [pa.array(row_ids.signed(content[:, word])) for word in (0, 1)]
    columns += [binary_column(tensor, _spec(tensor)) for tensor in item.tensors]
    if isinstance(item.label, np.ndarray) and item.label.ndim > 1:
        columns.append(binary_column(item.label, _spec(item.label)))
    elif item.label is not None:
        columns.append(pa.array(item.label, type=schema.field(LABEL).type))
    columns += [pa.array(texts, type=pa.string()) for texts in item.keep]
    columns.append(pa.nulls(count, _BAD))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def content_of(rows: Rows) -> row_ids.U64:
    """The content hash of each row: uint64 [rows, 2]."""
    fixed = [_bytes(tensor) for tensor in rows.tensors]
    text = None
    if isinstance(rows.label, list):
        text = [label.encode() for label in rows.label]
    elif rows.label is not None:
        fixed.append(_bytes(rows.label))
    return row_ids.content_hash(fixed[0] if len(fixed) == 1 else np.concatenate(fixed, axis=1), text)


def with_row_ids(frame: DataFrame, keep: Sequence[str], lanes: int) -> DataFrame:
    """The good rows of a parsed frame with `row_id` (bigint) and `lane` (int).

    keep: the kept columns. Equal rows of a split are numbered in their order; where those are equal too, the order is
    of no consequence.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.functions import pandas_udf

    @pandas_udf("row_id bigint, lane int")  # type: ignore[call-overload, untyped-decorator]
    def identify(batches: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.DataFrame]:
        for content, number in batches:
            ids = row_ids.row_id(row_ids.unsigned(content.to_numpy()), number.to_numpy() - 1)
            yield pd.DataFrame({"row_id": row_ids.signed(ids), "lane": row_ids.lane_of(ids, lanes)})

    order = [sql.col(f"`{name}`") for name in keep] or [sql.lit(0)]
    window = Window.partitionBy("split", "content_a", "content_b").orderBy(*order)
    numbered = frame.where("bad is null").withColumn("number", sql.row_number().over(window))
    columns = [column for column in numbered.columns if column not in ("bad", "number")]
    named = numbered.select(*(f"`{column}`" for column in columns), identify("content_a", "number").alias("ids"))
    return named.select(*(f"`{column}`" for column in columns), "ids.row_id", "ids.lane")


def identified(frame: DataFrame, description: Description) -> DataFrame:
    """A frame of stored rows (a binary column per tensor, and the label) with the `row_id`s that `preprocess` gives."""
    from pyspark.sql import functions as sql

    tensors, label = description.tensors, description.label
    names = [tensor.name for tensor in tensors] + ([] if label is None else [LABEL])
    stored = frame.select(*(sql.col(f"`{name}`") for name in names))
    words = ("content_a", "content_b")

    def hashed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows = Rows(
                [tensor_of(table.column(tensor.name), tensor) for tensor in tensors],
                None if label is None else _raw_label(table.column(LABEL), label),
            )
            content = content_of(rows)
            columns = [*batch.columns, *(pa.array(row_ids.signed(content[:, word])) for word in (0, 1))]
            yield pa.RecordBatch.from_arrays(columns, names=[*names, *words])

    schema = ", ".join([*(f"`{field.name}` {field.dataType.simpleString()}" for field in stored.schema.fields)])
    with_content = stored.mapInArrow(hashed, schema + "".join(f", {word} bigint" for word in words))
    numbered = with_row_ids(
        with_content.withColumn("split", sql.lit(0)).withColumn("bad", sql.lit(None).cast("string")), (), lanes=1
    )
    return numbered.select("row_id", *(sql.col(f"`{name}`") for name in names))


def _raw_label(column: pa.ChunkedArray, label: LabelSpec) -> Any:
    """The labels as the source had them, from class indices or numbers; tokens stay indices."""
    values = label_of(column, label)
    if label.kind in ("number", *TOKENS) or label.classes is None:
        return values
    if label.kind == "integer":
        return np.array([int(name) for name in label.classes], np.int64)[values]
    return [label.classes[index] for index in values.tolist()]


@contextmanager
def raw_rows(
    spark: SparkSession, config: InputConfig, description: Description, parts: Sequence[str] = SPLITS
) -> Iterator[tuple[DataFrame, list[BadRow]]]:
    """(raw rows as a model wants them, the bad rows left out), for the data that `description` belongs to.

    The frame has `row_id` (bigint; equal to the prepared data set's where label and split are the same), a binary
    column for each tensor, `label` (the class's index as bigint, or float; null for a class that the model does not
    know; binary where it is a token at each position; no column where the configuration has `label: null`) and the
    columns to keep. It is cached inside the block.

    parts: of an IDX folder, train and test (t10k); of CSV, the files of `path` and of `test`

    Raises ConfigError and InputError as `open_source`, and InputError for more bad rows than `max_bad_rows`.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    source = open_source(config, description)
    row_bytes = sum(tensor.row_bytes for tensor in source.tensors)
    with batch_size(spark, batch_rows(row_bytes)):
        parsed = parse(spark, source, Cut(), parts).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            bad = bad_rows(spark, parsed, config.max_bad_rows) if parsed.where("bad is not null").take(1) else []
            rows = with_row_ids(parsed, source.keep, lanes=1)
            columns = [sql.col("row_id"), *(sql.col(f"`{tensor.name}`") for tensor in source.tensors)]
            if source.label_kind is not None:
                label = sql.col(LABEL)
                known = None if source.label_kind in TOKENS or description.label is None else description.label.classes
                if known is not None:
                    names = sql.array(*(sql.lit(name) for name in known))
                    place = sql.call_function("array_position", names, label.cast("string"))
                    label = sql.when(place > 0, place - 1).cast("bigint").alias(LABEL)
                columns.append(label)
            yield rows.select(*columns, *(sql.col(f"`{name}`") for name in source.keep)), bad
        finally:
            parsed.unpersist()


def bad_rows(spark: SparkSession, frame: DataFrame, limit: int) -> list[BadRow]:
    """The bad rows of a parsed frame, at most `limit`, by file and row, with their line numbers.

    Raises InputError, naming the first, where there are more or where a file is damaged.
    """
    found = frame.where("bad is not null").select("bad.*").orderBy("path", "offset", "row")
    fatal = found.where("fatal").limit(1).collect()
    rows = [BadRow(**row.asDict()) for row in (fatal or found.limit(limit + 1).collect())]
    if not rows:
        return []
    rows = _numbered(spark, rows)
    if fatal:
        raise InputError(str(rows[0]))
    if len(rows) > limit:
        more = f" (and more than input.max_bad_rows: {limit} rows are bad)" if limit else ""
        raise InputError(f"{rows[0]}{more}")
    return rows


def _numbered(spark: SparkSession, rows: list[BadRow]) -> list[BadRow]:
    """The rows with line numbers of the whole file; the lines before a range are counted in executors."""
    ranges = sorted({(row.path, row.offset) for row in rows if row.offset > 0})
    if not ranges:
        return rows
    counted = spark.sparkContext.parallelize(ranges, len(ranges)).map(lambda place: (place, lines_before(*place)))
    before: dict[tuple[str, int], int] = dict(counted.collect())
    return [
        BadRow(row.path, row.row + before.get((row.path, row.offset), 0), row.reason, row.text, 0, row.fatal)
        for row in rows
    ]


@contextmanager
def batch_size(spark: SparkSession, rows: int) -> Iterator[None]:
    """Bound Spark's batches by bytes: by default they have 10,000 rows, however large."""
    keys = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.inMemoryColumnarStorage.batchSize")
    before = {key: spark.conf.get(key) for key in keys}
    for key in keys:
        spark.conf.set(key, str(rows))
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))


def batch_rows(row_bytes: int, batch_bytes: int = BATCH_BYTES) -> int:
    """Rows in a record batch of at most `batch_bytes` between Spark and Python, by their size."""
    return max(1, min(10_000, batch_bytes // max(row_bytes, 1)))


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _spec(tensor: np.ndarray[Any, np.dtype[Any]]) -> TensorSpec:
    return TensorSpec(name="", dtype=tensor.dtype.name, shape=list(tensor.shape[1:]))


def _bytes(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return (
        little.view(np.uint8).reshape(len(array), -1)
        if array.ndim == 1
        else little.reshape(len(array), -1).view(np.uint8)
    )
