"""A source's rows in two passes: their keys first, to number, count and cut them by, then the rows themselves.

What is cheap to read twice is read twice, so that only keys are kept (16 bytes of hash a row, and its label); the rest
is parsed once and kept, in memory and past that on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hdfs_io.lane_files import LABEL
from hdfs_io.manifest import SPLITS
from hdfs_io.numbering import numbered_whole, numbering
from hdfs_io.preprocessing import TOKENS
from hdfs_io.sources.base import Source
from hdfs_io.sources.identify import Identify
from hdfs_io.sources.parse import BAD, CONTENT, CUT, NUMBER, PART, Stage, keep_names, parse, spark_schema, told_apart
from hdfs_io.spark_batches import shuffled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEY_BYTES, _ROW_BYTES = 48, 64
"""Of a row in a shuffle: of its key, and beside its tensors."""


class Passes:
    """Made by `passes`. Call `count`, then `identify`, then `through`.

    keys: part, content hash, label (unless it is tokens), kept columns, `cut` and `bad` of all rows; kept.
    """

    def __init__(self, spark: SparkSession, source: Source, wanted: Sequence[str]) -> None:
        from pyspark import StorageLevel

        self._level = StorageLevel.MEMORY_AND_DISK
        self._spark, self._source, self._wanted = spark, source, wanted
        self._label = [] if source.label_kind is None or source.label_kind in TOKENS else [LABEL]
        self._parsed: DataFrame | None = None
        if not source.rereads:
            self._parsed = parse(spark, source, wanted).persist(self._level)
        self._set_keys(parse(spark, source, ()) if self._parsed is None else self._parsed)
        self._rows = 0

    def _set_keys(self, parsed: DataFrame) -> None:
        number = [NUMBER] if NUMBER in parsed.columns else []
        kept = keep_names(len(self._source.keep))
        keys = parsed.select(PART, *CONTENT, *number, *self._label, *kept, CUT, BAD)
        self.keys = keys if self._parsed is not None else keys.persist(self._level)

    def count(self) -> tuple[int, int]:
        """(good rows, bad rows)"""
        from pyspark.sql import functions as sql

        every, bad = self.keys.agg(sql.count("*"), sql.count(BAD)).collect()[0]
        self._rows = every
        return every - bad, bad

    def identify(self) -> Identify:
        """What gives the rows of `keys`, and those of `through`, their numbers and ids."""
        kept = told_apart(self._source)
        with shuffled(self._spark, self._rows * _KEY_BYTES):
            found = numbering(self.keys, kept)
        if found is None:
            self._number_whole(kept)
        return Identify(found, kept)

    def _number_whole(self, kept: Sequence[str]) -> None:
        row_bytes = sum(tensor.row_bytes for tensor in self._source.tensors) + _ROW_BYTES
        before = [self.keys] if self._parsed is None else [self._parsed]
        parsed = parse(self._spark, self._source, self._wanted) if self._parsed is None else self._parsed
        with shuffled(self._spark, self._rows * row_bytes):
            self._parsed = numbered_whole(parsed, kept).persist(self._level)
            self._parsed.count()
        for frame in before:
            frame.unpersist()
        self._set_keys(self._parsed)

    def through(self, stage: Stage) -> DataFrame:
        """What `stage` makes of the rows, in the task that parses them where they are read twice."""
        if self._parsed is None:
            return parse(self._spark, self._source, self._wanted, stage)
        return self._parsed.mapInArrow(stage, spark_schema(stage.schema))

    def close(self) -> None:
        """Forget what was kept."""
        (self.keys if self._parsed is None else self._parsed).unpersist()


@contextmanager
def passes(spark: SparkSession, source: Source, wanted: Sequence[str] = SPLITS) -> Iterator[Passes]:
    """The two passes over the rows of `source`. wanted: the parts whose tensors are needed."""
    made = Passes(spark, source, wanted)
    try:
        yield made
    finally:
        made.close()
