"""diagnosis.json: the limit of a training run, the settings that would help, and the measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from hdfs_io import filesystem
from sparksplit.base.records import Json, JsonObject, Record
from sparksplit.base.version import __version__
from sparksplit.diagnosis import advice
from sparksplit.diagnosis.answer import Advice, Answer, Gain, answer
from sparksplit.diagnosis.measured import Measured
from sparksplit.diagnosis.settings import compare_command, with_settings, written
from sparksplit.diagnosis.verdict import Part, Share, gain, typical, verdict
from sparksplit.training.train_config import TrainConfig

DIAGNOSIS = "diagnosis.json"
COMMAND = "diagnose"
FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class ReadersRow:
    """The whole step with `readers` readers. gain: over the configured number of readers; None if that number was not
    measured."""

    readers: int
    rows_per_second: float
    gain: Gain | None


@dataclass(frozen=True, kw_only=True)
class ReadersTable:
    """The sweep of readers per node. now: the configured number. knee: the fewest readers that are within 10 % of the
    fastest."""

    now: int
    knee: int
    rows: list[ReadersRow]


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Record):
    """The whole of diagnosis.json.

    made: the time of the diagnosis, ISO 8601 in UTC. seconds: how long the diagnosis took. config: the run's
    configuration, with every key. config_file: the configuration's file. rows_per_second: of the step as it is
    configured, over all nodes. parts, shares: see the verdict.
    """

    WHAT: ClassVar[str] = "what diagnose writes"
    REMEDY: ClassVar[str] = "diagnose again"

    format: int
    version: str
    command: str
    made: str
    seconds: float
    config_file: str | None
    config: JsonObject
    hosts: list[str]
    versions: dict[str, str]
    answer: Answer
    rows_per_second: float
    parts: list[Part]
    shares: list[Share]
    readers: ReadersTable | None
    measured: Measured

    @classmethod
    def read(cls, folder: str) -> Self:
        """Return the diagnosis in `folder`. Raise InputError if it is missing, damaged or of another kind."""
        path = filesystem.join(folder, DIAGNOSIS)
        return cls.parse(filesystem.read_bytes(path), path)


def of(
    config: TrainConfig,
    measured: Measured,
    *,
    made: str,
    seconds: float,
    hosts: Sequence[str],
    versions: Mapping[str, str],
) -> Diagnosis:
    """Return the diagnosis from the measurements of a run with `config`."""
    judged = verdict(measured, config.epochs)
    recommended, proposed = advice.recommended(config, measured), advice.proposed(config, measured)
    tried = [_advice(config, measured, candidate) for candidate in ([] if recommended is None else [recommended])]
    changing = [_advice(config, measured, candidate) for candidate in proposed]
    worth = [each.settings for each in changing if each.helps or (each.gain is None and each.failed is None)]
    advised = [each.settings for each in (*tried, *changing)]
    return Diagnosis(
        format=FORMAT,
        version=__version__,
        command=COMMAND,
        made=made,
        seconds=round(seconds, 1),
        config_file=next(iter(config.own_file.values()), None),
        config=config.model_dump(mode="json"),
        hosts=list(hosts),
        versions=dict(versions),
        answer=answer(
            judged.limit,
            tried,
            len(measured.seconds["full"]),
            [*advice.notes(config, measured), *_failures(measured, advised)],
            changing,
            compare_command(config, worth) if worth else None,
        ),
        rows_per_second=judged.rows_per_second,
        parts=judged.parts,
        shares=judged.shares,
        readers=_readers(config, measured),
        measured=measured,
    )


def _advice(config: TrainConfig, measured: Measured, candidate: advice.Candidate) -> Advice:
    gained = _gain(config, measured, candidate)
    computed = not candidate.in_steps
    helps = gained is not None and (gained.mean > 1 if computed else gained.is_certain)
    failed = next((each.error for each in measured.failed if each.settings == candidate.settings), None)
    return Advice(
        settings=candidate.settings, why=candidate.why, gain=gained, helps=helps, failed=failed, computed=computed
    )


def _failures(measured: Measured, advised: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return a sentence for each failure, except failures of advised settings."""
    return [
        f"{written(each.settings) or 'what else there was to try'} could not be tried: {each.error}"
        for each in measured.failed
        if each.settings not in advised
    ]


def _gain(config: TrainConfig, measured: Measured, candidate: advice.Candidate) -> Gain | None:
    """Return the speed-up of a pass, including the time beside its steps; None if the settings were not tried."""
    tried = next((each for each in measured.tried if each.settings == candidate.settings), None)
    if tried is None and candidate.in_steps:
        return None
    beside = advice.besides(config, measured)
    beside_then = advice.besides(with_settings(config, candidate.settings), measured)
    if tried is None:
        step = typical(measured.seconds["full"])
        return Gain((step + beside) / (step + beside_then), None, None)
    return gain([seconds + beside for seconds in tried.before], [seconds + beside_then for seconds in tried.after])


def _readers(config: TrainConfig, measured: Measured) -> ReadersTable | None:
    if not measured.readers:
        return None
    now = next((row.seconds for row in measured.readers if row.readers == config.readers), None)
    rows = [
        ReadersRow(
            readers=row.readers,
            rows_per_second=1 / typical(row.seconds),
            gain=gain(now, row.seconds) if now is not None and len(now) == len(row.seconds) else None,
        )
        for row in sorted(measured.readers, key=lambda row: row.readers)
    ]
    return ReadersTable(now=config.readers, knee=advice.knee(measured.readers).readers, rows=rows)
