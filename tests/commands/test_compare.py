"""What `compare` prints, from results made up, and what it refuses before Spark starts."""

import numpy as np
from rich.console import Console

from sparksplit.base.shipped import shipped
from sparksplit.commands.compare import main, table_of
from sparksplit.comparison.content import Results
from sparksplit.dataset.arrays import from_arrays
from tests.comparison import sample


def printed(results):
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table_of(Results.from_json(results, "a test")))
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_a_mean_over_some_runs_says_over_how_many():
    results = sample.results(seeds=3)
    single, batch, epoch = results["table"][:3]
    single["to_target"] = {"seconds": 14.0, "passes": 2.0, "reached": 1, "of": 3}
    batch["to_target"] = {"seconds": 9.0, "passes": 2.0, "reached": 3, "of": 3}
    epoch.update(runs=1, diverged=2, to_target={"seconds": None, "passes": None, "reached": 0, "of": 3})
    results["table"][3]["to_target"] = {"seconds": None, "passes": None, "reached": 1, "of": 3}
    above, head, *lines = printed(results)
    assert (above, head) == ("test", "strategy N runs passes syncs MB/node time efficiency accuracy to target")
    assert lines[0].startswith("single 1 3 12 ") and lines[0].endswith(" 14.0 s (1 of 3)")
    assert lines[1].endswith(" 9.00 s")
    assert lines[3].endswith(" not reached (1 of 3)")
    assert lines[2].startswith("epoch 2 1 of 3 12 ") and lines[2].endswith(" not reached")


def test_a_strategy_of_which_every_run_diverged_has_a_line_too():
    results = sample.results(seeds=3)
    nothing = dict.fromkeys(("passes", "syncs", "bytes_per_node", "seconds", "efficiency", "to_target"))
    results["table"] = [
        {**results["table"][1], **nothing, "runs": 0, "diverged": 3, "metric": dict.fromkeys(("mean", "low", "high"))}
    ]
    assert printed(results)[2] == "batch 2 0 of 3 – – – – – –"


def test_a_long_name_cuts_no_number():
    results = sample.results(seeds=3)
    results["table"] = [{**results["table"][1], "name": "batch, " + "x " * 100, "runs": 1, "diverged": 2}]
    text = " ".join(printed(results))
    assert "1 of 3" in text and "60 %" in text and "MB/node" in text and "…" not in text


def test_without_test_rows_it_says_whose_metric_it_is():
    results = sample.results(seeds=3)
    results["metric"]["split"] = "validation"
    assert printed(results)[0] == "validation"


def test_a_model_that_does_not_take_a_mixed_table_is_refused_before_spark_starts(tmp_path, monkeypatch, capsys):
    """As in README's command with another file than compare-table.yaml; the message names the model."""

    def started(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("sparksplit.comparison.compare.spark_session", started)
    columns = {"age": np.arange(60, dtype="f4"), "pair": np.zeros((60, 2), "f4")}
    rows = (columns, np.arange(60) % 2)
    from_arrays(f"{tmp_path}/data", {"train": rows, "test": rows}, lanes=4)
    keys = [f"--set=data={tmp_path}/data", f"--set=output={tmp_path}/out"]
    assert main(["--config", shipped("conf/compare-mlp.yaml"), *keys]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"sparksplit compare: {shipped('conf/compare-mlp.yaml')}:")
    assert line.partition(": model.build: ")[2] == (
        "mlp needs one tensor of numbers, but the data set has age [], pair [2]; use model.build: tabular"
    )
    assert not (tmp_path / "out").exists()
