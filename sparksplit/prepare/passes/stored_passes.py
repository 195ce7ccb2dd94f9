"""Parses a source's rows once, and keeps them packed for several passes. Rows are numbered, counted and cut before they
can be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from sparksplit.dataset.description import TOKENS
from sparksplit.dataset.lane_files import LABEL
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.passes.codec import Codec
from sparksplit.prepare.passes.identify import Identify, rows_digest
from sparksplit.prepare.passes.kept import Kept, Pack, codec_of
from sparksplit.prepare.passes.numbering import numbered_whole, numbering
from sparksplit.prepare.passes.parse import (
    CONTENT,
    CUT,
    NUMBER,
    PART,
    keep_names,
    parse,
    parsed_schema,
    spark_schema,
    tensor_names,
    text_names,
    told_apart,
    weight_names,
)
from sparksplit.prepare.source import Source
from sparksplit.spark.batches import bounded_batches, rows_per_batch, shuffled
from sparksplit.spark.job_names import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROW_BYTES = 64
"""Bytes of a row in a shuffle, besides its tensors."""


class Passes:
    """The kept rows of a source, made by `passes`. Call `count`, then `identify`, then `rows.through`.

    rows: the good rows, as parsed.
    """

    def __init__(self, spark: SparkSession, source: Source, wanted: Sequence[str], batch_rows: int) -> None:
        self._spark, self._source, self._batch_rows = spark, source, batch_rows
        # Rows of unwanted parts have no tensors, so tensors then have no fixed size.
        self._fixed = set(source.parts()) <= set(wanted)
        pack = Pack(_codec(source, fixed=self._fixed), batch_rows)
        self.rows = self._first = Kept(parse(spark, source, wanted, pack), pack).persist()
        self._count = 0

    @described("parse")
    def count(self) -> tuple[int, int, float]:
        """Return (good rows, bad rows, mean bytes of a good row's texts: kept columns, and a label that is text)."""
        counts = self.rows.count()
        self._count = counts[0]
        return counts

    @property
    def bad(self) -> DataFrame:
        """The bad rows, with the fields of `source.BAD` as columns."""
        return self._first.bad

    @described("number")
    def identify(self) -> Identify:
        """Return the stage that gives `rows` their numbers and ids."""
        kept = told_apart(self._source)
        numbers = numbering(self.rows, kept, self._count, self._batch_rows)
        if numbers is None:
            self._number_whole(kept)
        return Identify(numbers, kept)

    def _number_whole(self, kept: Sequence[str]) -> None:
        row_bytes = sum(tensor.row_bytes for tensor in self._source.tensors) + _ROW_BYTES
        pack = Pack(_codec(self._source, numbered=True, fixed=self._fixed), self._batch_rows)
        with shuffled(self._spark, self._count * row_bytes):
            numbered = numbered_whole(self.rows.good, kept).select(pack.codec.schema.names)
            self.rows = Kept(numbered.mapInArrow(pack, spark_schema(pack.schema)), pack).persist()
            self.rows.count()

    def close(self) -> None:
        """Release the kept rows."""
        self.rows.unpersist()
        self._first.unpersist()


def _codec(source: Source, *, tensors: bool = True, numbered: bool = False, fixed: bool = True) -> Codec:
    """Return the codec of parsed rows.

    tensors: whether to pack tensors, texts and labels of several values. Weights are always packed.
    numbered: whether to pack the rows' numbers.
    fixed: whether all rows have tensors.
    """
    places = source.label_places
    of_tensors = tensor_names(len(source.tensors))
    names = [PART, *CONTENT, *([NUMBER] if numbered else [])]
    names += [*of_tensors, *text_names(source)] if tensors else weight_names(source)
    names += [LABEL] if source.label_kind is not None and (tensors or places is None) else []
    names += [*keep_names(len(source.keep)), *([CUT] if source.cut_by != "row" else [])]
    schema = parsed_schema(source).append(pa.field(NUMBER, pa.int64()))
    if not fixed:
        return codec_of(schema, names, {})
    sizes = {name: tensor.row_bytes for name, tensor in zip(of_tensors, source.tensors, strict=True)}
    # A label's token is as large as a token of the input. A number has 8 bytes.
    each = source.tensors[0].numpy_dtype.itemsize if source.label_kind in TOKENS else 8
    return codec_of(schema, names, {**sizes, **({} if places is None else {LABEL: each * places})})


@contextmanager
def passes(spark: SparkSession, source: Source, batch_rows: int, wanted: Sequence[str] = SPLITS) -> Iterator[Passes]:
    """Keep the rows of `source` inside the block. batch_rows: rows in one of Spark's record batches. wanted: the parts
    whose tensors are needed"""
    made = Passes(spark, source, wanted, batch_rows)
    try:
        yield made
    finally:
        made.close()


def digest_now(spark: SparkSession, source: Source) -> str:
    """Return the `rows_digest` of a source as it is now. Reads all rows."""
    batch_rows = rows_per_batch(max(sum(tensor.row_bytes for tensor in source.tensors), source.raw_bytes))
    pack = Pack(_codec(source, tensors=False), batch_rows)
    with bounded_batches(spark, batch_rows):
        keys = Kept(parse(spark, source, (), pack), pack).persist()
        try:
            return rows_digest(keys.good, keys.bad, source)
        finally:
            keys.unpersist()
