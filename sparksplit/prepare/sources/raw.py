"""Raw rows as a trained model wants them, for `predict`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.dataset import row_ids
from sparksplit.dataset.description import Description, LabelSpec
from sparksplit.dataset.labels import indices, known_values
from sparksplit.dataset.lane_files import LABEL, ROW_ID
from sparksplit.dataset.manifest import SPLITS
from sparksplit.features.encoder import Encoder, encoder_of
from sparksplit.prepare import bad_rows
from sparksplit.prepare.bad_rows import NONE, Limit
from sparksplit.prepare.passes.counts import count
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.passes.identify import Identify, rows_digest
from sparksplit.prepare.passes.parse import keep_names, parsed_schema, tensor_names, text_names
from sparksplit.prepare.passes.stored_passes import passes
from sparksplit.prepare.source import Source
from sparksplit.spark.batches import bounded_batches, rows_per_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def raw_rows(
    spark: SparkSession,
    source: Source,
    description: Description,
    limit: Limit = NONE,
    parts: Sequence[str] = SPLITS,
) -> Iterator[Raw]:
    """Raw rows as a model wants them.

    source: opened for the data that `description` belongs to.

    A frame has `row_id` (bigint; that of the data set that `preprocess` makes of the same input), a binary column for
    each tensor, `label` (the class's index as bigint, or double; null for a class that the model does not know; binary
    where it is a token at each position; no column where the configuration has `label: null`) and the columns to keep.
    Its rows are read when it is used, unless the source keeps them.

    parts: of an IDX folder, train and test (t10k); of CSV, the files of `path` and of `test`. Rows of the others are
        read too, because equal rows are numbered over all of them.

    Raises InputError for more bad rows than `limit` allows, and where all rows are bad.
    """
    row_bytes = max(sum(tensor.row_bytes for tensor in source.tensors), source.raw_bytes)
    batch_rows = rows_per_batch(row_bytes)
    with bounded_batches(spark, batch_rows), passes(spark, source, batch_rows, parts) as kept:
        good, some, _ = kept.count()
        bad = kept.bad
        tally = bad_rows.tally(bad) if some else bad_rows.Tally()
        limit.check(tally, good)
        if not good and tally.rows:
            raise InputError(f"{source.place}: has no rows to predict{bad_rows.left_out(tally)}")
        identify = kept.identify()
        counted = count(kept.rows, source, identify, Cut(), labels=False)
        label = None if source.label_kind is None else description.label
        encoder = encoder_of(source.table, source.tensors, {})
        frames = {part: kept.rows.through(_ForModel.of(source, part, identify, encoder, label)) for part in parts}
        digest = None if source.files else rows_digest(kept.rows.good, bad, source)
        yield Raw(frames, {part: counted.rows[part] for part in parts}, bad, tally, digest)


class Raw(NamedTuple):
    """Raw rows as a model wants them: frames and numbers of rows by part, the bad rows that were left out (for
    `bad_rows.write`), and `rows_digest` where the source has no files."""

    frames: dict[str, DataFrame]
    rows: dict[str, int]
    bad: DataFrame
    tally: bad_rows.Tally
    digest: str | None


@dataclass(frozen=True)
class _ForModel:
    """Names the rows of a part, and puts the model's classes for their labels; see `Stage`.

    encoder: makes the stored tensors, of the columns `tensors` and `texts`. rest: those that stay. classes: the
    model's, as text; None where labels stay as they are. unknown: whether the model has a class for all others.
    """

    part: int
    encoder: Encoder
    tensors: list[str]
    texts: list[str]
    rest: list[str]
    schema: pa.Schema
    identify: Identify
    classes: pa.Array | None
    unknown: bool

    @classmethod
    def of(
        cls, source: Source, part: str, identify: Identify, encoder: Encoder, trained: LabelSpec | None
    ) -> _ForModel:
        values = known_values(trained)
        classes = None if values is None else values.cast(pa.string())
        parsed = parsed_schema(source)
        label = [] if source.label_kind is None else [LABEL]
        rest = [*label, *keep_names(len(source.keep))]
        fields = [(tensor.name, pa.binary()) for tensor in encoder.tensors]
        fields += [(name, parsed.field(own).type) for name, own in zip([*label, *source.keep], rest, strict=True)]
        if classes is not None:
            fields[len(encoder.tensors)] = (LABEL, pa.int64())
        unknown = trained is not None and trained.unknown
        schema = pa.schema([(ROW_ID, pa.int64()), *fields])
        tensors, texts = tensor_names(len(source.tensors)), text_names(source)
        return cls(SPLITS.index(part), encoder, tensors, texts, rest, schema, identify, classes, unknown)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in self.identify(batches):
            mine = pa.array(found.part == self.part)
            tensors, texts = ([found.rows.column(name) for name in names] for names in (self.tensors, self.texts))
            columns = [pa.array(row_ids.signed(found.ids)), *self.encoder(tensors, texts)]
            for name in self.rest:
                column = found.rows.column(name)
                if name == LABEL and self.classes is not None:
                    column = indices(column.cast(pa.string()), self.classes, self.unknown)
                columns.append(column)
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema).filter(mine)
