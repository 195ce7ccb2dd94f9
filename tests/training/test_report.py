import json

import pytest

from sparksplit.base.version import __version__
from sparksplit.training import report
from sparksplit.training.run_record import RunInit
from tests.training.records import EPOCH, epoch, run_record

HISTORY = [
    epoch(1, train={"loss": 2.0, "accuracy": 0.5}, validation={"loss": 2.5, "accuracy": 0.25}),
    epoch(2, train={"loss": 1.0, "accuracy": 0.75}, validation={"loss": 1.5, "accuracy": 0.5}),
]


def test_metrics_are_lists_by_epoch():
    assert report.metrics_by_name(HISTORY) == {
        "train": {"loss": [2.0, 1.0], "accuracy": [0.5, 0.75]},
        "validation": {"loss": [2.5, 1.5], "accuracy": [0.25, 0.5]},
    }


def test_what_is_no_finite_number_is_null_and_its_name_is_known():
    nan, inf = float("nan"), float("inf")
    found = report.finite({"loss": 1.5, "auc": nan, "mse": inf, "mae": -inf})
    assert json.loads(json.dumps(found, allow_nan=False)) == {"loss": 1.5, "auc": None, "mse": None, "mae": None}
    assert report.undefined(found) == ["auc", "mse", "mae"]
    assert report.written(found) == "loss 1.5000, auc not finite, mse not finite, mae not finite"
    assert report.metrics_by_name([epoch(1, train=found)])["train"]["auc"] == [None]


def test_a_curve_tells_updates_from_steps():
    history = [
        epoch(
            number,
            updates=number,
            steps=40 * number,
            seconds=EPOCH["seconds"] | {"train": 1.25, "total": 2.0},
            train={"loss": None},
            validation=None,
        )
        for number in (1, 2)
    ]
    assert [point.to_json() for point in report.learning_curve(history)] == [
        {"passes": 1, "updates": 1, "steps": 40, "seconds": 1.25, "train": {"loss": None}},
        {"passes": 2, "updates": 2, "steps": 80, "seconds": 2.5, "train": {"loss": None}},
    ]


def test_a_run_without_validation_or_epochs():
    assert report.metrics_by_name([epoch(1, train={"loss": 2.0}, validation=None)]) == {"train": {"loss": [2.0]}}
    assert report.metrics_by_name([]) == {}


def test_versions_name_what_a_result_depends_on():
    found = report.versions()
    assert found["sparksplit"] == __version__
    assert {"tensorflow", "keras", "numpy", "pyspark", "pyarrow"} <= set(found)


def test_the_summary_is_for_people():
    assert list(report.summary(run_record(), "runs/mlp")) == [
        "batch on 2 nodes: 2 epochs (2 passes), 40 updates, 200 rows seen, ledger exact",
        "1,234 rows/s, 5.2 s in all, 2.5 MB sent per node",
        "train      loss 1.0000, accuracy 0.7500",
        "validation loss 1.5000, accuracy 0.5000",
        "test       loss 1.2500",
        "model: runs/mlp/model.keras and runs/mlp/saved_model",
    ]


def test_the_summary_says_why_a_run_has_ended_and_whose_weights_it_has():
    best = {"metric": "auc", "value": 0.75, "epoch": 4, "update": 400, "kept": True}
    stopped = {"epoch": 7, "update": 700, "metric": "auc", "best": 0.75}
    metrics = {
        "train": {"auc": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]},
        "validation": {"auc": [0.5, None, 0.7, 0.75, 0.75, 0.1, 0.2]},
        "test": {"auc": 0.74},
    }
    ended = {"epochs": 20, "passes": 7, "stopped_early": stopped, "metrics": metrics}
    lines = list(report.summary(run_record(**ended, best=best), "o"))
    assert lines[0].startswith("batch on 2 nodes: 7 of 20 epochs (7 passes), ")
    assert lines[1:3] == [
        "stopped early after epoch 7 of 20: validation auc no longer improved",
        "best validation: auc 0.7500 after epoch 4; the model has the weights of this epoch",
    ]
    assert lines[4:7] == ["train      auc 0.4000", "validation auc 0.7500", "test       auc 0.7400"], "of the model"
    lines = list(report.summary(run_record(**ended, best={**best, "kept": False}), "o"))
    assert lines[2] == "best validation: auc 0.7500 after epoch 4; the model has the last weights"
    assert lines[4:6] == ["train      auc 0.7000", "validation auc 0.2000"]


def test_the_summary_tells_steps_from_updates_and_copes_with_null():
    lost = {"train": {"loss": [1.0, 0.5], "auc": [0.5, None]}, "test": {"loss": None}}
    lines = list(report.summary(run_record(metrics=lost, steps=312, updates=8), "o"))
    assert lines[0] == "batch on 2 nodes: 2 epochs (2 passes), 8 updates (312 steps), 200 rows seen, ledger exact"
    assert lines[2:4] == ["train      loss 0.5000, auc not finite", "test       loss not finite"]


@pytest.mark.parametrize("metrics", [{"test": {}}, {"train": {"loss": [1.0]}, "test": {}}])
def test_what_there_is_not_is_left_out(metrics):
    ledger = {"rows": 200, "checksum": "1", "exact": False}
    lines = list(report.summary(run_record(strategy="single", nodes=1, ledger=ledger, metrics=metrics), "o"))
    assert lines[0].endswith("ledger NOT exact") and lines[0].startswith("single on 1 node:")
    assert "sent per node" not in lines[1]
    assert len(lines) == 2 + len(metrics)


def test_the_layers_that_begin_with_other_weights_are_named_if_they_are_not_too_many():
    few = RunInit("runs/a/model.keras", "d", ["dense"], ["out"])
    assert (
        report.begins_with(few) == "init: begins with the weights of runs/a/model.keras: dense; with new weights: out"
    )
    many = RunInit("m.keras", "d", [f"l{number}" for number in range(30)], [])
    assert report.begins_with(many).endswith(", l19 and 10 more (run.json has all)")


def test_with_gpus_it_is_told_what_sums_outside_them_copy_and_what_to_set():
    said = report.copies("mixed", 1_724_320)
    assert said.startswith(
        "collective: mixed: up to 1,724,320 bytes are copied from each GPU to its host, and back, at"
    )
    assert "`collective: tensorflow`" in said and said.endswith("Neither has been tested on GPUs")
