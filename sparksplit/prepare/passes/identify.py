"""Gives parsed rows their `row_id`, and assigns them to splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.base.config import digest
from sparksplit.base.errors import RunError
from sparksplit.dataset import row_ids
from sparksplit.dataset.description import TOKENS, WEIGHT, Description, LabelSpec
from sparksplit.dataset.lane_files import CHANGED, LABEL, ROW_ID, label_of, tensor_of
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.passes.cut import Cut, outside
from sparksplit.prepare.passes.numbering import Numbering, numbered_whole
from sparksplit.prepare.passes.parse import (
    CONTENT,
    CUT,
    NUMBER,
    PART,
    content_of,
    good_of,
    keep_names,
    tensor_names,
    weight_names,
)
from sparksplit.prepare.source import ParsedRows, Source
from sparksplit.prepare.tables.raw_frame import quoted
from sparksplit.spark.batches import partition_id
from sparksplit.spark.job_names import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Key = tuple[int, int, int]
"""A row: both words of its content hash, and its number among equal rows."""


@dataclass(frozen=True)
class Identify:
    """Gives rows their row_id, in a Spark task.

    numbering: numbers equal rows. None: the rows bring their numbers, in the column `number`.
    kept: the columns that distinguish rows of equal content.
    moved: rows whose first id belongs to a different row, with the number of the id that they get instead.
    bits: bits of an id. Tests use fewer than 64, so that different rows get equal ids.
    labels: raw labels of the rows that are wanted. None: all rows.
    left_out: times (from, to) of training rows that are not wanted; see Cut.left_out.
    """

    numbering: Numbering | None
    kept: Sequence[str] = ()
    moved: Mapping[Key, int] = field(default_factory=dict)
    bits: int = 64
    labels: pa.Array | None = None
    left_out: Sequence[tuple[int, int]] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Identified]:
        """Yield the wanted good rows of a partition's batches. Raise RunError if they are not the rows that were
        numbered."""
        numberer = None if self.numbering is None else self.numbering.of(partition_id())
        for batch in batches:
            good = good_of(batch)
            if not good.num_rows:
                continue
            words = [row_ids.unsigned(good.column(word).to_numpy()) for word in CONTENT]
            content, part = np.stack(words, axis=1), good.column(PART).to_numpy()
            if numberer is None:
                number = good.column(NUMBER).to_numpy()
            else:
                number = numberer.numbers(content, part, [good.column(name) for name in self.kept])
            numbered = Identified(good, content, part, number, self.ids(content, number))
            numbered = numbered if self.labels is None else numbered.labelled(self.labels)
            yield numbered.without(self.left_out) if self.left_out else numbered
        if numberer is not None:
            numberer.check()

    def ids(self, content: row_ids.U64, number: npt.NDArray[np.int64]) -> row_ids.U64:
        """The row_id of each row: uint64 [rows]. content: uint64 [rows, 2]"""
        ids = row_ids.row_id(content[:, 0], number) >> np.uint64(64 - self.bits)
        if self.moved:
            first = np.array([key[0] for key in self.moved], np.uint64)
            for row in np.flatnonzero(np.isin(content[:, 0], first)).tolist():
                key = (int(content[row, 0]), int(content[row, 1]), int(number[row]))
                if attempt := self.moved.get(key):
                    ids[row] = row_ids.another_id(key[:2], key[2], attempt) >> (64 - self.bits)
        return ids


@dataclass(frozen=True)
class Identified:
    """Good rows with all their columns, hashes, numbers and ids.

    content: uint64 [rows, 2]. part: index in SPLITS [rows]. number: among equal rows, from 0 [rows]. ids: row_id
        [rows].
    """

    rows: pa.RecordBatch
    content: row_ids.U64
    part: npt.NDArray[np.int32]
    number: npt.NDArray[np.int64]
    ids: row_ids.U64

    def labelled(self, labels: pa.Array) -> Identified:
        """Return the rows with one of these raw labels."""
        return self._only(pc.is_in(self.rows.column(LABEL), value_set=labels).to_numpy(zero_copy_only=False))

    def without(self, times: Sequence[tuple[int, int]]) -> Identified:
        """Return the rows without the training rows whose time is in one of the ranges (from, to)."""
        return self._only(outside(self.rows.column(CUT).to_numpy(), times) | (self.part != SPLITS.index("train")))

    def _only(self, mask: npt.NDArray[np.bool_]) -> Identified:
        rows = self.rows.filter(pa.array(mask))
        return Identified(rows, self.content[mask], self.part[mask], self.number[mask], self.ids[mask])

    def splits(self, cut: Cut) -> npt.NDArray[np.int32]:
        """Return the index in SPLITS of each row."""
        names = self.rows.schema.names
        by, label = (self.rows.column(name) if name in names else None for name in (CUT, LABEL))
        known = None if by is None or by.null_count else by.to_numpy()
        return cut.splits(self.content, self.number, self.part, known, label)


def move_apart(rows: Iterable[Key], identify: Identify) -> dict[Key, int]:
    """Return `moved` of an Identify that gives different ids to the `rows` that now share an id.

    One row of each group keeps its id. Which one depends only on the rows themselves. A new id may belong to yet
    another row. Then a later call moves the row again.

    Raise RunError if a row occurs twice, or if no two rows have equal ids. Then these are not the rows that were
    numbered or found to have equal ids, and moving them would never end.
    """
    moved = dict(identify.moved)
    same: dict[int, list[Key]] = {}
    ordered = sorted(rows, key=lambda row: (identify.moved.get(row, 0), row))
    if len(set(ordered)) < len(ordered):
        raise RunError(CHANGED)
    for row in ordered:
        ids = identify.ids(np.array([row[:2]], np.uint64), np.array([row[2]]))
        same.setdefault(int(ids[0]), []).append(row)
    for group in same.values():
        for row in group[1:]:
            moved[row] = moved.get(row, 0) + 1
    if moved == identify.moved:
        raise RunError(CHANGED)
    return moved


@described("digest")
def rows_digest(good: DataFrame, bad: DataFrame, source: Source) -> str:
    """Return a hash of the rows that does not depend on their order.

    The hash covers the good rows (parsed) with their kept columns, cut values and weights. It covers the number of bad
    rows, their reasons and texts. It also covers how `source` reads rows, and the names of its columns.
    """
    from pyspark.sql import functions as sql

    cut = sql.col(CUT) if CUT in good.columns else sql.lit(None).cast("bigint")
    more = [sql.col(name) for name in (PART, *keep_names(len(source.keep)), *weight_names(source))] + [cut]
    # Spark's hash skips nulls. Without the places of nulls, (null, a) would equal (a, null).
    gaps = [column.isNull() for column in more]
    hashes = sql.xxhash64(*CONTENT, *gaps, *more), sql.xxhash64("reason", "text")
    values: list[str] = []
    for frame, hashed in zip((good, bad), hashes, strict=True):
        # A sum, because equal rows would cancel each other out in an exclusive or.
        row = (
            frame.select(hashed.cast("decimal(20)").alias("hash")).agg(sql.count("hash"), sql.sum("hash")).collect()[0]
        )
        values += [str(value) for value in row]
    read = [[tensor.model_dump() for tensor in source.tensors], source.label_kind, list(source.keep)]
    return digest([*values, *read])


def identified(frame: DataFrame, description: Description) -> DataFrame:
    """Return `frame` with the `row_id`s that `preprocess` gives to a source of only these rows.

    frame: stored rows, with a binary column for each tensor, and the label. Equal rows are numbered among themselves,
        in the order of their weights. Rows that a cut put into other splits do not count.
    """
    from pyspark.sql import functions as sql

    tensors, label = description.tensors, description.label
    names = [tensor.name for tensor in tensors] + ([] if label is None else [LABEL])
    our_names = tensor_names(len(tensors)) + ([] if label is None else [LABEL])
    weights = [name for name, tensor in zip(our_names, tensors, strict=False) if tensor.name == WEIGHT]
    stored = frame.select(*(sql.col(quoted(name)) for name in names)).toDF(*our_names)

    def hashed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows = ParsedRows(
                [
                    tensor_of(table.column(name), tensor)
                    for name, tensor in zip(our_names, tensors, strict=False)
                    if name not in weights
                ],
                None if label is None else _raw_label(table.column(LABEL), label),
            )
            content = content_of(rows)
            columns = [*batch.columns, *(pa.array(row_ids.signed(content[:, word])) for word in (0, 1))]
            yield pa.RecordBatch.from_arrays(columns, names=[*our_names, *CONTENT])

    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in stored.schema.fields)
    with_content = stored.mapInArrow(hashed, schema + "".join(f", {word} bigint" for word in CONTENT))
    parsed = with_content.withColumn(PART, sql.lit(0))
    numbered = numbered_whole(parsed, weights)

    def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in Identify(None)(batches):
            ids = pa.array(row_ids.signed(batch.ids))
            yield pa.RecordBatch.from_arrays(
                [ids, *(batch.rows.column(name) for name in our_names)], [ROW_ID, *our_names]
            )

    return numbered.mapInArrow(named, f"{ROW_ID} bigint, {schema}").toDF(ROW_ID, *names)


def _raw_label(column: pa.ChunkedArray, label: LabelSpec) -> Any:
    """Return the labels as the source had them, from class indices or numbers. Tokens stay indices."""
    values = label_of(column, label)
    if label.kind in ("number", *TOKENS) or label.classes is None:
        return values
    if label.kind == "integer":
        names = [int(name) for name in (label.classes[:-1] if label.unknown else label.classes)]
        # The original label of the class `<unknown>` is no longer known.
        return np.array([*names, -(2**63)] if label.unknown else names, np.int64)[values]
    return [label.classes[index] for index in values.tolist()]
