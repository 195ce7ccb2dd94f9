"""Batch inference on the driver: check, predict in executors, check the counts, publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.differences import content
from hdfs_io.publish import Output
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError, RunError
from sparksplit.base.options import Options
from sparksplit.base.progress import spark_progress
from sparksplit.dataset.lane_files import LABEL
from sparksplit.dataset.part_file import accept
from sparksplit.inference import partition, scores
from sparksplit.inference.mlflow_models import is_uri, run_folder
from sparksplit.inference.predict_config import PredictConfig
from sparksplit.inference.rows import InputRows, PreparedRows, RawRows
from sparksplit.inference.scores import MOST_CONFUSED, ClassScores, NumberScores, Scores
from sparksplit.inference.tasks import Facts, Job
from sparksplit.inference.trained import TrainedModel
from sparksplit.inference.writer import PARTITION, WHOLE, Columns, Places
from sparksplit.prepare import bad_rows
from sparksplit.prepare.awaited import await_input
from sparksplit.prepare.config_checks import check_input
from sparksplit.prepare.formats import format_of
from sparksplit.prepare.preprocess import own_frame, own_source
from sparksplit.prepare.sources import check_paths
from sparksplit.spark.application import called
from sparksplit.spark.executors import session_with_executors
from sparksplit.training.report import finite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Result:
    """The result of `predict` in the folder `path`.

    rows: number of rows, by split. bad_rows: number of bad rows, by reason. metrics: the content of metrics.json; None
    without labels. places: names of the parts in the folder. done: whether the whole output already existed. split:
    whether the names of splits mean something for these rows. classes: names of the classes in the order of the column
    `probabilities`, if there are this column and names.
    """

    path: str
    rows: dict[str, int]
    files: int
    bad_rows: dict[str, int]
    metrics: dict[str, Any] | None
    places: Places = WHOLE
    done: bool = False
    split: bool = True
    classes: Sequence[str] = ()


def predict(config: PredictConfig, options: Options, frame: DataFrame | None = None) -> Result:
    """Predict the rows of `config`. The output appears whole or not at all.

    frame: the rows, if `config` is a DataFramePredict.

    Raise UsageError for the user's mistakes, before Spark starts if possible. Raise RunError if the run fails.
    """
    if is_uri(config.model):
        with run_folder(config.model, partition.folder_of(config)) as folder:
            return predict(config.model_copy(update={"model": folder}), options, frame)
    trained = TrainedModel.open(config.model)
    if config.raw is not None:
        check_input(config.raw)
        await_input(config.raw, partition.folder_of(config), options.overwrite)
        if format_of(config.raw.format).reader:
            check_paths(config.raw)
    function = None if config.raw is None else own_source(config.raw)
    with ExitStack() as stack:
        spark = None
        if config.raw is not None and (function is not None or not format_of(config.raw.format).source):
            # Start Spark here: a DataFrame is checked before anything is written, and Spark may fail in this check.
            settings = format_of(config.raw.format).session_settings()
            spark = stack.enter_context(_session(config, settings))
            frame = own_frame(spark, config.raw) if function is not None and frame is None else frame
        return _predict(config, options, trained, frame, function, spark)


def _predict(
    config: PredictConfig,
    options: Options,
    trained: TrainedModel,
    frame: DataFrame | None,
    function: str | None,
    spark: SparkSession | None,
) -> Result:
    rows: InputRows
    input_hash: str | Callable[[], str]
    if config.raw is None:
        rows = PreparedRows(config, trained)
        input_hash = digest(rows.content)
    else:
        rows = raw = RawRows(config, config.raw, trained, frame, spark)
        # Without files to check, hash the rows themselves.
        input_hash = digest(rows.content) if spark is None or rows.content is not None else partial(raw.hash_now, spark)
    if config.labels == "required" and rows.label is None:
        raise config.error("labels", f"{rows.place}: has no labels; name their column in input.label")
    columns = _columns(config, rows, trained)
    values = {"command": "predict", "model": trained.digest, "input": rows.identity, "splits": rows.splits}
    if function is not None:
        values["function"] = function
    paths = {"input": config.input} if isinstance(config.input, str) else config.input.paths()
    inputs = {"model": config.model, **paths, **config.own_file}
    if columns.top is not None:
        values["top"] = columns.top
    values["keep"] = list(columns.keep)
    keys = {**values, "model": content(trained.digest)}
    if function is not None:
        keys |= {"function": content(digest(function))}
    places = WHOLE if config.partition is None else PARTITION
    output = Output(partition.folder_of(config), digest(values), "predict", inputs, input_hash, keys)
    with output.claimed(options.overwrite) as decision:
        if decision == "done":
            metrics = _metrics_of(output.path, places)
            return Result(output.path, {}, 0, {}, metrics, places, done=True, classes=columns.in_order)
        # Publish or remove the folder only after Spark has stopped. Until then, tasks of an ended job may still write.
        with output.staging() as folder:
            result = _fill(folder, output, config, trained, rows, columns, places)
            if rows.rows_hash is not None:
                output.made_of(folder, rows.rows_hash)
            return result


def _session(config: PredictConfig, settings: dict[str, str] | None = None) -> AbstractContextManager[SparkSession]:
    """Return the command's Spark session, with an executor. Inside another session, return that session."""
    return session_with_executors(called("predict", config.output), config.executors, settings, config.patience)


def _fill(
    folder: str,
    output: Output,
    config: PredictConfig,
    trained: TrainedModel,
    rows: InputRows,
    columns: Columns,
    places: Places,
) -> Result:
    """Predict into `folder`, which becomes the output."""
    job_folder = places.folder(folder)
    filesystem.make_folder(job_folder)
    with (
        _session(config) as spark,
        spark_progress(spark, "predict"),
    ):
        output.lease.tell(spark.sparkContext.applicationId)
        # A Python worker runs one task at a time, so it may use all cores of the task.
        threads = int(spark.conf.get("spark.task.cpus", "1") or "1")
        labelled = rows.label is not None
        job = Job(trained, job_folder, columns, labelled, config.batch_size, threads, rows.weight)
        facts = rows.run(spark, job, folder)
    counted = _checked(facts, rows)
    files = [fact.file for fact in facts if fact.file is not None]
    accept(job_folder, files)
    metrics = _metrics(facts, trained, rows)
    if metrics is not None:
        filesystem.write_json(filesystem.join(folder, places.metrics), metrics)
    if rows.bad and places.bad_rows != bad_rows.FOLDER:
        filesystem.rename(filesystem.join(folder, bad_rows.FOLDER), filesystem.join(folder, places.bad_rows))
    # Raw rows without splits are called train, because they have no other name.
    split = config.raw is None or config.split is not None or len(counted) > 1
    return Result(output.path, counted, len(files), rows.bad, metrics, places, split=split, classes=columns.in_order)


def _columns(config: PredictConfig, rows: InputRows, trained: TrainedModel) -> Columns:
    keep = list(rows.kept) if config.keep is None else list(dict.fromkeys(config.keep))
    known = [*rows.kept, *([LABEL] if rows.label is not None else [])]
    columns = Columns(trained.description.label, len(rows.splits) > 1, keep, config.top)
    _check_top(config, trained)
    for place, name in enumerate(keep):
        if name not in known:
            there = f"it has {', '.join(known)}" if known else "it has none to keep"
            raise config.error(f"keep.{place}", f"{rows.place}: has no column {name!r}; {there}")
        if name.lower() in columns.own:
            key = "keep" if config.keep is None else f"keep.{place}"
            raise config.error(
                key, f"the column name {name!r} is taken by the predictions; list only other columns in `keep`"
            )
    partition.check(config, [*columns.own, *keep])
    return columns


def _check_top(config: PredictConfig, trained: TrainedModel) -> None:
    label = trained.description.label
    if config.top is None:
        return
    if label is None or label.classes is None or label.shape:
        what = "numbers" if label is None or label.classes is None else "a class at each of several places"
        raise config.error("top", f"needs a model that predicts one class per row; {trained.path} predicts {what}")
    if config.top > len(label.classes):
        raise config.error("top", f"must be at most {len(label.classes)}, the model's classes (is {config.top})")


def _checked(facts: Sequence[Facts], rows: InputRows) -> dict[str, int]:
    """Return the number of rows, by split.

    Raise InputError or RunError if a task gave up, or a row was lost or came twice. Raise InputError if there are no
    rows, or a label has no known class.
    """
    for fact in facts:
        if fact.error is not None:
            raise (InputError if fact.usage else RunError)(fact.error)
    counted = {}
    for split, (expected, checksum) in rows.expected.items():
        rows_out = sum(fact.rows.get(split, 0) for fact in facts)
        summed = sum(fact.checksums.get(split, 0) for fact in facts) % 2**64
        if rows_out != expected or checksum not in (None, summed):
            raise RunError(
                f"{rows.place}: {split}: {expected} rows in, {rows_out} rows out (checksum {summed}, not {checksum}); "
                "this is a defect of sparksplit"
            )
        counted[split] = rows_out
    if not sum(counted.values()):
        raise InputError(f"{rows.place}: has no rows to predict")
    unknown = sum(fact.unknown for fact in facts)
    if unknown:
        raise InputError(
            f"{rows.place}: {unknown} rows have a label that is not a class of the model; "
            "input.label: null predicts without labels"
        )
    return counted


def _metrics(facts: Sequence[Facts], trained: TrainedModel, rows: InputRows) -> dict[str, Any] | None:
    """Return the content of metrics.json; None without labels."""
    by_split: dict[str, Scores] = {}
    for fact in facts:
        for split, values in fact.scores.items():
            _add(by_split, split, scores.from_json(values))
    whole: dict[str, Scores] = {}
    for score in by_split.values():
        _add(whole, "", score)
    if "" not in whole:
        return None
    content: dict[str, Any] = {
        "model": {"path": trained.path, **trained.identity},
        "input": rows.place,
        "splits": rows.splits,
        **finite(whole[""].summary()),
    }
    if len(by_split) > 1:
        content["by_split"] = {split: finite(score.summary()) for split, score in by_split.items()}
    label, total = trained.description.label, whole[""]
    if isinstance(total, ClassScores) and label is not None and label.classes is not None:
        if len(label.classes) == 2:
            content["positive"] = label.classes[1]
        content["by_class"] = total.by_class(label.classes)
        if (matrix := total.confusion_matrix()) is not None:
            content["confusion"] = matrix
    elif isinstance(total, NumberScores) and 1 < len(total.squared) <= MOST_CONFUSED:
        content["by_number"] = [finite(each) for each in total.by_number()]
    return content


def _add(sums: dict[str, Scores], key: str, score: Scores) -> None:
    total = sums.setdefault(key, type(score)())
    assert type(total) is type(score)
    total.add(score)  # type: ignore[arg-type]


def _metrics_of(path: str, places: Places) -> dict[str, Any] | None:
    file = filesystem.join(path, places.metrics)
    return dict(filesystem.read_json(file)) if filesystem.exists(file) else None
