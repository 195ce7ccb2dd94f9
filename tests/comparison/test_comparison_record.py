"""What a comparison's folder keeps of each run and measurement, and reads when it goes on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.comparison_record import (
    ComparedRun,
    DivergedRun,
    Measured,
    NodeMeasured,
    Place,
    Probe,
    SweepPoint,
    read_run,
)
from sparksplit.comparison.plan import plan
from sparksplit.comparison.results import results
from sparksplit.dataset.joined import open_joined
from sparksplit.training.run_record import RunMetrics
from tests.comparison.records import compared_run, curve_of
from tests.hdfs_io.outputs import fenced
from tests.training.records import RUN_JSON

CURVE = [{"passes": 1, "updates": 8, "steps": 8, "seconds": 0.5, "train": {"loss": 1.0}}]
FINISHED = {**RUN_JSON, "key": "batch-n2-s1", "name": "batch", "seed": 1, "history": CURVE}
DIVERGED = {
    "key": "batch-n2-s1", "name": "batch", "config_hash": "c", "diverged": "epoch 1, step 2: the loss is nan",
    "nodes": 2, "virtual": False, "seed": 1, "config": {"nodes": 2},
}  # fmt: skip


@pytest.mark.parametrize(("content", "kind"), [(FINISHED, ComparedRun), (DIVERGED, DivergedRun)])
def test_a_run_is_read_as_it_was_written(tmp_path, content, kind):
    path = str(tmp_path / "run.json")
    filesystem.write_json(path, content)
    found = read_run(path, content["config_hash"])
    assert type(found) is kind and found.to_json() == content
    assert read_run(path, "another") is None


def test_a_run_of_an_earlier_version_is_passed_over_whatever_it_holds(tmp_path):
    path = str(tmp_path / "run.json")
    filesystem.write_json(path, {"config_hash": "old", "split": "batch"})
    assert read_run(path, "new") is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        json.dumps(FINISHED)[:900],
        json.dumps({**FINISHED, "seed": None}),
        json.dumps({**DIVERGED, "nodes": "2"}),
    ],
)
def test_a_damaged_record_is_named_with_what_to_do(tmp_path, content):
    path = tmp_path / "batch-n2-s1.json"
    path.write_text(content)
    expected = rf"^{path}: is not the record of a run of compare: .*; remove it, and the run is made again$"
    with pytest.raises(InputError, match=expected):
        read_run(str(path), json.loads(content)["config_hash"] if content.endswith("}") and len(content) > 2 else "c")


HERE, THERE = Place("yarn with hdfs://a", ("EPYC", "Xeon"), 1), Place("yarn with hdfs://b", ("Ryzen",), 1)


def test_measurements_are_kept_once_and_go_on(tmp_path):
    measured = Measured.read(str(tmp_path))
    assert measured == Measured()
    sweep = [SweepPoint(2, 1024, 0.5)]
    one = NodeMeasured(HERE, 1, ["K80"], Probe(10.0, 2.0))
    assert measured.add(one)
    assert measured.add(NodeMeasured(HERE, 2, [], sweep=sweep))
    # A node repeats what it has measured, and has nothing to add where it was measured before.
    assert not measured.add(NodeMeasured(HERE, 1, ["K80"], Probe(10.0, 2.0)))
    assert not measured.add(NodeMeasured(HERE, 2, []))
    with fenced(tmp_path) as comparison:
        measured.write(comparison)
    assert Measured.read(str(tmp_path)) == measured
    place = {"cluster": "yarn with hdfs://a", "hosts": ["EPYC", "Xeon"], "threads": 1, "input_mode": "tensorflow"}
    assert json.loads((tmp_path / "measured.json").read_text())["clusters"] == [
        {
            "place": {**place, "versions": []},
            "nodes": 1,
            "gpus": ["K80"],
            "probe": {"rows_per_second": 10.0, "seconds": 2.0},
        },
        {
            "place": {**place, "versions": []},
            "nodes": 2,
            "gpus": [],
            "sweep": [{"nodes": 2, "bytes": 1024, "seconds": 0.5}],
        },
    ]


def test_measurements_of_another_cluster_are_left_out():
    there, here, again = ([SweepPoint(2, 1024, seconds)] for seconds in (9.0, 0.5, 0.4))
    measured = Measured(
        [NodeMeasured(THERE, 1, ["K80"], Probe(1.0, 2.0)), NodeMeasured(THERE, 2, ["K80"], sweep=there)]
    )
    assert measured.sums(HERE) == measured.at(HERE) == []
    of_one = NodeMeasured(replace(HERE, hosts=("Xeon",)), 1, [], Probe(10.0, 2.0))
    assert measured.add(of_one) and measured.add(NodeMeasured(HERE, 2, [], sweep=here))
    assert measured.at(HERE)[0] == of_one and measured.sums(HERE) == here
    assert measured.sums(THERE) == there and len(measured.at(None)) == 4
    # On other hosts of the same cluster: the latest counts.
    assert measured.add(NodeMeasured(replace(HERE, hosts=("EPYC",)), 2, [], sweep=again))
    assert measured.sums(HERE) == again


def test_measurements_from_before_places_were_kept_are_made_again(tmp_path):
    (tmp_path / "measured.json").write_text('{"gpus": ["K80"], "probe": null, "sweeps": {"2": []}}')
    assert Measured.read(str(tmp_path)) == Measured()


def test_a_comparison_that_goes_on_elsewhere_is_explained_by_the_sums_of_its_own_place(digits):
    """Was: the new cluster's runs with the network and the GPUs of the old one."""
    config = CompareConfig(data=str(digits), output="o", strategies=["batch"], nodes=[1, 2], seeds=3, epochs=2)
    runs = [run for run in plan(config) if not run.reference]
    values = [0.5, 0.9]
    metrics = RunMetrics(validation={"accuracy": values, "loss": values}, test={"accuracy": 0.9})
    records = [
        compared_run(
            key=run.key, name=run.name, nodes=run.config.node_count, seed=run.config.seed, metrics=metrics,
            history=curve_of("accuracy", values), place=THERE if run.config.seed == 1 else HERE,
        )
        for run in runs
    ]  # fmt: skip
    slow, fast = ([SweepPoint(2, size, seconds) for size in (1024, 1 << 20)] for seconds in (9.0, 0.5))
    measured = Measured([NodeMeasured(THERE, 2, ["K80"], sweep=slow), NodeMeasured(HERE, 2, ["L4"], sweep=fast)])
    made = "2026-11-21T22:00:00+00:00"
    found = results(config, runs, open_joined(str(digits)), records, [], measured, made, "c", 3)
    assert found.place == HERE and found.machine.gpus == ["L4"]
    assert found.cost_model is not None and found.cost_model.sweep == fast


def test_damaged_measurements_are_named_with_what_to_do(tmp_path):
    (tmp_path / "measured.json").write_text('{"clusters": 1}')
    with pytest.raises(
        InputError, match=r"measured\.json: is not what .*: clusters: .*; remove it, and it is measured again"
    ):
        Measured.read(str(tmp_path))
