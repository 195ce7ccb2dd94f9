"""What is tried: the input in other files, which are removed whatever happens, and whose rows must be the same."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import RunError
from sparksplit.diagnosis.preprocess import run, scratch, trying
from sparksplit.diagnosis.preprocess.record import Trouble
from sparksplit.diagnosis.preprocess.scratch import NotTried, rewritten
from sparksplit.diagnosis.preprocess.trying import Trials
from sparksplit.prepare.config import PreprocessConfig
from tests.diagnosis.preprocess.tables import stage

SPARK: Any = None
SKEW = Trouble(kind="skew", parts=["parse"], seconds=4.0, why="", help=["rows in 2 files"], rewrite=2)
FASTER = Trouble(kind="few", parts=["write"], seconds=4.0, why="", help=["file_size"], settings={"file_size": 4096})


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreprocessConfig:
    """Of a file that one task has to read; there is room enough."""
    monkeypatch.setattr(scratch, "free_bytes", lambda spark, path: 10**9)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * 5000))
    values = {"input": {"format": "csv", "path": str(tmp_path / "in")}, "output": str(tmp_path / "deep" / "set")}
    return PreprocessConfig.model_validate(values)


def test_the_other_files_are_there_for_as_long_as_they_are_needed(config: PreprocessConfig, tmp_path: Path) -> None:
    with rewritten(SPARK, config, 2) as (changed, written):
        folder = Path(changed.input.paths_of("path")[0])
        assert folder == tmp_path / "deep" / ".set.diagnose-input" / "input"
        assert (written.files, written.bytes) == (2, sum(file.stat().st_size for file in folder.iterdir()))
        assert changed.input.format == "csv" and changed.output == config.output
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_they_are_removed_whatever_happens(
    config: PreprocessConfig, tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error), rewritten(SPARK, config, 2):
        raise error
    assert {path.name for path in tmp_path.iterdir()} == {"in"}

    def half(*_: object) -> None:
        (tmp_path / "deep" / ".set.diagnose-input" / "input").mkdir()
        raise error

    monkeypatch.setattr(scratch, "recut", half)
    with pytest.raises(error), rewritten(SPARK, config, 2):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_what_a_killed_diagnosis_has_left_is_replaced(config: PreprocessConfig, tmp_path: Path) -> None:
    left = tmp_path / "deep" / ".set.diagnose-input" / "input" / "part-00007.csv.gz"
    left.parent.mkdir(parents=True)
    left.touch()
    with rewritten(SPARK, config, 2):
        assert not left.exists()


def test_without_room_nothing_is_written(
    config: PreprocessConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "free_bytes", lambda spark, path: 10)
    with pytest.raises(NotTried, match="has 10 bytes free, and "), rewritten(SPARK, config, 2):
        pass
    monkeypatch.setattr(scratch, "MOST_BYTES", 10)
    with pytest.raises(NotTried, match="are rewritten"), rewritten(SPARK, config, 2):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_a_disk_that_fills_up_meanwhile_is_no_end_of_the_diagnosis(
    config: PreprocessConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunError("x: cannot be written: No space left on device")

    monkeypatch.setattr(scratch, "recut", full)
    with pytest.raises(NotTried, match="No space left"), rewritten(SPARK, config, 2):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


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


def test_the_input_is_tried_in_turns_and_the_gain_has_an_interval(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(monkeypatch, lambda one: 10.0 if one.input is config.input else 6.0)
    found = Trials(SPARK, config).tried(SKEW, 10.0, 3, 6)
    assert [one.input is config.input for one in made.configs] == [True, False, False, True, True, False]
    assert (found.before, found.after, found.helps) == ([10.0] * 3, [6.0] * 3, True)
    assert found.gain == pytest.approx(0.4) and found.low == pytest.approx(0.4)
    assert found.rewritten is not None and found.rewritten.files == 2


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
        trials.tried(SKEW, 1.0, 3, 6)
    with pytest.raises(RunError, match="with its rows in other files"), rewritten(SPARK, config, 2) as (changed, _):
        trials.prepare(config=changed)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_what_has_no_room_is_not_tried_and_the_diagnosis_says_so(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    Made(monkeypatch, lambda one: 1.0 if one.file_size == 4096 else 2.0)
    monkeypatch.setattr(scratch, "free_bytes", lambda spark, path: 10)
    same = Trouble(kind="few", parts=["parse"], seconds=1.0, why="", help=[], rewrite=2)
    troubles, tried = run._tried(Trials(SPARK, config), [SKEW, FASTER, same], 2.0, 3)
    assert [(each.kind, each.settings, each.helps) for each in tried] == [("few", {"file_size": 4096}, True)]
    assert "10 bytes free" in troubles[0].not_tried and "10 bytes free" in troubles[2].not_tried
    assert troubles[1].not_tried == ""


def test_what_a_preparation_fails_with_is_not_tried_and_the_rest_is(
    config: PreprocessConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def seconds(one: PreprocessConfig) -> float:
        if one.file_size == 4096:
            raise RunError("no memory")
        return 2.0 if one.input is config.input else 1.0

    Made(monkeypatch, seconds)
    same = Trouble(kind="many", parts=["write"], seconds=1.0, why="", help=[], settings={"file_size": 4096})
    troubles, tried = run._tried(Trials(SPARK, config), [FASTER, SKEW, same], 2.0, 3)
    assert [each.not_tried for each in troubles] == [
        "the preparation fails with it: no memory",
        "",
        troubles[0].not_tried,
    ]
    assert [(each.kind, each.helps) for each in tried] == [("skew", True)]
    monkeypatch.setattr(trying, "preprocess", Made(monkeypatch, lambda one: 1 / 0).preprocess)
    with pytest.raises(ZeroDivisionError):
        Trials(SPARK, config).tried(SKEW, 1.0, 3, 6)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


def test_a_first_preparation_that_was_mostly_sparks_first_steps_is_made_again() -> None:
    manifest: Any = None

    def prepared(seconds: float, parse: float) -> trying.Prepared:
        return trying.Prepared([stage("parse", [parse] * 2, slots=2, start=seconds - parse)], 0, seconds, manifest)

    assert run.is_cold(prepared(30, 29), 2)
    assert run.is_cold(prepared(100, 55), 2)
    assert not run.is_cold(prepared(100, 65), 2)
