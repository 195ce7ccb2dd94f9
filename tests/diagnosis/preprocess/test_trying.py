"""What is tried: settings, in turns with the configuration as it is; the rows must be the same each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import RunError
from sparksplit.diagnosis.preprocess import run, trying
from sparksplit.diagnosis.preprocess.record import Trouble
from sparksplit.diagnosis.preprocess.trying import Trials
from sparksplit.prepare.config import PreprocessConfig
from tests.diagnosis.preprocess.tables import stage

SPARK: Any = None
FASTER = Trouble(kind="few", parts=["write"], seconds=4.0, why="", help=["file_size"], settings={"file_size": 4096})


@pytest.fixture
def config(tmp_path: Path) -> PreprocessConfig:
    (tmp_path / "in").mkdir()
    values = {"input": {"format": "csv", "path": str(tmp_path / "in")}, "output": str(tmp_path / "deep" / "set")}
    return PreprocessConfig.model_validate(values)


class Made:
    """Preparations that take as long as they are told to, and whose rows are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Callable[[PreprocessConfig], float]) -> None:
        self.now, self.rows, self.configs = 0.0, 10, list[PreprocessConfig]()
        self._seconds = seconds
        metrics = SimpleNamespace(next_stage=lambda: 0, stages=lambda first: [])
        monkeypatch.setattr(trying, "Metrics", lambda spark: metrics)
        monkeypatch.setattr(trying, "preprocess", self.preprocess)
        monkeypatch.setattr(trying, "time", SimpleNamespace(time=lambda: self.now))

    def preprocess(self, config: PreprocessConfig, options: object) -> Any:
        self.now += self._seconds(config)
        self.configs.append(config)
        split = SimpleNamespace(rows=self.rows, checksum=7)
        return SimpleNamespace(manifest=SimpleNamespace(splits={"train": split}, bad_rows={}, unseen_labels={}))


def test_settings_are_tried_in_turns_and_the_gain_has_an_interval(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(monkeypatch, lambda one: 6.0 if one.file_size == 4096 else 10.0)
    found = Trials(SPARK, config).tried(FASTER, 10.0, 3, 6)
    assert [one.file_size == 4096 for one in made.configs] == [False, True, True, False, False, True]
    assert (found.before, found.after, found.helps) == ([10.0] * 3, [6.0] * 3, True)
    assert found.gain == pytest.approx(0.4) and found.low == pytest.approx(0.4)


def test_where_the_interval_is_wide_there_are_more_pairs(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(monkeypatch, lambda one: 10.0 + len(made.configs) % 3 * 4.0)
    found = Trials(SPARK, config).tried(FASTER, 10.0, 3, 5)
    assert len(found.before) == 5 and not found.helps
    assert {one.file_size for one in made.configs} == {4096, config.file_size}
    found = Trials(SPARK, config).tried(FASTER, 100.0, 0, 0)
    assert (found.before, len(found.after), found.low) == ([100.0], 1, None)


def test_other_rows_are_an_error(config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Made(monkeypatch, lambda one: 1.0)
    trials = Trials(SPARK, config)
    trials.prepare()
    made.rows = 11
    with pytest.raises(RunError, match=r"prepared again, as it was, it has other rows: train {'rows': 11, .* at first"):
        trials.tried(FASTER, 1.0, 3, 6)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_what_a_preparation_fails_with_is_not_tried_and_the_rest_is(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def seconds(one: PreprocessConfig) -> float:
        if one.file_size == 4096:
            raise RunError("no memory")
        return 1.0 if one.file_size == 8192 else 2.0

    Made(monkeypatch, seconds)
    same = Trouble(kind="many", parts=["write"], seconds=1.0, why="", help=[], settings={"file_size": 4096})
    other = Trouble(kind="few", parts=["parse"], seconds=1.0, why="", help=[], settings={"file_size": 8192})
    advice = Trouble(kind="slow", parts=["parse"], seconds=1.0, why="", help=["its host"])
    troubles, tried = run._tried(Trials(SPARK, config), [FASTER, other, same, advice], 2.0, 3)
    failed = "the preparation fails with it: no memory"
    assert [each.not_tried for each in troubles] == [failed, "", failed, ""]
    assert [(each.settings, each.helps) for each in tried] == [({"file_size": 8192}, True)]
    monkeypatch.setattr(trying, "preprocess", Made(monkeypatch, lambda one: 1 / 0).preprocess)
    with pytest.raises(ZeroDivisionError):
        Trials(SPARK, config).tried(FASTER, 1.0, 3, 6)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_a_first_preparation_that_was_mostly_sparks_first_steps_is_made_again() -> None:
    manifest: Any = None

    def prepared(seconds: float, parse: float) -> trying.Prepared:
        return trying.Prepared([stage("parse", [parse] * 2, slots=2, start=seconds - parse)], 0, seconds, manifest)

    assert run.is_cold(prepared(30, 29), 2)
    assert run.is_cold(prepared(100, 55), 2)
    assert not run.is_cold(prepared(100, 65), 2)
