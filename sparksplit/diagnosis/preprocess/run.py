"""`diagnose` of a preparation: prepares really, into a folder beside the output that is removed again; asks Spark what
that took; and tries what would help."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from sparksplit.base.progress import say
from sparksplit.base.version import __version__
from sparksplit.dataset.manifest import Manifest
from sparksplit.diagnosis.preprocess.files import files_of
from sparksplit.diagnosis.preprocess.parts import DRIVERS, parts_of
from sparksplit.diagnosis.preprocess.record import Files, PreprocessDiagnosis, Tried, Trouble
from sparksplit.diagnosis.preprocess.trying import (
    MORE,
    PAIRS,
    TRYING_SECONDS,
    NotTried,
    Prepared,
    Trials,
    beside,
    free_bytes,
)
from sparksplit.diagnosis.preprocess.verdict import DRIVER_NAMED, Setup, limit_of, sentence, troubles_of
from sparksplit.prepare import config_checks
from sparksplit.prepare.config import PreprocessConfig
from sparksplit.prepare.preprocess import session_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_SECONDS = 60.0
"""A first preparation that is shorter is mostly Spark's first steps: it is made again, to be measured."""


def diagnose_preprocess(config: PreprocessConfig, pairs: int = PAIRS) -> PreprocessDiagnosis:
    """Prepare what `config` describes, find out where the time goes, and try what would help. Nothing stays of what was
    prepared, and the configuration's output is neither read nor touched. pairs: see PAIRS

    Raises UsageError and RunError like `preprocess`; RunError, too, where it has other rows when it is prepared again.
    """
    config_checks.check(config)
    files = files_of(config.input)
    with ExitStack() as started:
        spark = session_for(config, started)()
        _say_room(spark, config, files)
        trials = Trials(spark, config)
        say("preparing once, to be measured")
        first = trials.prepare()
        slots = trials.metrics.slots()
        if is_cold(first, slots):
            say("preparing once more, now that Spark is warm")
            first = trials.prepare()
            slots = trials.metrics.slots()
        parts = parts_of(first.stages, first.began, first.ended, slots)
        setup = _setup(config, first.manifest, slots, files)
        troubles, tried = _tried(trials, troubles_of(first.stages, parts, setup), first.seconds, pairs)
        master, application = str(spark.sparkContext.master), spark.sparkContext.applicationId
    splits = first.manifest.splits.values()
    return PreprocessDiagnosis(
        version=__version__,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        master=master,
        application_id=application,
        output=config.output,
        limit=limit_of(troubles),
        sentence=sentence(parts, troubles, setup),
        config=config.model_dump(mode="json"),
        config_file=config.origin.file,
        versions={"sparksplit": __version__, "pyspark": version("pyspark"), "pyarrow": version("pyarrow")},
        seconds=first.seconds,
        slots=slots,
        rows=sum(split.rows for split in splits),
        prepared_bytes=sum(split.bytes for split in splits),
        files=setup.files,
        parts=parts,
        troubles=troubles,
        tried=tried,
    )


def is_cold(first: Prepared, slots: int) -> bool:
    """Whether a session's first preparation was much its first steps: it was short, or without a task for so long that
    this alone would be named."""
    parts = parts_of(first.stages, first.began, first.ended, slots)
    alone = sum(part.seconds for part in parts if part.name in DRIVERS)
    return first.seconds < WARM_SECONDS or alone >= DRIVER_NAMED * first.seconds


def _tried(
    trials: Trials, troubles: Sequence[Trouble], seconds: float, pairs: int
) -> tuple[list[Trouble], list[Tried]]:
    """(the troubles, with why something was not tried; what was). What helps against several is tried once."""
    once: list[Trouble] = []
    for trouble in troubles:
        if trouble.settings and trouble.settings not in [each.settings for each in once]:
            once.append(trouble)
    tried: list[Tried] = []
    told: list[tuple[Trouble, str]] = []
    for trouble in once:
        there_is_time = int(TRYING_SECONDS / len(once) / (2 * seconds))
        try:
            tried.append(trials.tried(trouble, seconds, min(pairs, there_is_time), min(MORE * pairs, there_is_time)))
        except NotTried as error:
            told.append((trouble, str(error)))
    for failed, why in told:
        troubles = [replace(each, not_tried=why) if each.settings == failed.settings else each for each in troubles]
    return list(troubles), tried


def _setup(config: PreprocessConfig, manifest: Manifest, slots: int, files: Files | None) -> Setup:
    return Setup(
        slots=slots,
        format=config.input.format,
        file_size=config.file_size,
        prepared_bytes=sum(split.bytes for split in manifest.splits.values()),
        files=files,
        windows=config.input.windows is not None,
    )


def _say_room(spark: SparkSession, config: PreprocessConfig, files: Files | None) -> None:
    """Say where is prepared, and that there may be too little room."""
    folder = filesystem.parent(beside(config.output, "diagnose"))
    say(
        f"preparing into a hidden folder in {folder}, which is removed afterwards: it takes as much room as the "
        "prepared data set, once"
    )
    missing = filesystem.missing(folder)
    there = filesystem.parent(missing[-1]) if missing else folder
    free = free_bytes(spark, there)
    if files is not None and free < files.bytes:
        say(f"{there}: has {free:,} bytes free, and the input's files have {files.bytes:,}: that may not be enough")
