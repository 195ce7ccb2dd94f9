"""Parses and hashes raw rows in executors, into a Spark DataFrame of good and bad rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.dataset import row_ids
from sparksplit.dataset.description import TOKENS, WEIGHT, TensorSpec
from sparksplit.dataset.labels import rounded
from sparksplit.dataset.lane_files import LABEL, binary_column
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.source import BAD as BAD_STRUCT
from sparksplit.prepare.source import BadRow, BadRows, ParsedRows, Reader, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LABELS = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "text": pa.string(),
    **dict.fromkeys(TOKENS, pa.binary()),
}


PART, CONTENT, CUT, BAD = "part", ("content_a", "content_b"), "cut", "bad"
NUMBER, SPLIT = "number", "split"
"""Columns of these frames, besides row_id and label. All column names are ours, with numbers for tensors and kept
columns. A user's column may have one of our names, or differ from one only in case, which Spark ignores."""


def tensor_names(count: int) -> list[str]:
    """Return the names of the tensors in a frame."""
    return [f"tensor_{place}" for place in range(count)]


def text_names(source: Source) -> list[str]:
    """Return the names of a table's text columns in a frame."""
    return [f"text_{place}" for place in range(len(source.table.texts) if source.table is not None else 0)]


def is_text_name(name: str) -> bool:
    """Return whether `name` is one of `text_names`, whose texts become indices."""
    return name.startswith("text_")


def weight_names(source: Source) -> list[str]:
    """Return the name of the weights' tensor in a frame, as a list. The list is empty without weights."""
    tensors = zip(tensor_names(len(source.tensors)), source.tensors, strict=True)
    return [name for name, tensor in tensors if tensor.name == WEIGHT]


def keep_names(count: int) -> list[str]:
    """Return the names of the kept columns in a frame."""
    return [f"keep_{place}" for place in range(count)]


Item = ParsedRows | BadRow | BadRows
_TOGETHER = 1000
"""Largest number of bad rows in one piece."""
_LENGTH = TensorSpec(name="length", dtype="uint8", shape=[4])


def told_apart(source: Source) -> list[str]:
    """Return the columns that distinguish rows of equal content, in the order in which they number the rows.

    Weights come last. So they decide only between rows that are equal in all other columns.
    """
    has_cut = source.cut_by in ("key", "time", "column")  # rows of equal content have equal hashes of the features
    return [*keep_names(len(source.keep)), *([CUT] if has_cut else []), *weight_names(source)]


def parsed_schema(source: Source) -> pa.Schema:
    """Return the schema of parsed rows: part, content hash (two words), tensors, texts, label, kept columns, cut value,
    `bad`.

    In a bad row, all columns except the part, the hash and `bad` are null.
    """
    fields = [(PART, pa.int32()), *((word, pa.int64()) for word in CONTENT)]
    fields += [(name, pa.binary()) for name in tensor_names(len(source.tensors))]
    fields += [(name, pa.string()) for name in text_names(source)]
    if source.label_kind is not None:
        kind = _LABELS[source.label_kind]
        fields.append((LABEL, pa.binary() if kind == pa.float64() and source.label_places else kind))
    fields += [(name, pa.string()) for name in keep_names(len(source.keep))]
    return pa.schema([*fields, (CUT, pa.int64()), (BAD, BAD_STRUCT)])


class Stage(Protocol):
    """A step that executors run on record batches of parsed rows, in the Python task that parses or unpacks them.
    Picklable."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the record batches that the stage makes."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield record batches of `schema`, from the record batches of one partition."""


def parse(spark: SparkSession, source: Source, wanted: Sequence[str] = SPLITS, then: Stage | None = None) -> DataFrame:
    """Return the source's good and bad rows, with the columns of `parsed_schema`. The partitions do not change.

    wanted: the parts whose tensors, texts and labels of several values are needed. Rows of other parts are only
        counted. They keep their weights.
    then: stage that runs on the rows at once. The columns are then those of the stage.
    """
    frame, read = source.raw(spark)
    schema, read = parsed_schema(source), reader_of(source, read)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parsed = (to_batch(item, name, schema, name in wanted) for name, item in read(batches))
        return parsed if then is None else then(parsed)

    return frame.mapInArrow(run, spark_schema(schema if then is None else then.schema))


def good_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the good rows of a batch. Without a column `bad`, all rows are good."""
    if BAD not in batch.schema.names or batch.column(BAD).null_count == batch.num_rows:
        return batch
    return batch.filter(batch.column(BAD).is_null())


def together(rows: Iterable[tuple[str, Item]]) -> Iterator[tuple[str, Item]]:
    """Yield `rows`, with consecutive single bad rows of a part joined into pieces of up to 1,000 bad rows."""
    for (name, single), items in groupby(rows, lambda each: (each[0], isinstance(each[1], BadRow))):
        while some := [item for _, item in islice(items, _TOGETHER)] if single else []:
            yield name, BadRows.of(some)  # type: ignore[arg-type]
        yield from items


def reader_of(source: Source, read: Reader) -> Reader:
    """Return `read`, the reader of `source`, with two changes. Single bad rows are joined. Rows cut by features get
    their hash."""
    by_features = source.cut_by == "features"

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Item]]:
        for name, item in together(read(batches)):
            if by_features and isinstance(item, ParsedRows) and len(item):
                yield name, replace(item, cut=features_hash(item.tensors, item.texts))
            else:
                yield name, item

    return rows


def features_hash(
    tensors: Sequence[np.ndarray[Any, Any]], texts: Sequence[pa.Array] = ()
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a hash of the tensors and texts of each row: int64 [rows]. Equal features have equal hashes.

    0.0 and -0.0 are equal. Null and the empty text are equal, because both are a missing value.
    """
    fixed = [
        _bytes(tensor + tensor.dtype.type(0)) if tensor.dtype.kind == "f" else _bytes(tensor) for tensor in tensors
    ]
    texts = [pc.fill_null(text, "") for text in texts]
    return row_ids.signed(row_ids.content_hash(*_hashed(fixed, texts))[:, 0])


def _hashed(
    fixed: Sequence[np.ndarray[Any, np.dtype[np.uint8]]], texts: Sequence[pa.Array], last: Sequence[str] | None = None
) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], list[bytes] | None]:
    """Return the arguments of `content_hash`. texts: each text enters with its length in front. last: labels that are
    texts"""
    rows = len(fixed[0] if fixed else texts[0])
    whole = fixed[0] if len(fixed) == 1 else np.concatenate([np.zeros((rows, 0), np.uint8), *fixed], axis=1)
    tails = None if last is None else [text.encode() for text in last]
    if not texts:
        return whole, tails
    parts: list[pa.Array] = []
    for text in texts:
        lengths = pc.binary_length(text).fill_null(-1).to_numpy(zero_copy_only=False).astype("<i4")
        parts += [binary_column(lengths.view(np.uint8).reshape(-1, 4), _LENGTH), text.cast(pa.binary()).fill_null(b"")]
    parts += [] if tails is None else [pa.array(tails, pa.binary())]
    return whole, pc.binary_join_element_wise(*parts, b"").to_pylist()


def to_batch(item: Item, name: str, schema: pa.Schema, wanted: bool = True) -> pa.RecordBatch:
    """Return the rows or bad rows of `item` as a record batch of `schema`. name: the split that they belong to.

    wanted: whether the stored values are needed. If not, all tensors, all texts, and labels of several values per row
    are null. Labels of one value and row weights are always there.
    """
    part = SPLITS.index(name)
    if isinstance(item, BadRow | BadRows):
        bad = item if isinstance(item, BadRows) else BadRows.of([item])
        # Zeros, not nulls: a null would turn the whole column into floats on the way to pandas.
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
    columns += [] if item.weight is None else [binary_column(item.weight, _spec(item.weight))]
    columns += [text if wanted else pa.nulls(count, pa.string()) for text in item.texts]
    if isinstance(item.label, np.ndarray) and item.label.ndim > 1:
        columns.append(binary_column(item.label, _spec(item.label)) if wanted else pa.nulls(count, pa.binary()))
    elif item.label is not None:
        columns.append(pa.array(item.label, type=schema.field(LABEL).type))
    columns += [pa.array(texts, type=pa.string()) for texts in item.keep]
    columns.append(pa.nulls(count, pa.int64()) if item.cut is None else pa.array(item.cut))
    columns.append(pa.nulls(count, BAD_STRUCT))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def content_of(rows: ParsedRows) -> row_ids.U64:
    """Return the content hash of each row: uint64 [rows, 2]. It covers tensors, texts and label, but not the weight."""
    fixed = [_bytes(tensor) for tensor in rows.tensors]
    if isinstance(rows.label, list):
        return row_ids.content_hash(*_hashed(fixed, rows.texts, rows.label))
    if rows.label is not None:
        # Rounded, so that the hash does not depend on the float type in which numbers are stored.
        fixed.append(_bytes(rounded(rows.label) if rows.label.dtype.kind == "f" else rows.label))
    return row_ids.content_hash(*_hashed(fixed, rows.texts))


def spark_schema(schema: pa.Schema) -> Any:
    """Return Spark's type for `schema`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _spec(tensor: np.ndarray[Any, np.dtype[Any]]) -> TensorSpec:
    return TensorSpec(name="", dtype=tensor.dtype.name, shape=list(tensor.shape[1:]))


def _bytes(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(len(array), -1).view(np.uint8)
