"""`diagnose` of a preparation: prepares really, into a folder beside the output that is removed again; asks Spark what
that took; and tries what would help."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from hdfs_io.config import PreprocessConfig
from hdfs_io.manifest import Manifest
from hdfs_io.preprocess import preprocess, session_for
from hdfs_io.spark_batches import settings
from sparksplit import __version__
from sparksplit.base.command import Options
from sparksplit.base.progress import say
from sparksplit.base.records import Json
from sparksplit.comparison.intervals import interval
from sparksplit.diagnosis.preprocess.files import files_of
from sparksplit.diagnosis.preprocess.metrics import Metrics
from sparksplit.diagnosis.preprocess.parts import parts_of
from sparksplit.diagnosis.preprocess.record import PreprocessDiagnosis, Tried, Trouble
from sparksplit.diagnosis.preprocess.stages import Stage
from sparksplit.diagnosis.preprocess.verdict import Setup, limit_of, sentence, troubles_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIRS = 3
"""How often a preparation is repeated with a setting and without it."""
WARM_SECONDS = 60.0
"""A first preparation that is shorter is mostly Spark's first steps: it is made again, to be measured."""
TRYING_SECONDS = 1800.0
"""For all repetitions, as far as the first preparation tells; one with the setting is always made."""
BY_A_TENTH = 0.1
"""What a single pair must gain to be believed."""


@dataclass(frozen=True)
class _Prepared:
    """One preparation. began, ended: seconds since 1970."""

    stages: list[Stage]
    began: float
    ended: float
    manifest: Manifest

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def diagnose_preprocess(config: PreprocessConfig, options: Options, pairs: int = PAIRS) -> PreprocessDiagnosis:
    """Prepare what `config` describes, find out where the time goes, and try what would help. Nothing stays of what was
    prepared, and the configuration's output is neither read nor touched. pairs: see PAIRS

    Raises UsageError and RunError like `preprocess`.
    """
    config.check()
    _say_room(config)
    with ExitStack() as started:
        spark = session_for(config, started)()
        metrics = Metrics(spark)
        say("preparing once, to be measured")
        first = _prepare(spark, metrics, config)
        if first.seconds < WARM_SECONDS:
            say("preparing once more, now that Spark is warm")
            first = _prepare(spark, metrics, config)
        slots, executors = metrics.slots()
        parts = parts_of(first.stages, first.began, first.ended, slots)
        setup = _setup(config, first.manifest, slots, executors)
        troubles = troubles_of(first.stages, parts, setup)
        mendable: list[Trouble] = []
        for trouble in troubles:
            if trouble.settings and trouble.settings not in [each.settings for each in mendable]:
                mendable.append(trouble)
        tried = []
        for trouble in mendable:
            turns = int(min(pairs, TRYING_SECONDS / len(mendable) / (2 * first.seconds)))
            tried.append(_try(spark, metrics, config, trouble, first.seconds, turns))
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
        seconds=first.seconds,
        slots=slots,
        rows=sum(split.rows for split in splits),
        prepared_bytes=sum(split.bytes for split in splits),
        files=setup.files,
        parts=parts,
        troubles=troubles,
        tried=tried,
    )


def _setup(config: PreprocessConfig, manifest: Manifest, slots: int, executors: int) -> Setup:
    return Setup(
        slots=slots,
        executors=executors,
        format=config.input.format,
        spreads=config.spreads,
        spread=config.spread,
        file_size=config.file_size,
        prepared_bytes=sum(split.bytes for split in manifest.splits.values()),
        files=files_of(config.input),
        windows=config.input.windows is not None,
    )


def _say_room(config: PreprocessConfig) -> None:
    """Say where is prepared, and that there may be too little room."""
    output = filesystem.followed(config.output).rstrip("/")
    say(
        f"preparing into a hidden folder beside {output}, which is removed afterwards: it takes as much room as the "
        "prepared data set, once"
    )
    files = files_of(config.input)
    if files is None or "://" in output:
        return
    folder = Path(output)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < files.bytes:
        say(f"{folder}: has {free:,} bytes free, and the input's files have {files.bytes:,}: that may not be enough")


def _prepare(
    spark: SparkSession, metrics: Metrics, config: PreprocessConfig, tried: Mapping[str, Json] | None = None
) -> _Prepared:
    """Prepare into a folder that is removed again. tried: settings to try, of the configuration and of Spark"""
    own = {key: value for key, value in (tried or {}).items() if not key.startswith("spark.")}
    sparks = {key: str(value) for key, value in (tried or {}).items() if key.startswith("spark.")}
    path = filesystem.followed(config.output).rstrip("/")
    # Always the same name: what a diagnosis that was killed has left is replaced, and that of another one refused.
    folder = filesystem.join(filesystem.parent(path), f".{filesystem.name(path)}.diagnose")
    made = filesystem.missing(filesystem.parent(path))
    try:
        with settings(spark, sparks):
            known = metrics.next_stage()
            began = time.time()
            data = preprocess(config.model_copy(update={**own, "output": folder}), Options(overwrite=True))
            ended = time.time()
        filesystem.remove(folder)
    finally:
        filesystem.remove_empty(made)
    return _Prepared(metrics.stages(known), began, ended, data.manifest)


def _try(
    spark: SparkSession,
    metrics: Metrics,
    config: PreprocessConfig,
    trouble: Trouble,
    seconds: float,
    pairs: int,
) -> Tried:
    """Prepare with a trouble's settings and without them, in turns. seconds: of one preparation, which counts as the
    one without them where there is no time for pairs"""
    before, after = [seconds] if pairs < 1 else [], []
    said = ", ".join(f"{key}: {str(value).lower()}" for key, value in trouble.settings.items())
    say(f"trying {said}: {max(1, pairs)} time{'s' if pairs > 1 else ''}, in turns with the configuration as it is")
    for place in range(max(1, pairs)):
        # The order of a pair changes, so that what grows warm, or full, favours neither.
        for changed in (True, False) if place % 2 else (False, True):
            if changed:
                after.append(_prepare(spark, metrics, config, trouble.settings).seconds)
            elif pairs >= 1:
                before.append(_prepare(spark, metrics, config).seconds)
    return judged(trouble, before, after)


def judged(trouble: Trouble, before: Sequence[float], after: Sequence[float]) -> Tried:
    """What these seconds, with a trouble's settings (after) and without them, say of the settings."""
    gain, low, high = interval([1 - new / old for old, new in zip(before, after, strict=True)])
    return Tried(
        kind=trouble.kind,
        settings=trouble.settings,
        before=list(before),
        after=list(after),
        gain=gain,
        low=low,
        high=high,
        helps=gain >= BY_A_TENTH if low is None else low > 0,
    )
