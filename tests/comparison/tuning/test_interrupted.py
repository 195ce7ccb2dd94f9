"""Ctrl-C while strategies are tuned: the driver's part whole, with nodes that are played."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace

import yaml

from sparksplit.commands.compare import COMMAND
from sparksplit.comparison import compare as compare_module
from sparksplit.comparison.compare import _Comparison
from sparksplit.training.run_record import RunMetrics
from tests.comparison.records import compared_run, curve_of


def played(monkeypatch, ends_after):
    """Nodes write the records of their runs at once; after so many of all comes Ctrl-C. Returns the runs' keys."""
    made = []

    def cluster(self, spark, work, display):
        for one in work:
            if len(made) == ends_after:
                raise KeyboardInterrupt
            rate = one.run.config.optimizer.learning_rate
            values = [0.1, 0.9 - abs(rate - 0.0316)]
            metrics = RunMetrics(validation={"accuracy": values, "loss": values}, test={"accuracy": values[-1]})
            record = compared_run(
                key=one.run.key, name=one.run.name, config_hash=one.hash, nodes=one.run.config.node_count,
                seed=one.run.config.seed, metrics=metrics, history=curve_of("accuracy", values),
                config=one.run.config.model_dump(mode="json"), untrained={"accuracy": 0.1},
            )  # fmt: skip
            self.output.fence.write_json(self._path(one), record.to_json())
            made.append(one.run.key)

    session = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app"))
    monkeypatch.setattr(compare_module, "spark_session", lambda *_: nullcontext(session))
    monkeypatch.setattr(compare_module, "render", lambda *_: "")
    monkeypatch.setattr(_Comparison, "_cluster", cluster)
    return made


def test_ctrl_c_while_tuning_ends_with_130_and_the_next_start_goes_on(digits, tmp_path, monkeypatch, capsys):
    output, file = tmp_path / "out", tmp_path / "compare.yaml"
    keys = {"strategies": ["epoch"], "nodes": [1, 2], "seeds": 1, "epochs": 2, "tune": 4, "batch_size": 64}
    keys |= {"data": str(digits), "output": str(output), "optimizer": {"name": "sgd", "learning_rate": 0.1}}
    file.write_text(yaml.safe_dump(keys))
    first = played(monkeypatch, ends_after=6)
    assert COMMAND.main(["--config", str(file)]) == 130
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "sparksplit compare: stopped by SIGINT" and not any("Traceback" in line for line in said)
    # Six tries are there, whole, and nothing that was begun.
    names = sorted(path.name for path in (output / "runs").iterdir())
    assert names == sorted(f"{key}.json" for key in first) and len(first) == 6
    assert all(key.startswith("tune-") for key in first)
    assert all(json.loads((output / "runs" / name).read_text())["key"] for name in names)
    assert not (output / "results.json").exists() and not (output / "_SUCCESS").exists()
    again = played(monkeypatch, ends_after=None)
    assert COMMAND.main(["--config", str(file)]) == 0
    assert "6 of 12 tries are there already" in capsys.readouterr().err
    assert not set(again) & set(first) and len([key for key in again if key.startswith("tune-")]) == 6
    tuning = json.loads((output / "results.json").read_text())["tuning"]
    chosen = [tuned["tries"][tuned["chosen"]]["values"]["optimizer.learning_rate"] for tuned in tuning["strategies"]]
    assert tuning["runs"] == 12 and chosen[0] == 0.0316
