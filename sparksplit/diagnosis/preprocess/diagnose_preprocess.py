"""`diagnose` of a preparation: prepare into a hidden folder, ask Spark for the times of stages and tasks, and try
settings that would help."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from sparksplit.base.errors import RunError, SparksplitError
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.base.records import Json
from sparksplit.base.version import __version__
from sparksplit.dataset.manifest import Manifest
from sparksplit.diagnosis.answer import Advice, answer
from sparksplit.diagnosis.preprocess.files import files_of
from sparksplit.diagnosis.preprocess.parts import DRIVERS, parts_of
from sparksplit.diagnosis.preprocess.preprocess_record import KINDS, PreprocessDiagnosis, Trouble
from sparksplit.diagnosis.preprocess.stages import Metrics, Stage
from sparksplit.diagnosis.preprocess.verdict import NAMED_OF, Setup, limit_of, notes_of, troubles_of
from sparksplit.diagnosis.settings import written
from sparksplit.diagnosis.verdict import LEAST, gain
from sparksplit.prepare import config_checks
from sparksplit.prepare.preprocess import preprocess, session_for
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.spark.batches import settings
from sparksplit.spark.session import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_SECONDS = 60.0
"""A first preparation that is shorter is mostly Spark's first steps. A second one is measured instead."""
PAIRS = 3
"""The number of preparations with a setting, and of preparations without it."""
TRYING_SECONDS = 1800.0
"""The time for all trials. It limits the pairs, but one preparation with each setting is always made."""


def diagnose_preprocess(config: PreprocessConfig, pairs: int = PAIRS) -> PreprocessDiagnosis:
    """Prepare the data that `config` describes, find where the time goes, and try settings that would help.

    The prepared data is removed afterwards. The configuration's output is neither read nor touched. pairs: see PAIRS.

    Raise UsageError and RunError like `preprocess`. Also raise RunError if a repeated preparation has other rows.
    """
    config_checks.check(config)
    files = files_of(config.input)
    with ExitStack() as started:
        spark = session_for(config, started)()
        trials = Trials(spark, config)
        say(
            f"preparing into {trials.folder}, which is removed afterwards: it needs as much room as the prepared data "
            "set"
        )
        first = trials.prepare()
        if is_cold(first, trials.metrics.slots()):
            say("preparing once more, now that Spark is warm")
            first = trials.prepare()
        slots = trials.metrics.slots()
        parts = parts_of(first.stages, first.began, first.ended, slots)
        splits = first.manifest.splits.values()
        setup = Setup(
            slots=slots,
            config=config,
            prepared_bytes=sum(split.bytes for split in splits),
            files=files,
        )
        troubles = troubles_of(first.stages, parts, setup)
        # Settings that help against several troubles are tried once.
        once = {str(trouble.settings): trouble for trouble in reversed(troubles) if trouble.settings}
        pairs = min(pairs, int(TRYING_SECONDS / (2 * first.seconds * max(1, len(once)))))
        tried = [trials.tried(trouble, first, pairs) for trouble in reversed(once.values())]
        master, application = str(spark.sparkContext.master), spark.sparkContext.applicationId
    return PreprocessDiagnosis(
        version=__version__,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        master=master,
        application_id=application,
        output=config.output,
        answer=answer(limit_of(troubles, parts), tried, max(1, pairs) if tried else 0, notes_of(troubles)),
        config=config.model_dump(mode="json"),
        config_file=config.origin.file,
        versions={"sparksplit": __version__, "pyspark": version("pyspark"), "pyarrow": version("pyarrow")},
        seconds=first.seconds,
        slots=slots,
        rows=sum(split.rows for split in splits),
        prepared_bytes=setup.prepared_bytes,
        files=files,
        parts=parts,
        troubles=troubles,
    )


@dataclass(frozen=True)
class Prepared:
    """One preparation. began, ended: seconds since 1970."""

    stages: list[Stage]
    began: float
    ended: float
    manifest: Manifest

    @property
    def seconds(self) -> float:
        """Seconds of the preparation."""
        return self.ended - self.began


def is_cold(first: Prepared, slots: int) -> bool:
    """Whether a session's first preparation was mostly Spark's first steps: it was short, or its time without a task
    would be named as a trouble."""
    parts = parts_of(first.stages, first.began, first.ended, slots)
    alone = sum(part.seconds for part in parts if part.name in DRIVERS)
    return first.seconds < WARM_SECONDS or alone >= NAMED_OF["driver"] * first.seconds


class Trials:
    """Preparations of the data that `config` describes. Each is removed afterwards."""

    def __init__(self, spark: SparkSession, config: PreprocessConfig) -> None:
        self.metrics = Metrics(spark)
        # All executors can write beside the output. The next diagnosis replaces the folder of a killed diagnosis.
        output = filesystem.followed(config.output).rstrip("/")
        self.folder = filesystem.join(filesystem.parent(output), f".{filesystem.name(output)}.diagnose")
        self._spark, self._config = spark, config

    def prepare(self, tried: Mapping[str, Json] | None = None) -> Prepared:
        """Prepare once. tried: settings of the configuration and of Spark, by name."""
        sparks = {key: str(value) for key, value in (tried or {}).items() if key.startswith("spark.")}
        keys = {key: value for key, value in (tried or {}).items() if key not in sparks}
        changed = self._config.model_copy(update={**keys, "output": self.folder})
        made = filesystem.missing(filesystem.parent(self.folder))
        try:
            with settings(self._spark, sparks):
                number = self.metrics.next_stage()
                began = time.time()
                manifest = preprocess(changed, Options(overwrite=True)).manifest
                ended = time.time()
        finally:
            filesystem.remove(self.folder)
            filesystem.remove_empty(made)
        return Prepared(self.metrics.stages(number), began, ended, manifest)

    def tried(self, trouble: Trouble, first: Prepared, pairs: int) -> Advice:
        """Prepare in turns with and without the settings that would help against `trouble`.

        first: the first preparation. Without time for pairs, it counts as the preparation without the settings.

        Raise RunError if a preparation has other rows than the first one.
        """
        advice = Advice(settings=trouble.settings, why=KINDS[trouble.kind], gain=None, helps=False)
        say(f"trying {written(trouble.settings)} in turns with the configuration as it is; pairs: {max(1, pairs)}")
        before, after = list[float](), list[float]()
        turns = [({}, before), (trouble.settings, after)]
        if pairs < 1:
            before.append(first.seconds)
            turns = turns[1:]
        for place in range(max(1, pairs)):
            # The order of a pair changes, so that warm caches or full disks favour neither side.
            for values, seconds in turns[:: -1 if place % 2 else 1]:
                try:
                    with spark_errors():
                        prepared = self.prepare(values)
                except SparksplitError as error:
                    if not values:
                        raise
                    return replace(advice, failed=f"the preparation fails with it: {error}")
                self._check(first.manifest, prepared.manifest)
                seconds.append(prepared.seconds)
        gained = gain(before, after)
        # A single pair has no interval.
        helps = gained.is_certain or (gained.low is None and gained.mean >= LEAST)
        return replace(advice, gain=gained, helps=helps)

    def _check(self, first: Manifest, again: Manifest) -> None:
        """Raise RunError if a data set has other rows than the first one."""
        if (before := rows_of(first)) != (after := rows_of(again)):
            raise RunError(
                f"{self._config.input.place}: prepared again, it has other rows: {after}, at first {before}; either "
                "the input has changed meanwhile, or this is an error of sparksplit, and nothing that was measured can "
                "be trusted"
            )


def rows_of(manifest: Manifest) -> dict[str, object]:
    """The number and checksums of each split's rows, and the numbers of rows that were left out."""
    splits = {
        name: {"rows": facts.rows, "checksum": facts.checksum, "weights": facts.weights_checksum}
        for name, facts in manifest.splits.items()
    }
    return {**splits, "bad rows": sum(manifest.bad_rows.values()), "unseen labels": manifest.unseen_labels}
