"""`quickstart` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sparksplit.base.config import load
from sparksplit.base.shipped import shipped
from sparksplit.commands import quickstart
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.plan import plan


def test_the_paths_between_the_commands_are_filled_in(tmp_path: Path) -> None:
    config = load(quickstart.QuickstartConfig, shipped("conf/quickstart.yaml"), [f"output={tmp_path}/o"])
    assert config.preprocess.input.path.endswith("datasets/data/digits.csv.gz")
    assert config.preprocess.output == config.train.data == config.predict.input == f"{tmp_path}/o/prepared"
    assert config.train.output == config.predict.model == f"{tmp_path}/o/run"
    assert config.predict.output == f"{tmp_path}/o/predictions"
    assert (config.train.nodes, config.train.strategy, config.preprocess.test) == (2, "batch", 0.2)


def test_a_path_that_the_user_sets_stays() -> None:
    config = load(quickstart.QuickstartConfig, shipped("conf/quickstart.yaml"), ["train.output=elsewhere"])
    assert (config.train.output, config.train.data) == ("elsewhere", "quickstart-output/prepared")


def test_the_answer_names_keys_as_quickstart_takes_them() -> None:
    config = load(quickstart.QuickstartConfig, shipped("conf/quickstart.yaml"), [])
    key = f"{config.compare.within}seeds"
    more = load(quickstart.QuickstartConfig, shipped("conf/quickstart.yaml"), [f"{key}=5"])
    assert (key, config.compare.seeds, more.compare.seeds) == ("compare.seeds", 1, 5)
    assert load(CompareConfig, shipped("conf/compare-mlp.yaml"), ["data=d", "output=o"]).within == ""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--set", "train.epocs=3"], "--set train.epocs=3: train.epocs: unknown key; did you mean 'epochs'?"),
        (["--set", "tran.epochs=3"], "--set tran.epochs=3: tran: unknown key; did you mean 'train'?"),
        (["--set", "train=3"], "--set train=3: train: must be a mapping of keys to values (is 3)"),
        (["--set", "output=3"], "--set output=3: output: must be text (is 3)"),
        (["--set", "train.nodes=0"], "--set train.nodes=0: train.nodes: must be above 0 (is 0)"),
        (
            ["--set", "compare.strategies=[{split: batch}]"],
            "--set compare.strategies=[{split: batch}]: compare.strategies.0: must name its "
            "strategy: one of single, batch, epoch, epoch-delayed, local",
        ),
        (["--config", "typo.yaml"], "typo.yaml:3: preprocess.input.labl: unknown key; did you mean 'label'?"),
        (["--config", "gone.yaml"], "gone.yaml: cannot be read: No such file or directory"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("typo.yaml").write_text("preprocess:\n  input:\n    labl: 3\ntrain: {}\npredict: {}\n")
    assert quickstart.main(arguments) == 2
    assert capsys.readouterr() == ("", f"sparksplit quickstart: {line}\n")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["typo.yaml"]


def test_the_comparison_that_is_shipped_can_be_planned() -> None:
    """It is a part of a larger file, in which it has a place itself."""
    config = load(quickstart.QuickstartConfig, shipped("conf/quickstart.yaml"))
    assert () in config.compare.origin.places
    assert {run.name for run in plan(config.compare)} >= {"single", "batch", "epoch"}


@pytest.mark.slow
def test_two_nodes_learn_the_digits_and_once_is_enough(
    fed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert quickstart.main([]) == 0
    printed = capsys.readouterr()
    assert "1 of 4, preprocess" in printed.err and "4 of 4, compare" in printed.err

    output = tmp_path / "quickstart-output"
    run = json.loads((output / "run" / "run.json").read_text())
    manifest = json.loads((output / "prepared" / "manifest.json").read_text())
    assert (run["nodes"], run["strategy"], run["ledger"]["exact"]) == (2, "batch", True)
    rows = {name: split["rows"] for name, split in manifest["splits"].items()}
    assert sum(rows.values()) == 1797 and 0.17 < rows["test"] / 1797 < 0.23
    metrics = json.loads((output / "predictions" / "metrics.json").read_text())
    assert metrics["rows"] == rows["test"] and metrics["accuracy"] >= 0.95
    assert f"test accuracy  {metrics['accuracy']:.2%}" in printed.out
    results = json.loads((output / "comparison" / "results.json").read_text())
    strategies = {"batch", "epoch", "epoch-delayed", "local, H = 32, nesterov"}
    controls = {"single, batch_size = 16", "single, batch_size = 64, learning_rate = 0.2"}
    assert {row["name"] for row in results["table"]} == {"single", *controls, *strategies} and not results["virtual"]
    assert all(found["ledger"]["exact"] for found in results["runs"])
    assert pq.read_table(output / "predictions" / "predictions").num_rows == rows["test"]
    # What it says to be there is there.
    for line in printed.out.splitlines():
        for word in line.replace(",", " ").split():
            if word.startswith("quickstart-output/"):
                assert Path(word).exists(), word

    before = {file: file.stat().st_mtime_ns for file in output.rglob("*")}
    assert quickstart.main([]) == 0
    assert f"test accuracy  {metrics['accuracy']:.2%}" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in output.rglob("*")} == before

    assert quickstart.main(["--set", "train.epochs=3"]) == 2
    assert "quickstart-output/run: exists, made with another configuration (epochs was " in capsys.readouterr().err
    assert {file: file.stat().st_mtime_ns for file in output.rglob("*")} == before


def test_the_digits_are_real() -> None:
    rows = np.loadtxt(quickstart.digits(), delimiter=",")
    assert rows.shape == (1797, 65) and rows[:, :64].max() == 16 and sorted(set(rows[:, 64])) == list(range(10))
