"""What a search does when a trial fails. Trials are played, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import RunError, UsageError
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.searching import search as module
from sparksplit.searching.search import search
from sparksplit.searching.search_config import SearchConfig
from sparksplit.searching.search_record import SearchRecord
from sparksplit.training.in_session import InSession


def config(data: Path, folder: Path, trials: int = 5, **keys: Any) -> SearchConfig:
    section = {"keys": {"batch_size": [1, 2, 3, 4, 5]}, "trials": trials, "side_by_side": 1}
    return parse(SearchConfig, {"data": str(data), "output": f"{folder}/out", "search": section, **keys})


def played(monkeypatch: pytest.MonkeyPatch, refused: set[int]) -> list[int]:
    """Play trials; those with a batch size in `refused` fail as on a node that refuses it. Returns the batch sizes."""
    begun: list[int] = []

    def train(config: Any, options: Options, callbacks: Any, within: InSession) -> int:
        begun.append(config.batch_size)
        if config.batch_size in refused:
            raise UsageError(f"model.params: not with {config.batch_size}")
        return begun[-1]

    @contextmanager
    def session(*_: Any, **keys: Any) -> Iterator[Any]:
        yield SimpleNamespace(sparkContext=SimpleNamespace(applicationId="a"))

    monkeypatch.setattr(module, "train", train)
    monkeypatch.setattr(module, "spark_session", session)
    monkeypatch.setattr(
        module._Search, "_measured", lambda self, trial, size: replace(trial, state="complete", value=float(size))
    )
    return begun


def states(folder: Path) -> list[str]:
    return [trial.state for trial in SearchRecord.read(f"{folder}/out").trials]


def test_a_search_goes_on_after_values_that_a_node_refuses(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    played(monkeypatch, {2, 4})
    record = search(config(digits, tmp_path), Options())
    assert sorted(states(tmp_path)) == ["complete"] * 3 + ["failed"] * 2
    assert {trial.error for trial in record.trials if trial.state == "failed"} == {
        "model.params: not with 2",
        "model.params: not with 4",
    }
    assert record.best is not None and record.best.value == 5
    assert "failed: model.params: not with 4" in capfd.readouterr().err


def test_a_search_ends_if_nodes_refuse_the_first_trials_and_the_next_call_tries_them_again(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = played(monkeypatch, {1, 2, 3, 4, 5})
    with pytest.raises(UsageError, match=r"^trial 3 \(batch_size = \d\): model.params: not with \d$"):
        search(config(digits, tmp_path), Options())
    assert states(tmp_path) == ["running"] * 3
    again = played(monkeypatch, set())
    assert search(config(digits, tmp_path), Options()).best is not None
    assert again[:3] == begun and sorted(again) == [1, 2, 3, 4, 5]


def test_a_file_that_changes_between_two_trials_ends_the_search(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.py"
    file.write_text("def build(data):\n    return None\n")
    begun = played(monkeypatch, set())
    finish = module._Search._finish

    def finished(self: module._Search, ended: Any) -> None:
        finish(self, ended)
        file.write_text("def build(data):\n    return 1\n")

    monkeypatch.setattr(module._Search, "_finish", finished)
    with pytest.raises(UsageError, match=r"have changed since the search began \(model.build's file has changed\)"):
        search(config(digits, tmp_path, model={"build": f"{file}:build"}), Options())
    assert len(begun) == 1 and states(tmp_path) == ["complete", "running"]


def test_trials_that_all_fail_are_one_line(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, set())
    monkeypatch.setattr(module._Search, "_measured", lambda self, trial, size: replace(trial, state="complete"))
    with pytest.raises(RunError, match=r"^none of the 2 trials has a value of accuracy; search other values"):
        search(config(digits, tmp_path, trials=2), Options())


def test_a_trial_counts_the_executors_of_the_others() -> None:
    one = module._Search(None, None, None, SearchRecord(metric="loss", higher=False, wanted=3))  # type: ignore[arg-type]
    one.used.update({1: 2, 2: 3, 3: 4})
    assert one._beside(2) == 6


def test_the_lines_of_a_trial_and_its_mlflow_run_name_it(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    played(monkeypatch, set())
    names = []

    def train(config: Any, options: Options, callbacks: Any, within: InSession) -> int:
        say("restart 1 of 3")
        names.append(within.run_name)
        return int(config.batch_size)

    monkeypatch.setattr(module, "train", train)
    search(config(digits, tmp_path, trials=2), Options())
    assert names == ["out trial 1", "out trial 2"]
    lines = capfd.readouterr().err
    assert "trial 2: restart 1 of 3" in lines and "trial 1: trial" not in lines


def test_a_run_that_sleeps_ends_soon() -> None:
    calls: list[None] = []

    def check() -> None:
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        InSession(check=check).sleep(100)
