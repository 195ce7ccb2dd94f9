"""Preparations for a diagnosis: measured, and repeated with what would help and without it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from sparksplit.base.errors import RunError, SparksplitError
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.base.records import Json
from sparksplit.comparison.intervals import interval
from sparksplit.dataset.manifest import Manifest
from sparksplit.diagnosis.preprocess.metrics import Metrics
from sparksplit.diagnosis.preprocess.record import Tried, Trouble
from sparksplit.diagnosis.preprocess.stages import Stage
from sparksplit.prepare.config import PreprocessConfig
from sparksplit.prepare.preprocess import preprocess
from sparksplit.spark.batches import settings
from sparksplit.spark.session import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIRS = 3
"""How often a preparation is repeated with a setting and without it."""
MORE = 2
"""How many times as often, where the interval is still wide then."""
NARROW = 0.05
"""Of the time: half an interval that needs no more pairs."""
TRYING_SECONDS = 1800.0
"""For all repetitions, as far as the first preparation tells; one with the setting is always made."""
BY_A_TENTH = 0.1
"""What a single pair must gain to be believed."""


class NotTried(SparksplitError):
    """What would help could not be tried: a preparation fails with it."""


class OtherRows(RunError):
    """A preparation that was made again has other rows than the first one."""


@dataclass(frozen=True)
class Prepared:
    """One preparation. began, ended: seconds since 1970."""

    stages: list[Stage]
    began: float
    ended: float
    manifest: Manifest

    @property
    def seconds(self) -> float:
        """What it took."""
        return self.ended - self.began


class Trials:
    """Preparations of what `config` describes; each is removed again."""

    def __init__(self, spark: SparkSession, config: PreprocessConfig) -> None:
        self.metrics = Metrics(spark)
        self._spark, self._config = spark, config
        self._rows: dict[str, Any] | None = None

    def prepare(self, tried: Mapping[str, Json] | None = None) -> Prepared:
        """Prepare once. tried: settings of the configuration and of Spark, by name.

        Raises OtherRows where other rows come out than in the first one.
        """
        own = {key: value for key, value in (tried or {}).items() if not key.startswith("spark.")}
        sparks = {key: str(value) for key, value in (tried or {}).items() if key.startswith("spark.")}
        folder = beside(self._config.output, "diagnose")
        made = filesystem.missing(filesystem.parent(folder))
        changed = self._config.model_copy(update={**own, "output": folder})
        try:
            with settings(self._spark, sparks):
                known = self.metrics.next_stage()
                began = time.time()
                data = preprocess(changed, Options(overwrite=True))
                ended = time.time()
        finally:
            filesystem.remove(folder)
            filesystem.remove_empty(made)
        self._compare(data.manifest, f"with {_said(tried)}" if tried else "as it was")
        return Prepared(self.metrics.stages(known), began, ended, data.manifest)

    def tried(self, trouble: Trouble, seconds: float, pairs: int, most: int) -> Tried:
        """Prepare with the settings that would help against `trouble` and without them, in turns: `pairs` times, and up
        to `most` where the interval of the gain is wide. seconds: of one preparation, which counts as the one without
        where there is no time for pairs

        Raises NotTried where a preparation fails with them.
        """
        before, after = [seconds] if pairs < 1 else [], []
        often = f"{pairs} to {most} times" if most > pairs > 0 else f"{max(1, pairs)} time{'s' if pairs > 1 else ''}"
        say(f"trying {_said(trouble.settings)}: {often}, in turns with the configuration as it is")
        for place in range(max(1, pairs, most)):
            # The order of a pair changes, so that what grows warm, or full, favours neither.
            for tries in (True, False) if place % 2 else (False, True):
                if tries:
                    after.append(self._prepared(trouble).seconds)
                elif pairs >= 1:
                    before.append(self.prepare().seconds)
            found = judged(trouble, before, after)
            if place + 1 >= pairs and (found.high is None or found.high - found.gain <= NARROW):
                break
        return found

    def _prepared(self, trouble: Trouble) -> Prepared:
        try:
            with spark_errors():
                return self.prepare(trouble.settings)
        except OtherRows:
            raise
        except SparksplitError as error:
            raise NotTried(f"the preparation fails with it: {error}") from error

    def _compare(self, manifest: Manifest, how: str) -> None:
        rows = rows_of(manifest)
        self._rows = self._rows or rows
        if rows != self._rows:
            different = next(name for name in rows if rows[name] != self._rows.get(name))
            raise OtherRows(
                f"{self._config.input.place}: prepared again, {how}, it has other rows: {different} {rows[different]}, "
                f"at first {self._rows.get(different)}; either the input has changed meanwhile, or this is an error of "
                "sparksplit, and nothing that was measured can be trusted"
            )


def _said(values: Mapping[str, Json]) -> str:
    return ", ".join(f"{key}: {str(value).lower()}" for key, value in values.items())


def rows_of(manifest: Manifest) -> dict[str, Any]:
    """What says which rows a data set has, whatever files they came from and lie in: by split their number and
    checksum, and the numbers of those that were left out."""
    own: dict[str, Any] = {
        name: {"rows": facts.rows, "checksum": facts.checksum} for name, facts in manifest.splits.items()
    }
    return {**own, "bad rows": sum(manifest.bad_rows.values()), "unseen labels": manifest.unseen_labels}


def judged(trouble: Trouble, before: Sequence[float], after: Sequence[float]) -> Tried:
    """What these seconds, with what would help (after) and without it, say of it."""
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


def beside(output: str, what: str) -> str:
    """A hidden folder beside `output`, where all executors can write. Always the same one: a diagnosis that was killed
    leaves it to the next one, and there is one at a time."""
    path = filesystem.followed(output).rstrip("/")
    return filesystem.join(filesystem.parent(path), f".{filesystem.name(path)}.{what}")


def free_bytes(spark: SparkSession, path: str) -> int:
    """The bytes that can still be written at `path`, by its file system's own word; quotas do not count."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(f"file://{path}" if path.startswith("/") else path)
    system = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    copies = 1 if path.startswith("/") else max(1, int(system.getDefaultReplication(place)))
    return int(system.getStatus(place).getRemaining()) // copies
