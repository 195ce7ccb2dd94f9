"""What reaches MLflow of a comparison, in a store in a folder. Nodes are played, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import mlflow
import pytest

from sparksplit.base.config import parse
from sparksplit.base.options import Options
from sparksplit.comparison import tracker as module
from sparksplit.comparison.compare import _Comparison, compare
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.comparison_record import DivergedRun
from sparksplit.comparison.tracker import ComparisonTracker, metrics, tags_of_run
from sparksplit.training.tracking import facts
from tests.comparison.comparisons import compared
from tests.comparison.records import compared_run, curve_of, metric_of, some_results
from tests.comparison.tuning.test_interrupted import played
from tests.training.tracking.conftest import quiet, store
from tests.training.tracking.server import serving
from tests.training.tracking.test_server import port
from tests.training.tracking.test_tracker import settled

__all__ = ["port", "quiet", "store"]


@pytest.fixture
def config(digits, tmp_path):
    """A comparison of two tries, a run of each of two strategies, and a reference."""
    keys = {"data": str(digits), "output": str(tmp_path / "out"), "strategies": ["batch"], "nodes": [1, 2], "seeds": 1}
    return parse(CompareConfig, {**keys, "epochs": 2, "tune": 2, "optimizer": {"name": "sgd", "learning_rate": 0.1}})


def tracked(config):
    """`config` with the key."""
    return config.model_copy(update={"mlflow": True})


def family():
    """(the comparison's MLflow run, its children by name)"""
    (parent,) = (run for run in mlflow.search_runs(output_format="list") if "sparksplit.answer" in run.data.tags)
    return parent, children(parent)


def children(parent):
    where = f"tags.mlflow.parentRunId = '{parent.info.run_id}'"
    return {run.info.run_name: run for run in mlflow.search_runs(filter_string=where, output_format="list")}


def values(run, metric):
    """The steps at which MLflow has a value, as often as it has one."""
    return [each.step for each in mlflow.MlflowClient().get_metric_history(run.info.run_id, metric)]


def test_a_killed_comparison_goes_on_in_the_same_runs_and_sends_nothing_twice(config, store, tmp_path, monkeypatch):
    first = played(monkeypatch, ends_after=3)
    with pytest.raises(KeyboardInterrupt):
        compare(tracked(config), Options())
    (before,) = (run for run in mlflow.search_runs(output_format="list") if "mlflow.parentRunId" not in run.data.tags)
    assert before.info.status == "KILLED" and set(first[:2]) <= set(children(before)) <= set(first)
    again = played(monkeypatch, ends_after=None)
    compare(tracked(config), Options())
    parent, runs = family()
    assert parent.info.run_id == before.info.run_id and (parent.info.run_name, parent.info.status) == (
        "out",
        "FINISHED",
    )
    assert set(runs) == {*first, *again} and len(runs) == 5
    assert len(mlflow.search_runs(output_format="list")) == 6
    for run in runs.values():
        assert run.info.status == "FINISHED" and run.data.params["optimizer.name"] == "sgd"
        assert values(run, "validation_accuracy") == [1, 2]
    roles = sorted(run.data.tags["sparksplit.role"] for run in runs.values())
    assert roles == ["compared"] * 2 + ["reference"] + ["try"] * 2
    assert {runs[key].data.tags["sparksplit.nodes"] for key in ("single-n1-s1", "batch-n2-s1")} == {"1", "2"}
    files = {file.path for file in mlflow.artifacts.list_artifacts(f"runs:/{parent.info.run_id}/")}
    assert files == {"results.json", "report.html"}
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert parent.data.tags["sparksplit.answer.decision"] == results["answer"]["decision"] == "undecided"
    assert parent.data.tags["sparksplit.answer"].startswith("No winner yet")
    assert (parent.data.params["seeds"], parent.data.params["strategies"]) == ("1", '["batch"]')

    compare(tracked(config), Options())  # is up to date
    later, same = family()
    ends = {run.info.run_id: run.info.end_time for run in (parent, *runs.values())}
    assert {run.info.run_id: run.info.end_time for run in (later, *same.values())} == ends


def test_a_server_that_is_away_costs_two_lines_and_the_same_command_sends_everything(
    config, store, monkeypatch, capsys
):
    made = played(monkeypatch, ends_after=None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    results = compare(tracked(config), Options())
    told = [line for line in capsys.readouterr().err.splitlines() if "MLflow:" in line]
    assert len(told) == 2
    assert "compare goes on" in told[0] and "the same compare command sends what is missing" in told[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    assert compare(tracked(config), Options()) == results
    assert set(family()[1]) == set(made) and len(made) == 5


def test_a_finished_comparison_that_was_not_tracked_can_be_sent_later(config, store, monkeypatch):
    made = played(monkeypatch, ends_after=None)
    compare(config, Options())
    assert mlflow.search_runs(output_format="list") == []
    for _ in range(2):
        compare(tracked(config), Options())
    assert set(family()[1]) == set(made)


def test_a_run_of_which_a_part_was_sent_is_continued(store, monkeypatch, capsys):
    record = compared_run(key="a", history=curve_of("accuracy", [0.5, 0.75, 0.875]))
    one = ComparisonTracker("out", None)
    one._identity = "h@t"
    with monkeypatch.context() as patch:
        patch.setattr(module.facts, "at_end", lambda _: 1 / 0)  # as if the server went away then
        one._sender.send(lambda: one._send_run(record, "compared"))
        settled(one)
    other = ComparisonTracker("out", None)
    other._identity = "h@t"
    for _ in range(2):
        other._sender.send(lambda: other._send_run(record, "compared"))
    settled(other)
    runs = mlflow.search_runs(output_format="list")
    (run,) = (run for run in runs if run.info.run_name == "a")
    assert len(runs) == 2 and run.info.status == "FINISHED"
    assert values(run, "validation_accuracy") == [1, 2, 3] and values(run, "test_loss") == [3]
    assert "division by zero; compare goes on" in capsys.readouterr().err


def test_an_active_run_is_the_parent_of_the_comparison_and_goes_on(config, store, monkeypatch):
    played(monkeypatch, ends_after=None)
    with mlflow.start_run() as mine:
        compare(config, Options())
        assert mlflow.active_run().info.run_id == mine.info.run_id
        parent, runs = family()
        assert parent.data.tags["mlflow.parentRunId"] == mine.info.run_id and len(runs) == 5
    assert mlflow.get_run(mine.info.run_id).data.params == {}


def test_a_diverged_run_has_failed_and_shows_its_keys(store, tmp_path):
    keys = {"optimizer": {"learning_rate": 9.0}}
    record = DivergedRun(
        key="k", name="batch", config_hash="c", diverged="the loss is nan", nodes=2, virtual=False, seed=1, config=keys
    )
    for name in ("results.json", "report.html"):
        (tmp_path / name).touch()
    results = some_results([], [], metric_of(), diverged=[record])
    one = ComparisonTracker("out", None)
    one.finished(str(tmp_path), results, [])
    (run,) = (run for run in mlflow.search_runs(output_format="list") if run.info.run_name == "k")
    assert (run.info.status, run.data.params) == ("FAILED", {"optimizer.learning_rate": "9.0"})
    assert run.data.tags["sparksplit.error"] == "the loss is nan"


def test_a_finished_run_that_counts_as_diverged_has_failed_in_the_end(store, tmp_path):
    record = compared_run(key="k", history=curve_of("accuracy", [0.5]))
    for name in ("results.json", "report.html"):
        (tmp_path / name).touch()
    one = ComparisonTracker("out", None)
    results = some_results([], [], metric_of(), diverged=[replace(record, diverged="its accuracy is not finite")])
    one._identity = facts.identity(results.config_hash, results.created)
    one._sender.send(lambda: one._send_run(record, "compared"))  # it has finished, and nothing has judged it yet
    one.finished(str(tmp_path), results, [])
    (run,) = (run for run in mlflow.search_runs(output_format="list") if run.info.run_name == "k")
    assert run.info.status == "FAILED" and run.data.tags["sparksplit.error"] == "its accuracy is not finite"


def test_a_curve_has_the_names_of_train_and_no_value_that_is_not_finite():
    assert metrics(curve_of("accuracy", [0.5, None])) == {1: {"validation_accuracy": 0.5}, 2: {}}


def test_the_tags_of_a_run_say_what_it_is():
    tags = tags_of_run(compared_run(seed=3), "reference")
    found = [tags[f"sparksplit.{name}"] for name in ("name", "seed", "role", "strategy")]
    assert found == ["single", "3", "reference", "batch"]


def test_a_run_is_looked_for_as_soon_as_node_0_has_begun_the_next(tmp_path):
    looks = []
    tracker = SimpleNamespace(look=lambda folder, work: looks.append(folder))
    output = SimpleNamespace(folder=str(tmp_path))
    comparison = _Comparison(None, None, output, [], tracker=tracker)
    display = SimpleNamespace(current=0)
    display.state = lambda rank, state: setattr(display, "current", state.get("run", 0))
    for state in ({"run": 0}, {"run": 0, "update": 3}, {"run": 1}, {"run": 1}):
        comparison._heard(0, state, display)
    assert looks == [str(tmp_path)]


@pytest.mark.slow
def test_a_comparison_on_nodes_is_in_mlflow(forked, digits, tmp_path, store):
    results = compared(digits, tmp_path / "out", strategies=["single"], nodes=[1], seeds=1, mlflow=True)
    parent, runs = family()
    assert parent.data.tags["sparksplit.answer.decision"] == results["answer"]["decision"]
    assert len(results["runs"]) == len(results["references"]) == 1 and len(runs) == 2
    for record in (*results["runs"], *results["references"]):
        run = runs[record["key"]]
        assert run.data.params["seed"] == str(record["seed"]) == run.data.tags["sparksplit.seed"]
        history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train_loss")
        assert [(each.step, each.value) for each in history] == [
            (point["passes"], point["train"]["loss"]) for point in record["history"]
        ]
        assert run.data.metrics["test_accuracy"] == record["metrics"]["test"]["accuracy"]


@pytest.mark.outside
@pytest.mark.timeout(1500)
def test_a_real_server_that_starts_late_gets_the_comparison_from_the_same_command(
    port, config, tmp_path, monkeypatch, capsys
):
    made = played(monkeypatch, ends_after=None)
    compare(tracked(config), Options())
    assert "the same compare command sends what is missing" in capsys.readouterr().err
    with serving(tmp_path / "server", port):
        for _ in range(2):
            compare(tracked(config), Options())
        assert "the same compare command" not in capsys.readouterr().err
        parent, runs = family()
        assert parent.info.status == "FINISHED" and set(runs) == set(made)
        assert all(values(run, "validation_accuracy") == [1, 2] for run in runs.values())
        files = {file.path for file in mlflow.artifacts.list_artifacts(f"runs:/{parent.info.run_id}/")}
        assert files == {"results.json", "report.html"}
