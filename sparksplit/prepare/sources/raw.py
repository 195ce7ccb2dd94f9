"""Raw rows in the form that a trained model needs, for `predict`."""

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
    """Yield raw rows in the form that a model needs. source: opened for the data of `description`

    A frame has `row_id` (bigint), a binary column for each tensor, `label` and the kept columns. `row_id` equals the
    row_id in the data set that `preprocess` makes of this input. `label` is the class index as bigint, or a double. It
    is null for a class that the model does not know, and binary if it has several values. With `label: null`, there is
    no column `label`. The parsed rows are kept inside the block.

    parts: for an IDX folder, train and test (t10k). For CSV, the files of `path` and of `test`. Rows of the other parts
        are read too, because equal rows are numbered over all parts.

    Raise InputError for more bad rows than `limit` allows, or if all rows are bad.
    """
    row_bytes = max(sum(tensor.row_bytes for tensor in source.tensors), source.raw_bytes)
    batch_rows = rows_per_batch(row_bytes)
    with bounded_batches(spark, batch_rows), passes(spark, source, batch_rows, parts) as kept:
        good, some, _ = kept.count()
        bad = kept.bad
        tally = bad_rows.tally(bad) if some else bad_rows.Tally()
        limit.check(tally, source.good_rows(good))
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
    """Raw rows in the form that a model needs.

    frames, rows: the frames and the numbers of rows, by part.
    bad, tally: the bad rows that were left out, for `bad_rows.write`.
    digest: the `rows_digest` if the source has no files.
    """

    frames: dict[str, DataFrame]
    rows: dict[str, int]
    bad: DataFrame
    tally: bad_rows.Tally
    digest: str | None


@dataclass(frozen=True)
class _ForModel:
    """Gives the rows of a part their row_id, and replaces labels by the model's class indices; see `Stage`.

    encoder: makes the stored tensors, from the columns `tensors` and `texts`.
    rest: the columns that stay.
    classes: the model's classes, as text. None: labels stay as they are.
    unknown: whether the model has a class for all other labels.
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
        fields += [(name, parsed.field(stored).type) for name, stored in zip([*label, *source.keep], rest, strict=True)]
        if classes is not None:
            fields[len(encoder.tensors)] = (LABEL, pa.int64())
        unknown = trained is not None and trained.unknown
        schema = pa.schema([(ROW_ID, pa.int64()), *fields])
        tensors, texts = tensor_names(len(source.tensors)), text_names(source)
        return cls(SPLITS.index(part), encoder, tensors, texts, rest, schema, identify, classes, unknown)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.identify(batches):
            mine = pa.array(batch.part == self.part)
            tensors, texts = ([batch.rows.column(name) for name in names] for names in (self.tensors, self.texts))
            columns = [pa.array(row_ids.signed(batch.ids)), *self.encoder(tensors, texts)]
            for name in self.rest:
                column = batch.rows.column(name)
                if name == LABEL and self.classes is not None:
                    column = indices(column.cast(pa.string()), self.classes, self.unknown)
                columns.append(column)
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema).filter(mine)
