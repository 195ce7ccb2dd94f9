"""Raw rows as a Spark DataFrame: parsed and hashed in executors, then numbered, named and dealt to lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from hdfs_io import row_ids
from hdfs_io.config import InputConfig
from hdfs_io.lane_files import LABEL, ROW_ID, binary_column, label_of, tensor_of
from hdfs_io.manifest import SPLITS
from hdfs_io.preprocessing import TOKENS, Description, LabelSpec, TensorSpec
from hdfs_io.sources import open_source
from hdfs_io.sources.base import BadRow, Rows, Source, Task
from hdfs_io.sources.csv import lines_before
from sparksplit.base.errors import InputError

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


PART, CONTENT, BAD, SPLIT, LANE = "part", ("content_a", "content_b"), "bad", "split", "lane"
"""Columns of the frames in here, beside row_id and label. All their columns have the product's own names, tensors and
kept columns by their places, because a user's name may be one of them, or differ from another in case alone, which
Spark does not tell apart."""


def tensor_names(count: int) -> list[str]:
    """What the tensors are called in a frame."""
    return [f"tensor_{place}" for place in range(count)]


def keep_names(count: int) -> list[str]:
    """What the kept columns are called in a frame."""
    return [f"keep_{place}" for place in range(count)]


@dataclass(frozen=True)
class Cut:
    """How rows of the training files are dealt to splits: test below `test`, validation below test + validation."""

    seed: int = 0
    validation: float = 0.0
    test: float = 0.0

    def splits(
        self, content: row_ids.U64, number: npt.NDArray[np.int64], part: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int32]:
        """The index in SPLITS of each row.

        content: uint64 [rows, 2]. number: among equal rows of the whole source [rows]. part: index in SPLITS of what
        the source brings the row as; all but train stays as it is.
        """
        fraction = row_ids.split_fraction(content, number, self.seed)
        dealt = np.select(
            [fraction < self.test, fraction < self.test + self.validation],
            [np.int32(SPLITS.index("test")), np.int32(SPLITS.index("validation"))],
            np.int32(0),
        )
        return np.where(part == SPLITS.index("train"), dealt, part)


def parsed_schema(source: Source) -> pa.Schema:
    """The part, content hash (two words), tensors, label and kept columns; or `bad`, and nulls for the last three."""
    fields = [(PART, pa.int32()), *((word, pa.int64()) for word in CONTENT)]
    fields += [(name, pa.binary()) for name in tensor_names(len(source.tensors))]
    if source.label_kind is not None:
        fields.append((LABEL, _LABELS[source.label_kind]))
    return pa.schema([*fields, *((name, pa.string()) for name in keep_names(len(source.keep))), (BAD, _BAD)])


def parse(spark: SparkSession, source: Source, wanted: Sequence[str] = SPLITS) -> DataFrame:
    """The source's rows, good and bad, with the columns of `parsed_schema`; one Spark task for each of its tasks.

    wanted: the parts whose tensors are; rows of the others are there to be counted only
    """
    tasks = source.tasks()
    schema = parsed_schema(source)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for item in source.read(tasks[number]):
                    yield to_batch(item, tasks[number], schema, tasks[number].part in wanted)

    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(run, _spark_schema(schema))


def to_batch(item: Rows | BadRow, task: Task, schema: pa.Schema, wanted: bool = True) -> pa.RecordBatch:
    """What a source read as a record batch of `schema`; without the tensors where they are not wanted."""
    part = SPLITS.index(task.part)
    if isinstance(item, BadRow):
        bad = {field.name: getattr(item, field.name) for field in _BAD}
        # Numbers, where good rows have some: a null would turn the whole column into floats on its way to pandas.
        return pa.RecordBatch.from_pylist([{PART: part, **dict.fromkeys(CONTENT, 0), BAD: bad}], schema=schema)
    count = len(item)
    if count == 0:
        return pa.RecordBatch.from_pylist([], schema=schema)
    content = content_of(item)
    columns: list[pa.Array] = [pa.array(np.full(count, part, dtype=np.int32))]
    columns += [pa.array(row_ids.signed(content[:, word])) for word in (0, 1)]
    columns += [
        binary_column(tensor, _spec(tensor)) if wanted else pa.nulls(count, pa.binary()) for tensor in item.tensors
    ]
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


def with_row_ids(frame: DataFrame, kept: int, lanes: int, cut: Cut) -> DataFrame:
    """A parsed frame with `row_id` (bigint), `lane` (int) and `split` (int, index in SPLITS); bad rows stay in it.

    kept: how many columns are. Equal rows are numbered over the whole source: those that train on first, so that their
    numbers do not depend on the test files, then in the order of the kept columns; where those are equal too, the order
    is of no consequence.
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

    # Bad rows have no content of their own, and come last where a good one has the same.
    window = Window.partitionBy(*CONTENT).orderBy(sql.col(BAD).isNotNull(), PART, *keep_names(kept))
    numbered = frame.withColumn("number", sql.row_number().over(window))
    named = numbered.select(*frame.columns, identify(*CONTENT, "number", PART).alias("ids"))
    return named.select(*frame.columns, f"ids.{ROW_ID}", f"ids.{LANE}", f"ids.{SPLIT}")


def identified(frame: DataFrame, description: Description) -> DataFrame:
    """A frame of stored rows (a binary column per tensor, and the label) with the `row_id`s that `preprocess` gives to
    a source of these rows alone: equal ones are numbered among themselves, whatever a cut has dealt to other splits."""
    from pyspark.sql import functions as sql

    tensors, label = description.tensors, description.label
    names = [tensor.name for tensor in tensors] + ([] if label is None else [LABEL])
    own = tensor_names(len(tensors)) + ([] if label is None else [LABEL])
    stored = frame.select(*(sql.col(quoted(name)) for name in names)).toDF(*own)

    def hashed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows = Rows(
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


@contextmanager
def raw_rows(
    spark: SparkSession, config: InputConfig, description: Description, parts: Sequence[str] = SPLITS
) -> Iterator[tuple[dict[str, DataFrame], list[BadRow]]]:
    """(raw rows as a model wants them, by part; the bad rows left out), for the data that `description` belongs to.

    A frame has `row_id` (bigint; that of the data set that `preprocess` makes of the same input), a binary column for
    each tensor, `label` (the class's index as bigint, or float; null for a class that the model does not know; binary
    where it is a token at each position; no column where the configuration has `label: null`) and the columns to keep.
    It is cached inside the block.

    parts: of an IDX folder, train and test (t10k); of CSV, the files of `path` and of `test`. Rows of the others are
        read too, because equal rows are numbered over all of them.

    Raises ConfigError and InputError as `open_source`, and InputError for more bad rows than `max_bad_rows`.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as sql

    source = open_source(config, description)
    row_bytes = sum(tensor.row_bytes for tensor in source.tensors)
    with batch_size(spark, batch_rows(row_bytes)):
        numbered = with_row_ids(parse(spark, source, parts), len(source.keep), lanes=1, cut=Cut())
        numbered = numbered.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            bad = bad_rows(spark, numbered, config.max_bad_rows) if numbered.where("bad is not null").take(1) else []
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
            )
        finally:
            numbered.unpersist()


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
