"""`train`: check the configuration, find out how far an earlier command came, start Spark, and run to the end."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from hdfs_io.publish import Output
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.spark.application import called
from sparksplit.spark.session import spark_session
from sparksplit.training import onnx_file
from sparksplit.training.callbacks.given import Given
from sparksplit.training.checkpoints import checkpoint_of
from sparksplit.training.choice import note
from sparksplit.training.decided import Choosing, Follow, decided
from sparksplit.training.in_session import ALONE, InSession
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.own_models import with_compiled
from sparksplit.training.place import placed
from sparksplit.training.recovery import attempts
from sparksplit.training.recovery.finished import completed
from sparksplit.training.recovery.going_on import going_on, told_how
from sparksplit.training.run import Run
from sparksplit.training.run_record import RunRecord
from sparksplit.training.spent import advice
from sparksplit.training.tracking.tracker import Tracker, tracking
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def train(
    config: TrainConfig,
    options: Options,
    frame: DataFrame | None = None,
    follow: Follow | None = None,
    callbacks: Given | None = None,
    within: InSession = ALONE,
) -> RunRecord:
    """Train as `config` says. Return run.json, which is an earlier identical run's if there is one.

    frame: rows to train on instead of the data set's training split, with `input_mode: spark`. It has a binary column
        for each tensor of the data set (row-major, little-endian), its label, and `row_id` (bigint, unique; computed if
        missing). Shapes, preprocessing, validation and test come from the data set. Another frame does not count as
        another configuration: use `options.overwrite` to train anew.
    follow: chooses by `config.comparison`, unless an earlier command has chosen.
    callbacks: what node 0 runs. Callbacks that only observe do not count as another configuration.
    within: the session of a caller that makes several runs in one session

    Raise UsageError for the user's mistakes, before Spark starts if they can be known by then. Raise RunError or a
    subclass if the run fails. Files published before a failure stay, and the next call goes on from them.
    """
    is_tracked, active = tracking(config)
    tracker = Tracker(config.output, active, within.run_name) if is_tracked else None
    try:
        record, output = _trained(config, options, frame, follow, callbacks, tracker, within)
        if config.export == "onnx":
            onnx_file.add(output, record)
    except BaseException as error:
        if tracker is not None:
            tracker.failed(error)
        raise
    if tracker is not None:
        tracker.finished(output.path, record)
    return record


def _trained(
    config: TrainConfig,
    options: Options,
    frame: DataFrame | None,
    follow: Follow | None,
    callbacks: Given | None,
    tracker: Tracker | None,
    within: InSession,
) -> tuple[RunRecord, Output]:
    """Return run.json and the complete output."""
    began = time.monotonic()
    config, _own = with_compiled(config)
    data = open_data(config)
    if frame is not None and config.input_mode != "spark":
        raise config.error("input_mode", "must be spark to train on a DataFrame")
    if frame is not None:
        from sparksplit.handoff.feeding import check_columns

        check_columns(frame, data)
    inputs = RunInputs.of(config, data, frame is not None, callbacks)
    inputs, on_executors = placed(inputs)
    further = f"to train on from its weights, set init={config.output} and another output"
    output = Output(config.output, inputs.hash(), "train", inputs.paths, keys=inputs.keys, otherwise=further)
    with output.claimed(options.overwrite, going_on(output, inputs, options)) as decision:
        if decision == "done":
            say(f"{output.path} is up to date: it was made from the same input and configuration")
            return RunRecord.read(output.path), output
        if len(data.paths) > 1:
            rows = data.manifest.splits["train"].rows
            say(f"data: {len(data.paths)} prepared data sets as one, {rows:,} training rows")
        if inputs.initial is not None and (warning := inputs.initial.warning(data.description)):
            say(warning)
        checkpoint, earlier, is_resumed = None, attempts.Attempts(), decision == "resume"
        if is_resumed:
            output.go_on()
            if (record := completed(output)) is not None:
                say(f"{output.path}: the last command was killed before it wrote the marker; now the run is complete")
                return record, output
            earlier = attempts.noted(output.folder)
        inputs, chosen = decided(inputs, output.folder if is_resumed else None, follow, on_executors)
        config = inputs.config
        if is_resumed:
            checkpoint = checkpoint_of(output.folder, config.node_count)
            if checkpoint is not None:
                say(f"going on from {checkpoint}; --restart would start from the beginning")
        choosing = Choosing.of(inputs, output, chosen)
        waits: list[float] = []
        executors = config.feeders + (config.processes if choosing is None else choosing.nodes)

        def own() -> AbstractContextManager[SparkSession]:
            return spark_session(called("train", config.output), executors, nodes=on_executors, waited=waits.append)

        with within.session(own) as spark:
            output.lease.tell(spark.sparkContext.applicationId)
            if checkpoint is None:
                output.begin()
                if chosen is not None:
                    note(output.fence, chosen)
            # The run did not cost the seconds that it has waited for another call.
            began += sum(waits)
            one = Run(spark, inputs, output, frame, began, earlier, choosing, tracker, within, not on_executors)
            with told_how(output, one.reached, "updates" if inputs.strategy.sync.every_step else "steps"):
                record = one.to_end(checkpoint)
            on_cluster = not str(spark.sparkContext.master).startswith("local")
        if within.spark is None and (line := advice(record.seconds, on_cluster, config.origin.file)) is not None:
            say(line)
        return record, output
