"""One Spark task: read rows, predict, write a file, and report the counts to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.base.errors import RunError, SparksplitError, UsageError
from sparksplit.dataset import row_ids
from sparksplit.dataset.description import WEIGHT, LabelSpec, TensorSpec
from sparksplit.dataset.lane_files import LABEL, ROW_ID, label_of, tensor_of, values_of
from sparksplit.dataset.manifest import Manifest
from sparksplit.dataset.part_file import PartFile, attempt_name
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet
from sparksplit.features.encoder import Encoder
from sparksplit.inference import scores
from sparksplit.inference.scores import ClassScores, NumberScores
from sparksplit.inference.trained import Array, Model, TrainedModel, load, log_probabilities, probabilities
from sparksplit.inference.writer import REPEATING, Columns, Predictions, nested
from sparksplit.model.tensorflow import import_tensorflow
from sparksplit.prepare.source import BadRow, ParsedRows
from sparksplit.prepare.tables.column_rows import ORIGIN, ColumnReader
from sparksplit.spark.batches import task_ids


@dataclass
class Facts:
    """A task's report to the driver, by split.

    error: why the task gave up. usage: whether the user's input is the cause. The error is not raised, because Spark
    would repeat the task three times, and then show everything except the reason.
    """

    file: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    checksums: dict[str, int] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    unknown: int = 0
    """Number of rows whose label is not one of the model's classes"""
    error: str | None = None
    usage: bool = False


@dataclass(frozen=True)
class Job:
    """The part of a task that is equal for all tasks.

    folder: the folder for the files. labelled: whether the rows have labels. weight: tensor of raw rows' weights; None
    without weights.
    """

    trained: TrainedModel
    folder: str
    columns: Columns
    labelled: bool
    batch_size: int
    threads: int
    weight: TensorSpec | None = None


@dataclass(frozen=True)
class SplitRows:
    """Some rows of one split.

    label: class indices (-1 for an unknown class) or numbers, [rows, ...]; None without labels.
    """

    split: str
    row_ids: npt.NDArray[np.int64]
    tensors: dict[str, Array]
    label: Array | None
    kept: dict[str, pa.Array]


def run_task(job: Job, rows: Iterable[SplitRows], part: int, attempt: int) -> Facts:
    """Predict `rows`, write the predictions, and count rows and scores."""
    facts = Facts()
    by_split: dict[str, ClassScores | NumberScores] = {}
    try:
        with PartFile(job.folder, attempt_name(part, attempt), REPEATING) as file:
            model = None
            for given in rows:
                # An empty partition loads no model.
                if model is None:
                    import_tensorflow()
                    model = load(job.trained, job.threads)
                for batch in batches(given, job.batch_size):
                    predictions = predict(job.trained, model, batch)
                    file.write(job.columns.table(batch.row_ids, batch.split, batch.kept, predictions))
                    _count(facts, by_split, batch, predictions)
    except SparksplitError as error:
        return Facts(error=str(error), usage=isinstance(error, UsageError))
    facts.file = file.name if file.rows else None
    facts.scores = {split: scores.to_json(score) for split, score in by_split.items()}
    return facts


def predict(trained: TrainedModel, model: Model, rows: SplitRows, logs: bool = False) -> Predictions:
    """Return the model's predictions. Raise RunError if an output is not finite, or the outputs have a wrong shape.

    logs: whether a classifier also gives the logarithms of the probabilities. Rows with labels always get them.
    """
    outputs = model(rows.tensors)
    if len(outputs) != len(rows.row_ids):
        raise RunError(
            f"{trained.path}: the model returns {len(outputs)} outputs for {len(rows.row_ids)} rows;"
            " the first dimension of its output must be the number of rows"
        )
    finite = np.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)
    if not finite.all():
        row = int(rows.row_ids[int(np.argmin(finite))])
        raise RunError(f"{trained.path}: gives a number that is not finite, first for row_id {row}")
    label = trained.description.label
    if label is None or label.classes is None:
        single = outputs.ndim == 2 and outputs.shape[1] == 1 and (label is None or not label.shape)
        return Predictions(outputs[:, 0] if single else outputs, None)
    try:
        of_classes = probabilities(outputs, len(label.classes), trained.logits, label.shape)
    except ValueError as error:
        raise RunError(f"{trained.path}: {error}") from None
    wanted = logs or rows.label is not None
    return Predictions(
        of_classes.argmax(axis=-1), of_classes, log_probabilities(outputs, trained.logits) if wanted else None
    )


def batches(rows: SplitRows, size: int) -> Iterator[SplitRows]:
    """Yield `rows` in parts of `size` rows; the last part may be smaller."""
    count = len(rows.row_ids)
    for start in range(0, count, size):
        chosen = slice(start, start + size)
        yield SplitRows(
            rows.split,
            rows.row_ids[chosen],
            {name: tensor[chosen] for name, tensor in rows.tensors.items()},
            None if rows.label is None else rows.label[chosen],
            {name: column.slice(start, size) for name, column in rows.kept.items()},
        )


def _count(
    facts: Facts, by_split: dict[str, ClassScores | NumberScores], rows: SplitRows, predictions: Predictions
) -> None:
    split = rows.split
    facts.rows[split] = facts.rows.get(split, 0) + len(rows.row_ids)
    checksum = row_ids.row_checksum(row_ids.unsigned(rows.row_ids))
    facts.checksums[split] = (facts.checksums.get(split, 0) + checksum) % 2**64
    if rows.label is None:
        return
    weight = rows.tensors.get(WEIGHT)
    if predictions.probabilities is None:
        number = by_split.setdefault(split, NumberScores())
        assert isinstance(number, NumberScores)
        number.update(rows.label, predictions.prediction.reshape(rows.label.shape), weight)
        return
    known = np.all(rows.label.reshape(len(rows.label), -1) >= 0, axis=1)
    facts.unknown += int(len(known) - known.sum())
    score = by_split.setdefault(split, ClassScores())
    assert isinstance(score, ClassScores)
    weight = None if weight is None else weight[known]
    assert predictions.logs is not None
    score.update(rows.label[known], predictions.prediction[known], predictions.logs[known], weight)


# Prepared rows.


def blocks(manifest: Manifest, splits: Sequence[str], chosen: range) -> Iterator[tuple[str, int, int]]:
    """Yield the `chosen` blocks out of all blocks of `splits`, as (split, lane, block), in the order of the lanes."""
    start = 0
    for split in splits:
        ends = start + np.cumsum([manifest.blocks(split, lane) for lane in range(manifest.lanes)])
        for place in range(max(start, chosen.start), min(int(ends[-1]), chosen.stop)):
            lane = int(np.searchsorted(ends, place, side="right"))
            yield split, lane, place - (int(ends[lane - 1]) if lane else start)
        start = int(ends[-1])


def count_blocks(manifest: Manifest, splits: Sequence[str]) -> int:
    """Return the number of blocks in `splits`."""
    return sum(manifest.blocks(split, lane) for split in splits for lane in range(manifest.lanes))


def share(count: int, task: int, tasks: int) -> range:
    """Return the range of the `count` items that belongs to `task`.

    Each item is in exactly one task, as evenly as possible.
    """
    return range(task * count // tasks, (task + 1) * count // tasks)


def read_prepared(path: str, splits: Sequence[str], keep: Sequence[str], task: int, tasks: int) -> Iterator[SplitRows]:
    """Yield the rows of task number `task` out of `tasks` over the prepared data set `path`, block by block."""
    data = PreparedDataSet.open(path, verify=False)
    manifest = data.manifest
    mine = list(blocks(manifest, splits, share(count_blocks(manifest, splits), task, tasks)))
    label = [] if manifest.label is None else [LABEL]
    columns = [*(tensor.name for tensor in manifest.tensors), *label, *(name for name in keep if name != LABEL)]
    for split in splits:
        here = [(lane, number) for name, lane, number in mine if name == split]
        if not here:
            continue
        with BlockReader(data, split, columns, range(here[0][0], here[-1][0] + 1)) as reader:
            for lane, number in here:
                block = reader.read(lane, number)
                kept = dict(block.keep)
                if block.label is not None and LABEL in keep:
                    kept[LABEL] = nested(block.label)
                yield SplitRows(split, row_ids.signed(block.row_ids), block.tensors, block.label, kept)


def predict_prepared(job: Job, path: str, splits: Sequence[str], task: int, tasks: int) -> Facts:
    """Run one task over a prepared data set."""
    return run_task(job, read_prepared(path, splits, job.columns.keep, task, tasks), task, task_ids()[1])


# Raw rows.


def read_raw(job: Job, batches: Iterable[pa.RecordBatch], split: str, keep: Sequence[str]) -> Iterator[SplitRows]:
    """Yield the rows of record batches from sparksplit.prepare.sources.raw.raw_rows."""
    spec, tensors = job.trained.description.label, job.trained.description.model_tensors
    if job.weight is not None:
        tensors = [*tensors, job.weight]
    for batch in batches:
        if batch.num_rows == 0:
            continue
        table = pa.Table.from_batches([batch])
        labels = _labels(table.column(LABEL), spec) if job.labelled and spec is not None else None
        kept = {name: batch.column(name) for name in keep}
        if labels is not None and LABEL in keep:
            kept[LABEL] = nested(labels) if labels.ndim > 1 else batch.column(LABEL)
        yield SplitRows(
            split,
            values_of(table.column(ROW_ID), np.dtype(np.int64)),
            {tensor.name: tensor_of(table.column(tensor.name), tensor) for tensor in tensors},
            labels,
            kept,
        )


def tensors_of(
    reader: ColumnReader, encoder: Encoder, columns: Sequence[pa.Array], rows: int
) -> dict[str, Array] | BadRow:
    """Return the stored tensors of `rows` rows, by name, or the first bad row with its number, from 1.

    columns: what `reader` takes, without the columns of the origin.
    """
    origin = [pa.array(np.arange(1, rows + 1)), pa.array(np.zeros(rows, np.int8)), pa.nulls(rows, pa.string())]
    places = [str(place) for place in range(len(columns) + ORIGIN)]
    *_, found = reader.read(pa.RecordBatch.from_arrays([*columns, *origin], places))
    if not isinstance(found, ParsedRows):
        return next(iter(found))
    parsed = {spec.name: values for spec, values in zip(encoder.parsed, found.tensors, strict=True)}
    return {**parsed, **encoder.indexed(found.texts)}


def _labels(column: pa.ChunkedArray, spec: LabelSpec) -> Array:
    if spec.shape:
        return label_of(column, spec.parsed)
    values: Array = (column.fill_null(-1) if spec.classes is not None else column).to_numpy()
    return values.astype(spec.parsed.dtype)


def predict_raw(job: Job, batches: Iterable[pa.RecordBatch], split: str) -> Facts:
    """Run one task over raw rows."""
    return run_task(job, read_raw(job, batches, split, job.columns.keep), *task_ids())
