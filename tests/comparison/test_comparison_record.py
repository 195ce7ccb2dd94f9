"""What a comparison's folder keeps of each run and measurement, and reads when it goes on."""

from __future__ import annotations

import json

import pytest

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.comparison.comparison_record import (
    ComparedRun,
    DivergedRun,
    Measured,
    NodeMeasured,
    Probe,
    SweepPoint,
    read_run,
)
from tests.hdfs_io.outputs import fenced
from tests.training.records import RUN_JSON

CURVE = [{"passes": 1, "updates": 8, "steps": 8, "seconds": 0.5, "train": {"loss": 1.0}}]
FINISHED = {**RUN_JSON, "key": "batch-n2-s1", "name": "batch", "seed": 1, "history": CURVE}
DIVERGED = {
    "key": "batch-n2-s1", "name": "batch", "config_hash": "c", "diverged": "epoch 1, step 2: the loss is nan",
    "nodes": 2, "virtual": False, "seed": 1,
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


def test_measurements_are_kept_once_and_go_on(tmp_path):
    measured = Measured.read(str(tmp_path))
    assert measured == Measured()
    sweep = [SweepPoint(2, 1024, 0.5)]
    assert measured.add(NodeMeasured(["K80"], Probe(10.0, 2.0)))
    assert measured.add(NodeMeasured([], sweep=sweep))
    assert not measured.add(NodeMeasured([], Probe(99.0, 2.0)))
    assert not measured.add(NodeMeasured([], sweep=[SweepPoint(2, 1024, 9.0)]))
    with fenced(tmp_path) as comparison:
        measured.write(comparison)
    assert Measured.read(str(tmp_path)) == measured
    assert json.loads((tmp_path / "measured.json").read_text()) == {
        "gpus": ["K80"],
        "probe": {"rows_per_second": 10.0, "seconds": 2.0},
        "sweeps": {"2": [{"nodes": 2, "bytes": 1024, "seconds": 0.5}]},
    }


def test_damaged_measurements_are_named_with_what_to_do(tmp_path):
    (tmp_path / "measured.json").write_text('{"gpus": 1}')
    with pytest.raises(
        InputError, match=r"measured\.json: is not what .*: gpus: .*; remove it, and it is measured again"
    ):
        Measured.read(str(tmp_path))
