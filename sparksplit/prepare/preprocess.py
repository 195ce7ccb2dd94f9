"""`preprocess` on the driver: checks, prepares in executors, publishes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hdfs_io.differences import content
from hdfs_io.publish import Output
from sparksplit.base.config import digest
from sparksplit.base.options import Options
from sparksplit.base.progress import say, spark_progress
from sparksplit.base.user_functions import FunctionError, is_own, load, pickled_by_value, source_of
from sparksplit.dataset.description import Description
from sparksplit.dataset.fitted import Fitted, read_fitted
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.features.doubts import unknown_texts
from sparksplit.prepare import config_checks
from sparksplit.prepare.awaited import await_input
from sparksplit.prepare.formats import format_of
from sparksplit.prepare.passes.stored_passes import digest_now
from sparksplit.prepare.prepare import prepare
from sparksplit.prepare.preprocess_config import InputConfig, PreprocessConfig
from sparksplit.prepare.sources import Source, check_paths, open_frame, open_source, open_with_spark, raw_digest
from sparksplit.prepare.tables.input_failures import input_failures
from sparksplit.spark.application import called
from sparksplit.spark.executors import session_with_executors
from sparksplit.spark.job_names import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def preprocess(
    config: PreprocessConfig,
    options: Options,
    frame: DataFrame | None = None,
    suits: Callable[[Source], None] = lambda source: None,
) -> PreparedDataSet:
    """Prepare the data set of `config`, unless it is already complete.

    frame: the rows, if `config` is a DataFramePreprocess. A DataFrame has no files to compare. So its rows are read to
    find out whether a complete data set was made from them.
    suits: raises a UsageError if the caller cannot use a DataFrame's columns. Called before their rows are read.

    Raise UsageError for errors in the user's input. Errors that the driver can see come before anything is written.
    Raise RunError if Spark fails.
    """
    config_checks.check(config)
    config = config_checks.effective(config)
    await_input(config.input, config.output, options.overwrite)
    function = own_source(config.input)
    fitted = fitted_before(config)
    inputs = {**config.input.paths(), **config.own_file, **({} if fitted is None else {"fitted": fitted.path})}
    # Spark starts before the claim only if Spark has to look at the rows, because this may fail.
    with ExitStack() as started:
        session = session_for(config, started)
        if not (config.input.listed or format_of(config.input.format).source):
            spark = session()
            frame = own_frame(spark, config.input) if function is not None and frame is None else frame
        source = None if config.input.listed else open_rows(config, session, frame, fitted)
        if source is not None:
            suits(source)
        input_hash = raw_digest(config.input) if source is None else _hash_of(source, session)
        fitted_digest = None if fitted is None else fitted.digest
        config_hash = config.config_hash(function, fitted_digest)
        more = {"input.format's file": function and digest(function), "fitted": fitted_digest}
        keys = {**config.hashed(), **{key: content(value) for key, value in more.items() if value}}
        output = Output(config.output, config_hash, "preprocess", inputs, input_hash, keys)
        # Report errors in the input before anything is written, even the claim on the output.
        if source is None and output.decide(options.overwrite) != "done":
            source = open_rows(config, session, frame, fitted)
        with output.claimed(options.overwrite) as decision:
            if decision == "done":
                say(f"{output.path} is up to date: it was made from the same input and configuration")
                return PreparedDataSet.open(output.path)
            source = source or open_rows(config, session, frame, fitted)
            for line in source.notes:
                say(f"{source.place}: {line}")
            for line in () if source.table is None else source.table.said().values():
                say(f"feature {line}")
            say(f"label {source.label_said(config.scales_label(source.label_kind, source.table is not None))}")
            # The folder is published or removed after the Spark that this call started has stopped, so nothing writes
            # any more. In a session that continues, a failed job's last tasks may still write. The next command removes
            # these files.
            with output.staging() as folder, started:
                spark = session()
                with spark_progress(spark, "preprocess"):
                    output.lease.tell(spark.sparkContext.applicationId)
                    with input_failures(spark, source.place, [file.path for file in source.files]):
                        manifest, rows_hash = prepare(spark, config, source, folder, fitted)
                    if rows_hash is not None:
                        output.made_of(folder, rows_hash)
            for line in unknown_texts(manifest.description.features, manifest.splits["train"].rows):
                say(f"feature {line}")
        return PreparedDataSet(output.path, manifest)


def fitted_before(config: PreprocessConfig) -> Fitted | None:
    """Return what `config.fitted` names, or None. Raise InputError or ConfigError if it does not fit the input."""
    if config.fitted is None:
        return None
    fitted = read_fitted(config.fitted)
    config_checks.check_missing(config.input, fitted.description, fitted.path)
    return fitted


def session_for(config: PreprocessConfig, started: ExitStack) -> Callable[[], SparkSession]:
    """Return a function that returns the Spark session for `config`. The first call starts the session, which stops
    with `started`."""
    settings = format_of(config.input.format).session_settings()
    name = called("preprocess", config.output)
    return lambda: started.enter_context(session_with_executors(name, config.executors, settings, config.patience))


def own_source(config: InputConfig) -> str | None:
    """Return the source text of the user's function that returns the rows. "": it is in a package. None: there is none.

    Raise ConfigError if the function does not exist.
    """
    if not is_own(config.format):
        return None
    try:
        return source_of(config.format) or ""
    except FunctionError as error:
        raise config.error("format", str(error)) from error


@described("open")
def own_frame(spark: SparkSession, config: InputConfig) -> DataFrame:
    """Return the DataFrame of the user's function. Raise ConfigError if the function fails or returns something
    else."""
    from pyspark.sql import DataFrame

    try:
        function = load(config.format, source_of(config.format))
        pickled_by_value(config.format)
        frame = function(spark, config.one_path())
    except FunctionError as error:
        raise config.error("format", str(error)) from error
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())[:300]
        raise config.error("format", f"{config.format} failed: {type(error).__name__}: {text}") from error
    if not isinstance(frame, DataFrame):
        raise config.error("format", f"{config.format} returned {type(frame).__name__}, not a DataFrame")
    return frame


def _hash_of(source: Source, session: Callable[[], SparkSession]) -> str | Callable[[], str]:
    """Return the hash that shows whether the source's rows changed. Without files, return a function that reads all
    rows for it."""
    return source.raw_digest or (lambda: digest_now(session(), source))


@described("open")
def open_rows(
    config: PreprocessConfig,
    session: Callable[[], SparkSession],
    frame: DataFrame | None,
    fitted: Fitted | None = None,
) -> Source:
    """Return the source of raw rows. Raise ConfigError or InputError for errors that the driver can see."""
    source = _opened(config, session, frame, None if fitted is None else fitted.description)
    if source.has_test and config.test > 0:
        raise config.error("test", f"must be 0, because the input has its own test split (is {config.test})")
    if source.label_kind == "number" and (config.unseen_labels != "error" or config.cut.stratify):
        key = "cut.stratify" if config.cut.stratify else "unseen_labels"
        raise config.error(key, f"needs labels that are classes, but the labels of {source.place} are numbers")
    source.cut_by = config.cut.by
    return source


def _opened(
    config: PreprocessConfig,
    session: Callable[[], SparkSession],
    frame: DataFrame | None,
    description: Description | None,
) -> Source:
    if frame is not None:
        return open_frame(frame, config.input, description, config.cut, config.features)
    if format_of(config.input.format).reader:
        check_paths(config.input)
        return open_with_spark(session(), config.input, description, config.cut, config.features)
    if format_of(config.input.format).load().is_long(config.input):
        session()
    return open_source(config.input, description, validation=config.validation, test=config.test)
