"""What is tried: settings, in turns with the configuration as it is; the rows must be the same each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import RunError
from sparksplit.diagnosis.preprocess import diagnose_preprocess as diagnose_preprocess_module
from sparksplit.diagnosis.preprocess.diagnose_preprocess import Prepared, Trials, is_cold
from sparksplit.diagnosis.preprocess.preprocess_record import Trouble
from sparksplit.diagnosis.preprocess.stages import Stage
from sparksplit.prepare.preprocess_config import PreprocessConfig

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
        monkeypatch.setattr(diagnose_preprocess_module, "Metrics", lambda spark: metrics)
        monkeypatch.setattr(diagnose_preprocess_module, "preprocess", self.preprocess)
        monkeypatch.setattr(diagnose_preprocess_module, "time", SimpleNamespace(time=lambda: self.now))

    def preprocess(self, config: PreprocessConfig, options: object) -> Any:
        self.now += self._seconds(config)
        self.configs.append(config)
        split = SimpleNamespace(rows=self.rows, checksum=7, weights_checksum=None)
        return SimpleNamespace(manifest=SimpleNamespace(splits={"train": split}, bad_rows={}, unseen_labels={}))


@pytest.fixture
def first() -> Prepared:
    """A preparation of ten seconds."""
    split = SimpleNamespace(rows=10, checksum=7, weights_checksum=None)
    manifest: Any = SimpleNamespace(splits={"train": split}, bad_rows={}, unseen_labels={})
    return Prepared([], 0.0, 10.0, manifest)


def test_settings_are_tried_in_turns_and_the_gain_has_an_interval(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch, first: Prepared
) -> None:
    made = Made(monkeypatch, lambda one: 6.0 if one.file_size == 4096 else 12.0)
    tried = Trials(SPARK, config).tried(FASTER, first, 3)
    assert [one.file_size == 4096 for one in made.configs] == [False, True, True, False, False, True]
    assert tried.gain is not None
    assert (tried.settings, tried.helps, tried.failed) == ({"file_size": 4096}, True, None)
    assert tried.gain.mean == pytest.approx(2.0) and tried.gain.low == pytest.approx(2.0)
    # Noise that is larger than the gain.
    Made(monkeypatch, lambda one: 10.0 + len(made.configs) % 3 * 4.0)
    assert not Trials(SPARK, config).tried(FASTER, first, 3).helps


@pytest.mark.parametrize(("seconds", "helps"), [(9.0, True), (9.5, False), (11.0, False)])
def test_without_time_for_pairs_a_tenth_counts_as_help(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch, first: Prepared, seconds: float, helps: bool
) -> None:
    made = Made(monkeypatch, lambda one: seconds)
    tried = Trials(SPARK, config).tried(FASTER, first, 0)
    assert tried.gain is not None
    assert (len(made.configs), tried.gain.low, tried.helps) == (1, None, helps)
    assert tried.gain.mean == pytest.approx(10 / seconds)


def test_other_rows_are_an_error(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: Prepared
) -> None:
    Made(monkeypatch, lambda one: 1.0).rows = 11
    with pytest.raises(RunError, match=r"prepared again, it has other rows: {'train': {'rows': 11, .* at first"):
        Trials(SPARK, config).tried(FASTER, first, 3)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_a_setting_with_which_the_preparation_fails_is_reported(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: Prepared
) -> None:
    def seconds(one: PreprocessConfig) -> float:
        if one.file_size == 4096:
            raise RunError("no memory")
        return 1.0

    Made(monkeypatch, seconds)
    tried = Trials(SPARK, config).tried(FASTER, first, 3)
    assert (tried.gain, tried.helps, tried.failed) == (None, False, "the preparation fails with it: no memory")
    # Without the settings, the failure is an error. So is an error of sparksplit.
    failing = replace(FASTER, settings={"lanes": 8})
    with pytest.raises(RunError, match="no memory"):
        Trials(SPARK, config.model_copy(update={"file_size": 4096})).tried(failing, first, 3)
    Made(monkeypatch, lambda one: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Trials(SPARK, config).tried(FASTER, first, 3)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


@pytest.mark.parametrize(
    ("ended", "write", "cold"),
    [(50.0, 45.0, True), (94.0, 30.0, True), (94.0, 85.0, False)],
    ids=["short", "long without a task", "warm"],
)
def test_a_first_preparation_that_is_short_or_mostly_without_a_task_is_cold(
    first: Prepared, ended: float, write: float, cold: bool
) -> None:
    assert is_cold(replace(first, ended=ended, stages=[Stage("write", 0.0, write)]), 2) == cold
