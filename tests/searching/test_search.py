"""A whole search on real nodes: trials side by side, a driver that is killed, and the next call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparksplit.base.config import load, parse
from sparksplit.base.errors import UsageError
from sparksplit.base.options import Options
from sparksplit.searching import search as search_module
from sparksplit.searching.search import search
from sparksplit.searching.search_config import SearchConfig
from sparksplit.searching.search_record import SearchRecord, Trial
from sparksplit.training.run_record import RunRecord
from sparksplit.training.train_config import TrainConfig
from tests.forked import Zygote, nodes_of


def config(data: str, output: str, **keys: Any) -> SearchConfig:
    section = {
        "keys": {"optimizer.learning_rate": {"low": 0.001, "high": 1.0, "log": True}},
        "trials": 3,
        "side_by_side": 2,
    }
    return parse(SearchConfig, {"data": data, "output": output, "epochs": 2, "search": section, **keys})


def killed_after_a_trial(data: str, output: str, folder: str) -> None:
    """Search; the driver is killed when the first trial has ended, while another trains."""
    zygote, note = Zygote(Path(folder)), search_module._Search._note

    def noted(self: search_module._Search, trial: Trial) -> None:
        note(self, trial)
        if trial.state == "complete":
            zygote.end()
            os.kill(os.getpid(), signal.SIGKILL)

    search_module._Search._note = noted  # type: ignore[method-assign]
    with nodes_of(zygote):
        search(config(data, output), Options())


@pytest.mark.slow
def test_a_killed_search_goes_on(digits: Path, tmp_path: Path, forked: None, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nodes").mkdir()
    output = tmp_path / "out"
    places = (str(digits), str(output), f"{tmp_path}/nodes")
    call = f"from {__name__} import killed_after_a_trial; killed_after_a_trial(*{places})"
    assert subprocess.run([sys.executable, "-c", call], check=False).returncode == -signal.SIGKILL
    left = SearchRecord.read(str(output))
    assert sorted(trial.state for trial in left.trials) == ["complete", "running"]

    record = search(config(str(digits), str(output)), Options())
    assert [trial.state for trial in record.trials] == ["complete"] * 3
    assert [trial.keys for trial in record.trials[:2]] == [trial.keys for trial in left.trials]
    assert record.trials[left.finished[0].number - 1] == left.finished[0]
    assert all(set(trial.epochs) == {"1", "2"} and trial.value == trial.epochs["2"] for trial in record.trials)
    assert record.best is not None and record.best.value == max(trial.value or 0 for trial in record.trials)
    # Only the best trial's run is kept. It has not looked at the test rows.
    names = [path.name for path in (output / "trials").iterdir() if not path.name.startswith(".")]
    assert names == [f"{record.best.number:04d}"]
    assert RunRecord.read(str(output / "trials" / names[0])).metrics.test == {}
    train = load(TrainConfig, str(output / "best.yaml"))
    assert train.optimizer.learning_rate == record.best.keys["optimizer.learning_rate"]
    assert json.loads((output / "search.json").read_text())["best"] == record.best.number

    assert search(config(str(digits), str(output)), Options()) == record
    assert "is up to date" in capfd.readouterr().err
    with pytest.raises(UsageError, match=r"with another configuration \(epochs was 2, is 3\); --overwrite replaces it"):
        search(config(str(digits), str(output), epochs=3), Options())
