"""The examples of docs/airflow.md do what the page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from datetime import date, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from sparksplit.base.config import load
from sparksplit.inference.predict_config import PredictConfig
from sparksplit.inference.scores import ClassScores
from sparksplit.training.train_config import TrainConfig

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "airflow.md").read_text()
GATE = PAGE.partition("\n## A gate ")[2].partition("\n## ")[0]


def block(kind: str, text: str) -> str:
    """The first example of this kind in the page's text."""
    found = re.search(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function of the gate's example. `hdfs dfs -cat` reads a local file."""

    def cat(words: list[str]) -> bytes:
        assert words[:3] == ["hdfs", "dfs", "-cat"]
        return Path(words[3]).read_bytes()

    called: list[Any] = []

    def short_circuit(function: Any) -> Any:
        called.append(function)
        return lambda: None  # a task is not run when the DAG is made

    sdk: Any = ModuleType("airflow.sdk")
    sdk.DAG, sdk.Asset = lambda name, schedule: nullcontext(schedule), str
    sdk.task = SimpleNamespace(short_circuit=short_circuit)
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    monkeypatch.setattr(subprocess, "check_output", cat)
    exec(compile(block("python", GATE), "docs/airflow.md", "exec"), {})
    (function,) = called
    return function


def test_the_gate_decides_by_the_newest_predictions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good_enough = gate(monkeypatch)
    events = []
    for day, right in (("2026-01-02", 96), ("2026-01-01", 12)):
        folder = tmp_path / day
        folder.mkdir()
        (folder / "metrics.json").write_text(json.dumps({"accuracy": right / 100}))
        events.append(SimpleNamespace(extra={"path": str(folder), "date": day}))  # as SparksplitOperator has it
    assert good_enough({"predictions": events}) is True
    assert good_enough({"predictions": events[1:]}) is False
    (tmp_path / "2026-01-02" / "metrics.json").unlink()
    with pytest.raises(OSError):
        good_enough({"predictions": events})


def test_the_key_that_the_gate_needs_is_one_of_predict() -> None:
    (key, value), *others = yaml.safe_load(block("yaml", GATE)).items()
    assert not others
    sets = ["model=m", "input=d", "output=o"]
    assert load(PredictConfig, None, sets).labels != "required"
    assert load(PredictConfig, None, [*sets, f"{key}={value}"]).labels == "required"


def test_the_last_seven_days_are_seven_data_sets() -> None:
    days = yaml.safe_load(block("yaml", PAGE.partition("last seven days")[2]))["days"]["data"]
    today = date(2026, 3, 3)

    def rendered(template: re.Match[str]) -> str:
        """As Airflow's macros."""
        return str(today + timedelta(days=int(template["days"] or 0)))

    ds = r"dag_run\.run_after \| ds"
    macro = rf"{{{{ (?:{ds}|macros\.ds_add\({ds}, (?P<days>-\d+)\)) }}}}"
    words = re.sub(macro, rendered, f"data={days}")  # as dags/sparksplit_common.py gives it to --set
    wanted = [f"hdfs:///sparksplit/prepared/{today - timedelta(days=back)}" for back in range(7)]
    assert load(TrainConfig, None, [words, "output=o"]).data == wanted
    assert wanted[-1].endswith("2026-02-25")


def test_metrics_have_the_number_that_the_gate_reads() -> None:
    (name,) = re.findall(r'json\.loads\(text\)\["(\w+)"\]', GATE)
    assert name in ClassScores().summary()
