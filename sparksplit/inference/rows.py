"""The rows to predict, prepared or raw: the driver's checks, and how executors get the rows."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.marks import made_from
from sparksplit.base.errors import InputError
from sparksplit.base.progress import say
from sparksplit.dataset.description import WEIGHT, LabelSpec, TensorSpec, Windows
from sparksplit.dataset.feature_spec import Feature
from sparksplit.dataset.labels import are_alike
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.inference import tasks
from sparksplit.inference.predict_config import PredictConfig
from sparksplit.inference.tasks import Facts, Job
from sparksplit.inference.trained import TrainedModel
from sparksplit.prepare import bad_rows, sources, windows_config
from sparksplit.prepare.bad_rows import Limit
from sparksplit.prepare.config_checks import check_missing
from sparksplit.prepare.durations import written
from sparksplit.prepare.formats import format_of
from sparksplit.prepare.passes.stored_passes import digest_now
from sparksplit.prepare.preprocess_config import RULES, InputConfig
from sparksplit.prepare.sources import Source
from sparksplit.prepare.tables.input_failures import input_failures
from sparksplit.spark.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASK_ROWS = 4096
"""Smallest number of rows in a task, if there are enough rows. Starting a task and opening its file take time."""
_TASK_BYTES = 128 * 1024 * 1024
"""Largest number of bytes in a task, roughly."""
_TASKS_PER_SLOT = 2


class InputRows(abc.ABC):
    """The rows to predict. The constructor checks everything that can be checked without Spark.

    splits: the splits to predict. label: the rows' label; None without labels. kept: columns that the input keeps.
    place: name of the rows in errors. weight: tensor of raw rows' weights; None without weights.

    identity: how the rows are read. content: what the rows are. A change of either means other predictions.

    bad: number of rows that were left out, by reason. rows_hash: a hash of the rows, if there are no files to check.
    `bad` and `rows_hash` are known after `run`.
    """

    splits: list[str]
    label: LabelSpec | None
    kept: Sequence[str]
    identity: Any
    content: Any
    place: str
    weight: TensorSpec | None = None

    def __init__(self) -> None:
        self.bad: dict[str, int] = {}
        self.rows_hash: str | None = None
        self.expected: dict[str, tuple[int, int | None]] = {}
        """By split: the number of rows, and the sum modulo 2^64 of mix64(row_id), or None if unknown.

        Known after `run`.
        """

    @abc.abstractmethod
    def run(self, spark: SparkSession, job: Job, folder: str) -> list[Facts]:
        """Predict all rows in executors. Return the facts of every task, in the order of the rows.

        folder: the parent folder of bad_rows/, if there are bad rows.
        """


class PreparedRows(InputRows):
    """Splits of a prepared data set. Executors read its blocks themselves."""

    def __init__(self, config: PredictConfig, trained: TrainedModel) -> None:
        super().__init__()
        assert isinstance(config.input, str)
        self._data = PreparedDataSet.open(config.input)
        manifest = self._data.manifest
        self.place, self.kept, self.label = self._data.path, manifest.keep, manifest.label
        _check_tensors(self.place, manifest.tensors, trained)
        _check_features(self.place, manifest.features, trained)
        _check_windows(self.place, manifest.windows, trained)
        _check_label(self.place, manifest.label, trained)
        self.splits = config.splits or ["test"]
        for name in self.splits:
            if not manifest.splits[name].rows:
                counts = ", ".join(f"{split.rows} {other}" for other, split in manifest.splits.items())
                raise config.error("split", f"{self.place}: has no rows of the {name} split; it has {counts} rows")
        self.identity = "prepared"
        # Neither the data set's digest nor its checksums cover kept columns.
        keeps = any(name in self.kept for name in (self.kept if config.keep is None else config.keep))
        self.content = [self._data.digest, made_from(self._data.path) if keeps else None]
        self.expected = {name: (manifest.splits[name].rows, manifest.splits[name].checksum) for name in self.splits}

    def run(self, spark: SparkSession, job: Job, folder: str) -> list[Facts]:
        """Run one Spark job over all splits."""
        manifest, path, splits = self._data.manifest, self._data.path, self.splits
        rows = sum(manifest.splits[name].rows for name in splits)
        size = rows * sum(tensor.row_bytes for tensor in manifest.tensors)
        count = tasks_for(rows, size, spark.sparkContext.defaultParallelism)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[Facts]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield tasks.predict_prepared(job, path, splits, number, count)

        return facts_of(spark.range(0, count, 1, count), run, Facts)


class RawRows(InputRows):
    """Raw rows. Executors parse them as in `preprocess`."""

    def __init__(
        self,
        config: PredictConfig,
        raw: InputConfig,
        trained: TrainedModel,
        frame: DataFrame | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """frame: the rows, if `raw` names no rows. spark: the session, if Spark reads the rows."""
        super().__init__()
        self._description = trained.description
        raw = read_as_trained(raw, trained)
        self._limit = Limit.of(raw)
        self.place = raw.place
        source: Source
        if frame is not None:
            source = sources.open_frame(frame, raw, trained.description)
        elif format_of(raw.format).reader:
            assert spark is not None
            source = sources.open_with_spark(spark, raw, trained.description)
        else:
            source = sources.open_source(raw, trained.description)
            self.place = filesystem.absolute(raw.one_path())
        self._source = source
        self.identity, self.content = {**raw.located(), "rules": RULES}, sources.raw_digest(raw) or source.raw_digest
        if source.table is None:
            _check_tensors(self.place, source.tensors, trained)
        self.kept = source.keep
        self.weight = next((tensor for tensor in source.tensors if tensor.name == WEIGHT), None)
        self.label = trained.description.label if source.label_kind is not None else None
        there = source.parts()
        self.splits = config.splits or there
        for name in self.splits:
            if name not in there:
                raise config.error("split", f"{self.place}: has no {name} split; it has {' and '.join(there)}")

    def run(self, spark: SparkSession, job: Job, folder: str) -> list[Facts]:
        """Run one Spark job for each split."""
        from sparksplit.prepare.sources.raw import raw_rows

        facts: list[Facts] = []
        for line in self._source.notes:
            say(f"{self.place}: {line}")
        files = [file.path for file in self._source.files]
        with (
            input_failures(spark, self.place, files),
            raw_rows(spark, self._source, self._description, self._limit, self.splits) as raw,
        ):
            self.bad = dict(raw.tally.counts)
            self.rows_hash = raw.digest
            for split, frame in raw.frames.items():
                self.expected[split] = (raw.rows[split], None)
                facts += facts_of(frame, _raw_task(job, split), Facts)
            bad_rows.write(raw.bad, raw.tally, folder)
        if left := windows_config.said(self._source.left_out):
            say(f"windows left out: {left}")
        return facts

    def hash_now(self, spark: SparkSession) -> str:
        """Return the current value of `rows_hash`. This reads all rows."""
        return digest_now(spark, self._source)


def read_as_trained(raw: InputConfig, trained: TrainedModel) -> InputConfig:
    """Return `raw` with the shape and the dtype of the model's training rows. Raise UsageError if `raw` does not fit
    the model."""
    tensors = trained.description.model_tensors
    if raw.windows is not None:
        raise raw.error("windows", "must be left out: windows are made as in the training data")
    if trained.description.features:
        _check_columns(raw, trained)
    elif len(tensors) != 1:
        names = ", ".join(tensor.name for tensor in tensors)
        raise InputError(f"{trained.path}: the model takes {len(tensors)} tensors ({names}); raw rows have one")
    elif format_of(raw.format).shapeless:
        # Leave the default dtype to the format. Otherwise values would be rounded that are bad rows in `preprocess`
        # with this configuration.
        dtype = raw.dtype or (tensors[0].dtype if tensors[0].dtype != "float32" else None)
        raw = raw.model_copy(update={"dtype": dtype, "shape": raw.shape or tensors[0].shape})
    elif raw.uses("size") and len(shape := tensors[0].shape) == 3:
        sizes: dict[str, Any] = {"size": shape[:2], "channels": shape[2]}
        raw = raw.model_copy(update={key: sizes[key] for key in sizes if key not in raw.model_fields_set})
    check_missing(raw, trained.description, f"the model {trained.path}")
    return raw


def _raw_task(job: Job, split: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Facts]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[Facts]:
        yield tasks.predict_raw(job, batches, split)

    return run


def tasks_for(rows: int, size: int, slots: int) -> int:
    """Return the number of tasks (and files) for `rows` rows of `size` bytes in total, on `slots` task slots; at least
    1.
    """
    wanted = max(_TASKS_PER_SLOT * slots, -(-size // _TASK_BYTES))
    return max(1, min(wanted, rows // _TASK_ROWS))


def _check_tensors(place: str, found: Sequence[TensorSpec], trained: TrainedModel) -> None:
    wanted = trained.description.model_tensors
    found = [tensor for tensor in found if tensor.name != WEIGHT]
    if _say(found) != _say(wanted):
        raise InputError(f"{place}: rows are {_say(found)}; the model {trained.path} takes {_say(wanted)}")
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours.columns or [], theirs.columns or [], strict=False):
            if one != other:
                raise InputError(
                    f"{place}: has column {one!r} where the model {trained.path} was trained on {other!r}; prepare it "
                    "with the model's columns, in their order"
                )


def _check_columns(raw: InputConfig, trained: TrainedModel) -> None:
    """Raise ConfigError if the configuration of the rows does not fit a model of a table's columns."""
    if not format_of(raw.format).columns:
        columns = ", ".join(feature.column for feature in trained.description.features)
        raise raw.error("format", f"{raw.format} rows have no columns; the model {trained.path} takes {columns}")
    for key in ("dtype", "shape", "missing"):
        if key in raw.model_fields_set and getattr(raw, key) not in (None, "mean"):
            raise raw.error(
                key, f"must be left out, because the model {trained.path} was trained on the columns of a table"
            )


def _check_features(place: str, found: Sequence[Feature], trained: TrainedModel) -> None:
    for ours, theirs in zip(found, trained.description.features, strict=False):
        if ours != theirs:
            raise InputError(
                f"{place}: column {ours.column!r} was prepared differently than for the model {trained.path}; "
                f"prepare it with fitted: {trained.path}"
            )


def _check_windows(place: str, found: Windows | None, trained: TrainedModel) -> None:
    wanted = trained.description.windows
    if found is None or wanted is None:
        return
    for key in ("label", "horizon", "step"):
        ours, theirs = getattr(found, key), getattr(wanted, key)
        if ours != theirs:
            if key == "step":
                ours, theirs = (written(each.step, time=each.time) for each in (found, wanted))
            raise InputError(
                f"{place}: its windows have the {key} {ours!r}, but those of the model {trained.path} have {theirs!r}; "
                f"prepare it with fitted: {trained.path}"
            )


def _say(tensors: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{tensor.name}: {tensor.dtype} {tensor.shape}" for tensor in tensors)


def _check_label(place: str, found: LabelSpec | None, trained: TrainedModel) -> None:
    wanted = trained.description.label
    if found is None or wanted is None:
        return
    if (found.classes is None) != (wanted.classes is None):
        kinds = ["numbers" if label.classes is None else "classes" for label in (found, wanted)]
        raise InputError(f"{place}: its labels are {kinds[0]}; the model {trained.path} predicts {kinds[1]}")
    if not are_alike(found.classes, wanted.classes):
        raise InputError(
            f"{place}: its label classes differ from those of the model {trained.path}: {_differ(found, wanted)}"
        )
    if found.values != wanted.values:
        raise InputError(
            f"{place}: a row has {found.values} labels; the model {trained.path} predicts {wanted.values} per row"
        )


def _differ(found: LabelSpec, wanted: LabelSpec) -> str:
    ours, theirs = found.classes or [], wanted.classes or []
    for index, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"class {index} is {one!r}, but {other!r} in the model"
    return f"it has {len(ours)}, but the model has {len(theirs)}"
