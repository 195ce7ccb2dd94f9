"""Whole comparisons: on forked nodes, and in a process of their own on a local cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from hdfs_io.publish import Output
from sparksplit.base.errors import ConfigError, NodeFailed, UsageError
from sparksplit.base.options import Options
from tests.comparison.comparisons import SETTINGS, compared
from tests.comparison.report.pages import visible
from tests.forked import nodes_of
from tests.training.records import check_seconds
from tests.training.runs import run


@pytest.fixture(scope="module")
def done(zygote, digits, tmp_path_factory):
    """A finished comparison: (its folder, what it found)."""
    output = tmp_path_factory.mktemp("compare") / "out"
    with nodes_of(zygote):
        return output, compared(digits, output, virtual=[4], epochs=4)


@pytest.mark.slow
def test_every_strategy_runs_on_every_number_of_nodes_and_seed(done, digits):
    output, results = done
    assert json.loads((output / "results.json").read_text()) == results
    assert len(results["runs"]) == 2 * 8 and len(results["virtual"]) == 3
    for record in (*results["runs"], *results["virtual"]):
        assert record["ledger"]["exact"] and record["passes"] == 4 and record["ledger"]["rows"] == 4 * 1300
        check_seconds(record)
        assert record["steps"] == record["history"][-1]["steps"] >= record["updates"]
    assert [(row["name"], row["nodes"], row["virtual"], row["runs"]) for row in results["table"]] == [
        ("single", 1, False, 2),
        ("local, H = 8, nesterov", 1, False, 2),
        ("single, batch_size = 128, learning_rate = 0.2", 1, False, 2),
        ("single, batch_size = 32", 1, False, 2),
        *((strategy, 2, False, 2) for strategy in ("batch", "epoch", "epoch-delayed", "local, H = 8, nesterov")),
        *((strategy, 4, True, 1) for strategy in ("epoch", "epoch-delayed", "local, H = 8, nesterov")),
    ]
    references = results["references"]
    assert [(run["seed"], run["passes"], len(run["untrained"])) for run in references] == [
        (1_000_001, 4, 2), (1_000_002, 4, 2)
    ]  # fmt: skip
    found = results["metric"]["range"]
    assert found["untrained"] < 0.4 < found["trained"] and results["target"]["by"] == found["by"]
    assert results["metric"]["margin"] == pytest.approx(0.003 * (found["trained"] - found["untrained"]))
    told = {(run["name"], run["nodes"], run["seed"]): run["jackknife"] for run in results["runs"] + results["virtual"]}
    lanes = {len(told[strategy][name]) for strategy in told for name in ("loss", "accuracy")}
    assert (
        len(told) == 19
        and len(lanes) == 1
        and 60 < min(lanes) <= 96
        and all("jackknife" not in run for run in references)
    )
    # What rows tell is the same on every number of nodes.
    assert told["batch", 2, 1]["loss"] == pytest.approx(told["single", 1, 1]["loss"], rel=1e-2, abs=1e-5)
    assert all(pair["error"] >= pair["rows_error"] for pair in results["pairs"] if pair["low"] is not None)
    assert any(pair["rows_error"] > 0 for pair in results["pairs"] if pair["low"] is not None)
    places = [run["place"] for run in (*results["runs"], *references)]
    assert places == [results["place"]] * len(places) and results["grid"] == [2, 4]
    page = (output / "report.html").read_text()
    assert all(part in page for part in ("epoch-delayed", "local, H = 8, nesterov", results["config_hash"]))
    assert results["answer"]["decision"] != "nothing to compare"
    settings = {(row["name"], row["nodes"]): row["settings"] for row in results["table"]}
    assert settings["batch", 2] == {"strategy": "batch", "nodes": 2}
    assert settings["local, H = 8, nesterov", 2] == {
        "strategy": "local", "nodes": 2, "sync.every": 8, "sync.outer": "nesterov"
    }  # fmt: skip
    local = next(row for row in results["table"] if row["name"].startswith("local") and row["nodes"] == 2)
    assert local["controls"] == [row["name"] for row in results["table"][1:4]]
    # Every sum's seconds at every size, on the only number of nodes above one.
    assert [point["bytes"] for point in results["cost_model"]["sweep"]] == [1 << power for power in range(10, 27)]
    assert {check["name"] for check in results["cost_model"]["checks"]} == {row["name"] for row in results["table"][:8]}


@pytest.mark.slow
def test_a_run_of_a_comparison_is_what_train_does(done, forked, digits, tmp_path):
    """Also after others in the same process."""
    _, results = done
    record = [found for found in results["runs"] if found["strategy"] == "epoch-delayed"][1]
    alone = run(
        digits, tmp_path / "run", strategy=record["strategy"], nodes=2, seed=record["seed"], **{**SETTINGS, "epochs": 4}
    )
    assert (alone["weights"], alone["metrics"]) == (record["weights"], record["metrics"])


@pytest.mark.slow
def test_the_same_call_again_does_nothing(done, digits, capsys):
    output, results = done
    assert compared(digits, output, virtual=[4], epochs=4) == results
    assert "is up to date" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"made with another configuration \(epochs was 4, is 8\); --over"):
        compared(digits, output, virtual=[4], epochs=8)


def test_a_finished_comparison_stays_until_the_next_is_complete(digits, tmp_path, monkeypatch):
    before = Output(str(tmp_path / "out"), "another", "compare")
    with before.claimed():
        before.begin()
        before.complete()

    there = []

    def killed(comparison, search):
        there.append((tmp_path / ".out.next" / "runs").exists())
        (tmp_path / ".out.next" / "runs").mkdir(exist_ok=True)
        assert comparison._path(comparison.work[0]) == f"{tmp_path}/.out.next/runs/single-n1-s1.json"
        assert comparison._payload(comparison.work[0], {}).run == f"{tmp_path}/.out.next"
        raise KeyboardInterrupt

    monkeypatch.setattr("sparksplit.comparison.compare._fill", killed)
    for epochs in (2, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            compared(digits, tmp_path / "out", Options(overwrite=True), epochs=epochs)
    assert there == [False, True, False], "the same command goes on, and another begins anew"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_CONFIG", "_SUCCESS"]
    with pytest.raises(UsageError, match="is a comparison, not a run of train"):
        run(digits, tmp_path / "out", Options(overwrite=True))
    with pytest.raises(UsageError, match="lies within what the command reads"):
        compared(digits, digits / "comparison")


@pytest.fixture
def small(digits, tmp_path, monkeypatch):
    """Comparisons without Spark, of the keys that are given, each of which adds a record: (the records that it began
    with, by name; the seeds of those before)."""

    def comparison(kill=False, overwrite=False, **keys):
        def filled(comparison, search):
            runs = Path(comparison.output.folder, "runs")
            there = {path.name: path.read_text() for path in runs.iterdir()} if runs.exists() else {}
            comparison.output.fence.write_bytes(f"{runs}/{len(there)}.json", f"{keys}".encode())
            if kill:
                raise KeyboardInterrupt
            comparison.output.complete()
            return SimpleNamespace(to_json=lambda: (there, list(comparison.earlier)))

        monkeypatch.setattr("sparksplit.comparison.compare._fill", filled)
        read = SimpleNamespace(read=lambda path: SimpleNamespace(finished_with=[7]))
        monkeypatch.setattr("sparksplit.comparison.compare.Results", read)
        with pytest.raises(KeyboardInterrupt) if kill else nullcontext():
            return compared(digits, tmp_path / "out", Options(overwrite=overwrite), **keys)

    return comparison


def test_more_seeds_begin_with_a_copy_and_the_finished_comparison_stays_until_they_are_there(small, tmp_path):
    assert small(seeds=1) == ({}, [])
    small(kill=True, seeds=1, max_seeds=4)
    assert [path.name for path in (tmp_path / "out" / "runs").iterdir()] == ["0.json"]
    # More still go on from what was run since; and a record that the user removed is not copied again.
    (tmp_path / ".out.next" / "runs" / "0.json").unlink()
    small(kill=True, seeds=1, max_seeds=8)
    assert small(seeds=1, max_seeds=8) == ({"1.json": "{'seeds': 1, 'max_seeds': 8}"}, [7])
    with pytest.raises(UsageError, match=r"\(epochs was 2, is 8; seeds was 1, is 3; max_seeds was 8, is null\)"):
        small(seeds=3, epochs=8)
    with pytest.raises(UsageError, match=r"another configuration \(max_seeds was 8, is 4\)"):
        small(seeds=1, max_seeds=4)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"readers": 4}, "readers was 1, is 4"),
        ({"cache_mb": 0}, "cache_mb was 512, is 0"),
        ({"tls": True}, "tls was false, is true"),
        ({"input_mode": "spark"}, "input_mode was tensorflow, is spark"),
        ({"strategies": [{"strategy": "batch", "collective": "shared"}]}, "strategies has changed"),
        ({"seeds": 2, "readers": 4}, "seeds was 1, is 2; readers was 1, is 4"),
    ],
)
def test_times_with_other_keys_are_not_there_already(small, changed, said):
    """Was: "is up to date", and seeds with other readers were averaged with the first."""
    given = {"seeds": 1, "strategies": [{"strategy": "batch", "collective": "ring"}]}
    small(**given)
    with pytest.raises(UsageError, match="made with another configuration") as caught:
        small(**{**given, **changed})
    assert set(said.split("; ")) == set(str(caught.value).partition("(")[2].partition(")")[0].split("; "))


def test_a_finished_comparison_from_before_timed_keys_were_kept_takes_more_seeds(small, tmp_path):
    small(seeds=1)
    mark = tmp_path / "out" / "_CONFIG"
    content = json.loads(mark.read_text())
    for key in ("readers", "cache_mb", "bind", "tls"):
        del content["keys"][key]
    mark.write_text(json.dumps(content))
    assert small(seeds=2) == ({"0.json": "{'seeds': 1}"}, [7])


def test_with_overwrite_nothing_of_a_finished_comparison_is_taken_over(small):
    small(seeds=1)
    small(kill=True, seeds=2)
    assert small(overwrite=True, seeds=2) == ({}, [])


def test_an_unfinished_comparison_of_other_keys_is_not_thrown_away_for_more_seeds(small, tmp_path):
    small(seeds=1)
    small(kill=True, overwrite=True, seeds=1, epochs=8)
    with pytest.raises(UsageError, match=r"\.out\.next: is to replace .*, and is unfinished, with .* finish"):
        small(seeds=2)
    assert (tmp_path / ".out.next" / "runs" / "0.json").exists()


def test_what_another_command_has_finished_meanwhile_is_not_replaced_by_more_seeds(small, tmp_path, monkeypatch):
    """It was killed before its rename, which the next command does."""
    small(seeds=1)

    publish = Output._publish

    def killed(output, folder, place, look):
        if Path(folder, "_SUCCESS").exists():
            raise OSError("killed")
        publish(output, folder, place, look)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        patched.setattr(Output, "_publish", killed)
        small(overwrite=True, seeds=1, epochs=8)
    with pytest.raises(UsageError, match=r"\.out\.next: is to replace"):
        small(seeds=2)


def test_a_finished_comparison_of_another_format_is_not_extended(small, monkeypatch):
    small(seeds=1)
    monkeypatch.setattr("sparksplit.comparison.content.FORMAT_VERSION", 0)
    with pytest.raises(UsageError, match="another configuration"):
        small(seeds=2)


@pytest.mark.slow
def test_more_seeds_go_on_from_a_finished_comparison(forked, digits, tmp_path, capsys):
    """Only the further seeds run; the rest stays as it was measured."""
    keys = {"strategies": ["single", "batch"], "nodes": [1, 2], "epochs": 1}
    first = compared(digits, tmp_path / "out", seeds=1, **keys)
    capsys.readouterr()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out" / "runs").iterdir()}
    results = compared(digits, tmp_path / "out", seeds=2, **keys)
    assert f"{len(before)} of {len(before) + 3} runs are there already" in capsys.readouterr().err
    after = {path.name: path.read_bytes() for path in (tmp_path / "out" / "runs").iterdir()}
    assert {name: after[name] for name in before} == before and len(after) == len(before) + 3
    assert [run for run in results["runs"] if run["seed"] == 1] == first["runs"]
    with pytest.raises(UsageError, match=r"made with another configuration \(seeds was 2, is 1\); --over"):
        compared(digits, tmp_path / "out", seeds=1, **keys)


@pytest.mark.slow
def test_rows_that_spark_hands_over_give_the_bits_of_those_that_nodes_read(fed, digits, tmp_path):
    """Once for each number of nodes; whoever goes on gets what is left to run, and its rows."""
    keys = {"strategies": ["batch", "epoch-delayed"], "nodes": [2], "virtual": [4], "epochs": 4, "seeds": 1}
    read = compared(digits, tmp_path / "read", **keys)
    keys["input_mode"] = "spark"
    output = tmp_path / "out"
    results = compared(digits, output, **keys)
    same = {run["key"]: (run["weights"], run["metrics"]) for run in (*read["runs"], *read["virtual"])}
    found = {run["key"]: run for run in (*results["runs"], *results["virtual"])}
    assert {run["nodes"] for run in found.values()} == {2, 4}
    for key, record in found.items():
        assert (record["weights"], record["metrics"]) == same[key]
        assert record["ledger"]["exact"] and record["ledger"]["rows"] == 4 * 1300
        assert record["place"]["input_mode"] == record["input_mode"] == "spark"
        check_seconds(record)
    one, two = (found[key]["handoff"] for key in ("epoch-delayed-n4-virtual-s1", "epoch-delayed-n2-s1"))
    assert (one["rows"], two["rows"]) == ([1300], [1300, 1300]) and one["seconds"] > 0 < two["seconds"]
    assert two["first"] and not one["first"]  # virtual nodes come last
    assert two == found["batch-n2-s1"]["handoff"] and (one["runs"], two["runs"]) == (1, 2)
    page = (output / "report.html").read_text()
    assert "rows handed over by Spark" in page and page.count('title="seconds until Spark had handed over') == 2
    (output / "_SUCCESS").unlink()
    (output / "runs" / "batch-n2-s1.json").unlink()
    again = {run["key"]: run for run in compared(digits, output, **keys)["runs"]}
    left = again["batch-n2-s1"].pop("handoff")
    assert left["runs"] == 1 and left["first"] and sum(left["rows"]) == 1300 and min(left["rows"]) > 0
    assert again["batch-n2-s1"]["weights"] == same["batch-n2-s1"][0]
    assert again["epoch-delayed-n2-s1"] == found["epoch-delayed-n2-s1"]


@pytest.mark.slow
def test_a_loss_that_is_no_number_counts_as_diverged_and_the_others_go_on(forked, digits, tmp_path, capsys):
    wild = {"strategy": "batch", "optimizer": {"name": "sgd", "learning_rate": 1e9}}
    results = compared(digits, tmp_path / "out", strategies=["single", wild], seeds=1)
    assert [(record["nodes"], record["seed"]) for record in results["diverged"]] == [(1, 1), (2, 1)]
    assert [record["strategy"] for record in results["runs"]] == ["single"] and len(results["references"]) == 1
    assert "counts as diverged" in capsys.readouterr().err
    assert "the loss is" in results["diverged"][0]["diverged"]
    wild_rows = [row for row in results["table"] if row["diverged"]]
    assert [(row["nodes"], row["runs"], row["metric"]["mean"]) for row in wild_rows] == [(1, 0, None), (2, 0, None)]
    lost = [note for note in results["answer"]["notes"] if note["kind"] == "diverged"]
    assert [(note["nodes"], note["number"], note["of"]) for note in lost] == [(1, 1, 1), (2, 1, 1)]


@pytest.mark.slow
def test_a_failing_run_keeps_those_that_have_finished(forked, digits, tmp_path):
    """Here the last run's transform fails; the mended comparison does not repeat the others."""
    mine = tmp_path / "mine.py"
    broken = {"strategy": "epoch", "transform": f"{mine}:broken"}
    mine.write_text("def broken(tensors, label, seeds):\n    raise KeyError('out')\n")
    with pytest.raises(NodeFailed, match="KeyError: 'out'"):
        compared(digits, tmp_path / "out", strategies=["batch", broken], seeds=1, nodes=[2])
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    assert list(kept) == ["batch-n2-s1.json"]
    assert not (tmp_path / "out" / "report.html").exists()
    results = compared(digits, tmp_path / "out", strategies=["batch", "epoch"], seeds=1, nodes=[2])
    assert {name: (tmp_path / "out" / "runs" / name).stat().st_mtime_ns for name in kept} == kept
    assert [record["strategy"] for record in results["runs"]] == ["batch", "epoch"]


@pytest.mark.slow
def test_interrupted_half_way_it_goes_on_where_it_was(zygote, digits, tmp_path):
    """Ctrl-C in a process of its own, on a local cluster; forked nodes do the rest. A comparison whose driver is killed
    is tested on YARN (hadoop/test_yarn.py)."""
    output = tmp_path / "out"
    keys = {"strategies": ["batch", "epoch-delayed"], "nodes": [2], "seeds": 1, "epochs": 8}
    program = f"""
import sys
from tests.comparison.comparisons import compared
try:
    compared({str(digits)!r}, {str(output)!r}, **{keys!r})
except KeyboardInterrupt:
    sys.exit(130)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, start_new_session=True)
    give_up = time.monotonic() + 240
    try:
        while not list((output / "runs").glob("*.json")):
            assert time.monotonic() < give_up and process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    kept = {path.name: path.stat().st_mtime_ns for path in (output / "runs").glob("*.json")}
    assert 1 <= len(kept) < 3 and not (output / "results.json").exists()
    with nodes_of(zygote):
        results = compared(digits, output, **keys)
    assert {name: (output / "runs" / name).stat().st_mtime_ns for name in kept} == kept
    assert len(results["runs"]) == 2


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            {"metrics": ["Mean"], "metric": "Mean"},
            "metric_better: must be lower or higher: whether a higher Mean is better cannot be told",
        ),
        (
            {"metric": "accuracy", "strategies": ["single", {"strategy": "batch", "metrics": ["auc"]}]},
            "metric: is accuracy, which single, metrics = ['auc'] does not measure: add it to its `metrics`",
        ),
        (
            {"metric": "loss", "strategies": ["single", {"strategy": "batch", "loss": "poisson"}]},
            "metric: is loss, and single, loss = poisson has another loss than single: compare by one of the metrics",
        ),
        ({"metric": "acuracy"}, "metric: must be one of loss, accuracy (is 'acuracy')"),
        ({"nodes": [1, 97]}, "nodes: 97 nodes are more than the data set's 96 lanes; prepare it with more"),
        (
            {"model": {"build": "mlp", "params": {"unit": 3}}},
            "model.params.unit: mlp has no such argument; it has hidden,",
        ),
        ({"virtual": [128]}, "virtual: 128 nodes are more than the data set's 96 lanes"),
    ],
)
def test_what_the_data_set_tells_is_known_before_anything_runs(digits, tmp_path, keys, problem):
    with pytest.raises(ConfigError, match=re.escape(problem)):
        compared(digits, tmp_path / "out", **keys)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_two_nodes_are_tuned_by_the_accuracy_of_their_tries(forked, digits, tmp_path):
    keys = {"strategies": ["epoch-delayed"], "nodes": [1, 2], "seeds": 1, "epochs": 2}
    results = compared(digits, tmp_path / "out", **keys, tune=2)
    tuning = results["tuning"]
    assert [(tuned["name"], tuned["nodes"]) for tuned in tuning["strategies"]] == [("single", 1), ("epoch-delayed", 2)]
    given = results["config"]["optimizer"]["learning_rate"]
    chosen = {}
    for tuned in tuning["strategies"]:
        rates = [one["values"]["optimizer.learning_rate"] for one in tuned["tries"]]
        assert rates == [given, pytest.approx(given / 10**0.5, rel=0.01)] and tuned["edges"]
        accuracies = [one["metric"] for one in tuned["tries"]]
        assert accuracies[tuned["chosen"]] == max(accuracies) > 0.2
        chosen[tuned["name"]] = rates[tuned["chosen"]]
    for record in (*results["runs"], *results["references"]):
        assert record["config"]["optimizer"]["learning_rate"] == chosen[record["name"]]
    rates = {row["name"]: row["settings"].get("optimizer.learning_rate", given) for row in results["table"]}
    assert rates == {name: chosen[name] for name in rates}


@pytest.mark.slow
def test_each_strategy_is_tuned_before_it_is_compared_and_tries_are_not_repeated(forked, digits, tmp_path, capsys):
    """Also on virtual nodes. The first of two rates is 1e14: a try that diverges is shown, and never chosen."""
    rate = "optimizer.learning_rate"
    tune = {"tries": 2, "keys": {rate: [1e-16, 1e44]}}
    given = {"name": "sgd", "learning_rate": 0.2}
    keys = {"strategies": ["epoch"], "nodes": [1], "virtual": [2], "seeds": 1, "epochs": 2, "optimizer": given}
    output = tmp_path / "out"
    results = compared(digits, output, **keys, tune=tune)
    tuning = results["tuning"]
    assert [(tuned["name"], tuned["nodes"], tuned["virtual"]) for tuned in tuning["strategies"]] == [
        ("single", 1, False), ("epoch", 2, True)
    ]  # fmt: skip
    for tuned in tuning["strategies"]:
        wild, tame = tuned["tries"]
        assert (wild["values"][rate], tame["values"][rate]) == (1e14, 0.1)
        assert wild["metric"] is None and tame["metric"] > 0.2 and tuned["chosen"] == 1 and tuned["edges"]
    assert (tuning["seeds"], tuning["runs"], tuning["passes"], tuning["diverged"]) == ([2_000_001], 4, 4, 2)
    records = [*results["runs"], *results["virtual"], *results["references"]]
    assert len(records) == 3 and {record["config"]["optimizer"]["learning_rate"] for record in records} == {0.1}
    assert results["diverged"] == [] and all(record["ledger"]["exact"] for record in records)
    tries = {path: json.loads(path.read_text()) for path in (output / "runs").glob("tune-*.json")}
    assert len(tries) == 4 and {one["seed"] for one in tries.values()} == {2_000_001}
    # Nobody has looked at the test rows for these.
    measured = [one["metrics"] for one in tries.values() if "metrics" in one]
    assert len(measured) == 2 and all(found["test"] == {} and found["validation"] for found in measured)
    assert "untuned" not in {note["kind"] for note in results["answer"]["notes"]}
    assert {row["settings"][rate] for row in results["table"]} == {0.1}
    words = visible((output / "report.html").read_text())
    shown = words[words.index("Every try.") :]
    assert "single 1 1.00e+14 diverged" in shown and "epoch (virtual) 2 1.00e+14 diverged" in shown
    # It says neither that several nodes help nor that they do not.
    assert results["answer"]["decision"] == "nothing to compare"
    assert results["answer"]["notes"][0] == {"kind": "no other"}
    assert "7 runs will take about" in capsys.readouterr().err  # with those that tune
    done = {path: path.stat().st_mtime_ns for path in tries}
    (output / "_SUCCESS").unlink()
    (output / "runs" / "single-n1-s1.json").unlink()
    again = compared(digits, output, **keys, tune=tune)
    assert {path: path.stat().st_mtime_ns for path in done} == done and again["tuning"] == tuning
    assert again["runs"][0]["weights"] == results["runs"][0]["weights"]
    with pytest.raises(UsageError, match="exists, made with another configuration"):
        compared(digits, output, **keys, tune=0)
