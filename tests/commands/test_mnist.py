"""The shipped configurations on real MNIST: preprocess, train on two nodes, predict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparksplit.commands import predict, train

CONF = Path(__file__).parent.parent.parent / "conf"


def trained(config, prepared, output):
    arguments = ["--config", str(CONF / config), "--set", f"data={prepared}", "--set", f"output={output}"]
    assert train.COMMAND.main(arguments) == 0
    return json.loads((output / "run.json").read_text())


@pytest.mark.slow
def test_the_mlp_learns_what_its_seeds_do_within_ten_epochs_and_predict_agrees(fed, mnist, tmp_path):
    run = trained("train-mlp.yaml", mnist, tmp_path / "mlp")
    assert (run["nodes"], run["epochs"], run["batch_size"], run["strategy"]) == (2, 10, 64, "batch")
    assert run["ledger"]["exact"] is True
    # This seed ends at 97.5 %; ten seeds at 97.4 %, give or take 0.23.
    assert run["metrics"]["test"]["accuracy"] >= 0.972
    arguments = ["--config", str(CONF / "predict.yaml"), "--set", f"model={tmp_path / 'mlp'}"]
    arguments += ["--set", f"input={mnist}", "--set", f"output={tmp_path / 'predictions'}"]
    assert predict.COMMAND.main(arguments) == 0
    metrics = json.loads((tmp_path / "predictions" / "metrics.json").read_text())
    assert metrics["rows"] == 10_000
    assert metrics["accuracy"] == pytest.approx(run["metrics"]["test"]["accuracy"], abs=1e-6)


@pytest.mark.slow
def test_the_cnn_learns_what_its_seeds_do_in_one_epoch(fed, mnist, tmp_path):
    run = trained("train-cnn.yaml", mnist, tmp_path / "cnn")
    assert (run["nodes"], run["epochs"], run["batch_size"], run["strategy"]) == (2, 1, 64, "batch")
    assert run["ledger"]["exact"] is True
    assert run["metrics"]["test"]["accuracy"] >= 0.97  # seeds end at 98 %, give or take 0.44
