"""Keeps parsed rows for several passes, packed in chunks: in memory, and on disk if memory is full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.prepare.passes.codec import Codec, chunk_bytes
from sparksplit.prepare.passes.parse import BAD, Stage, good_of, is_text_name, spark_schema
from sparksplit.prepare.source import BAD as BAD_STRUCT
from sparksplit.spark.batches import BATCH_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, GOOD = "rows", "good"


@dataclass(frozen=True)
class Pack:
    """Packs the good rows of a partition, and passes the bad rows on; see `Stage`.

    Columns of its record batches: the chunks (`rows`, and one for each text column), the good rows of a chunk, and
    `bad`. `bad` is null except for a bad row, which has an empty chunk.
    """

    codec: Codec
    batch_rows: int

    @property
    def schema(self) -> pa.Schema:
        """See the class."""
        chunks = [(name, pa.binary()) for name in self.chunks]
        return pa.schema([*chunks, (GOOD, pa.int64()), (BAD, BAD_STRUCT)])

    @property
    def chunks(self) -> list[str]:
        """The names of the columns of chunks."""
        return [ROWS, *(f"text_{place}" for place in range(len(self.codec.texts)))]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bad = batch.column(BAD).drop_null() if BAD in batch.schema.names else ()
            if len(bad):
                empty = [pa.repeat(pa.scalar(b"", pa.binary()), len(bad))] * len(self.chunks)
                none = pa.repeat(pa.scalar(0, pa.int64()), len(bad))
                yield pa.RecordBatch.from_arrays([*empty, none, bad], schema=self.schema)
            good = good_of(batch)
            if good.num_rows:
                columns = [good.column(name) for name in self.codec.schema.names]
                _, packed = self.codec.pack(columns, chunk_bytes(self.batch_rows))
                rows = pc.divide(pc.binary_length(packed[0]), self.codec.record.itemsize).cast(pa.int64())
                none = pa.nulls(len(rows), BAD_STRUCT)
                yield pa.RecordBatch.from_arrays([*packed, rows, none], schema=self.schema)


class Kept:
    """The rows of a frame that a `Pack` has made."""

    def __init__(self, frame: DataFrame, pack: Pack) -> None:
        self._frame, self._pack = frame, pack

    def persist(self) -> Kept:
        """Keep the rows in memory, or on disk."""
        from pyspark import StorageLevel

        self._frame.persist(StorageLevel.MEMORY_AND_DISK)
        return self

    def unpersist(self) -> None:
        """Release the rows."""
        self._frame.unpersist()

    def count(self) -> tuple[int, int, float]:
        """Return (good rows, bad rows, mean bytes of a good row's texts, without texts that become indices)."""
        from pyspark.sql import functions as sql

        codec = self._pack.codec
        chunks = zip(self._pack.chunks[1:], codec.texts, strict=True)
        stay = (sql.octet_length(name) for name, place in chunks if not is_text_name(codec.schema.names[place]))
        texts = sum(stay, sql.lit(0)).cast("bigint")
        good, bad, size = self._frame.agg(sql.sum(GOOD), sql.count(BAD), sql.sum(texts)).collect()[0]
        return good or 0, bad, size / good if good else 0.0

    @property
    def bad(self) -> DataFrame:
        """The bad rows, with the fields of `source.BAD` as columns."""
        return self._frame.where(f"{BAD} is not null").select(f"{BAD}.*")

    @property
    def good(self) -> DataFrame:
        """The good rows, with the columns that were packed."""
        return self.map(lambda batches: batches, self._pack.codec.unpacked)

    def through(self, stage: Stage) -> DataFrame:
        """Return what `stage` makes of the good rows."""
        return self.map(stage, stage.schema)

    def map(
        self, function: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> DataFrame:
        """Return what `function` makes of the good rows of each partition. schema: of the function's record batches"""
        codec = self._pack.codec

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return iter(function(unpacked(batches, codec)))

        return self._frame.select(self._pack.chunks).mapInArrow(run, spark_schema(schema))


def unpacked(batches: Iterable[pa.RecordBatch], codec: Codec) -> Iterator[pa.RecordBatch]:
    """Yield the rows of record batches of chunks, in batches as small as the packed batches."""
    for batch in batches:
        step = max(1, batch.num_rows * BATCH_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, step):
            part = codec.unpack(batch.slice(start, step).columns)
            if len(part.records):
                yield pa.RecordBatch.from_arrays(codec.columns(part), schema=codec.unpacked)


def codec_of(schema: pa.Schema, names: Sequence[str], sizes: dict[str, int]) -> Codec:
    """Return the codec of the columns `names` of parsed rows.

    schema: of the parsed rows. sizes: bytes of each binary column whose values all have this size
    """
    kinds = ((name, schema.field(name).type) for name in names)
    fixed = {name: pa.binary(size) for name, size in sizes.items()}
    return Codec(pa.schema([(name, fixed.get(name, kind) if kind == pa.binary() else kind) for name, kind in kinds]))
