"""Raw rows, good and bad, as a Spark DataFrame: parsed and hashed in executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hdfs_io import row_ids
from hdfs_io.lane_files import LABEL, binary_column
from hdfs_io.manifest import SPLITS
from hdfs_io.preprocessing import TOKENS, TensorSpec
from hdfs_io.sources.base import BAD as BAD_STRUCT
from hdfs_io.sources.base import BadRow, BadRows, ParsedRows, Source
from hdfs_io.sources.line_numbers import with_line_numbers
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LABELS = {
    "integer": pa.int64(),
    "number": pa.float32(),
    "text": pa.string(),
    **dict.fromkeys(TOKENS, pa.binary()),
}


PART, CONTENT, BAD, SPLIT, LANE = "part", ("content_a", "content_b"), "bad", "split", "lane"
CUT, NUMBER = "cut", "number"
"""Columns of these frames, beside row_id and label. All columns have names of our own, with tensors and kept columns
numbered, because a user's column may have the same name, or differ from it only in case, which Spark ignores."""


def tensor_names(count: int) -> list[str]:
    """What the tensors are called in a frame."""
    return [f"tensor_{place}" for place in range(count)]


def keep_names(count: int) -> list[str]:
    """What the kept columns are called in a frame."""
    return [f"keep_{place}" for place in range(count)]


def parsed_schema(source: Source) -> pa.Schema:
    """The part, content hash (two words), tensors, label, kept columns; or `bad` and nulls in the last three."""
    fields = [(PART, pa.int32()), *((word, pa.int64()) for word in CONTENT)]
    fields += [(name, pa.binary()) for name in tensor_names(len(source.tensors))]
    if source.label_kind is not None:
        fields.append((LABEL, _LABELS[source.label_kind]))
    return pa.schema([*fields, *((name, pa.string()) for name in keep_names(len(source.keep))), (BAD, BAD_STRUCT)])


def parse(spark: SparkSession, source: Source, wanted: Sequence[str] = SPLITS) -> DataFrame:
    """The source's rows, good and bad, with the columns of `parsed_schema`; a Spark task for each of its tasks.

    wanted: the parts whose tensors are needed; rows of the others are there only to be counted
    """
    frame, read = source.raw(spark)
    schema = parsed_schema(source)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for name, item in read(batches):
            yield to_batch(item, name, schema, name in wanted)

    return frame.mapInArrow(run, _spark_schema(schema))


def to_batch(item: ParsedRows | BadRow | BadRows, name: str, schema: pa.Schema, wanted: bool = True) -> pa.RecordBatch:
    """What a source read of the part `name`, as a record batch of `schema`; without tensors unless `wanted`."""
    part = SPLITS.index(name)
    if isinstance(item, BadRow | BadRows):
        bad = item if isinstance(item, BadRows) else BadRows.of([item])
        # Numbers, since good rows have some: a null would turn the whole column into floats on its way to pandas.
        known = {PART: part, **dict.fromkeys(CONTENT, 0)}
        arrays = [
            bad.rows
            if field.name == BAD
            else pa.repeat(pa.scalar(known[field.name], field.type), len(bad))
            if field.name in known
            else pa.nulls(len(bad), field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
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
    columns.append(pa.nulls(count, BAD_STRUCT))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def content_of(rows: ParsedRows) -> row_ids.U64:
    """The content hash of each row: uint64 [rows, 2]."""
    fixed = [_bytes(tensor) for tensor in rows.tensors]
    text = None
    if isinstance(rows.label, list):
        text = [label.encode() for label in rows.label]
    elif rows.label is not None:
        fixed.append(_bytes(rows.label))
    return row_ids.content_hash(fixed[0] if len(fixed) == 1 else np.concatenate(fixed, axis=1), text)


def bad_rows(spark: SparkSession, frame: DataFrame, limit: int) -> list[BadRow]:
    """The bad rows of a parsed frame, at most `limit`, by file and row, with their line numbers.

    Raises InputError, naming the first, where there are more or where a file is damaged.
    """
    found = frame.where("bad is not null").select("bad.*").orderBy("path", "offset", "row", "reason", "text")
    fatal = found.where("fatal").limit(1).collect()
    rows = [BadRow(**row.asDict()) for row in (fatal or found.limit(limit + 1).collect())]
    if not rows:
        return []
    rows = sorted(with_line_numbers(spark, rows), key=lambda row: (row.path, row.row))
    if fatal:
        raise InputError(str(rows[0]))
    if len(rows) > limit:
        more = f" (and more than input.max_bad_rows: {limit} rows are bad)" if limit else ""
        raise InputError(f"{rows[0]}{more}")
    return rows


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
