"""What run.json and metrics.jsonl hold, as a training run of two nodes has left them; their keys are their users'."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from sparksplit.training.progress_record import EpochRecord
from sparksplit.training.run_record import RunRecord
from sparksplit.training.spent import ROUNDS

RUN_JSON: dict[str, Any] = {
    "run_id": "962fb9a00bb6be14-1795335896",
    "config_hash": "962fb9a00bb6be14",
    "command": "train",
    "data": {"path": "/data/mnist", "digest": "b75b66c56332c7b8"},
    "config": {"data": "/data/mnist", "model": {"build": "mlp", "params": {}}, "loss": None, "nodes": 2},
    "strategy": "batch",
    "sync": {"every": "step", "outer": None, "after": 0},
    "nodes": 2,
    "virtual": False,
    "input_mode": "tensorflow",
    "rows": 100,
    "batch_size": 5,
    "epochs": 2,
    "passes": 2,
    "updates": 40,
    "steps": 40,
    "syncs": 40,
    "sync_bytes_per_node": 2_500_000,
    "ledger": {"rows": 200, "checksum": "7684640584524871101", "exact": True},
    "seconds": {
        "start": 0.5,
        "handoff": 0.0,
        "feed": 0.25,
        "warmup": 1.5,
        "train": 1.0,
        "copy": 0.0,
        "compute": 0.5,
        "sync": 0.5,
        "waiting": 0.25,
        "validation": 0.5,
        "metrics": 0.0,
        "checkpoint": 0.125,
        "records": 0.0,
        "test": 0.25,
        "export": 0.5,
        "lost": 0.0,
        "end": 0.5,
        "other": 0.125,
        "total": 5.25,
    },
    "rows_per_second": 1234.5,
    "metrics": {
        "train": {"loss": [2.0, 1.0], "accuracy": [0.5, 0.75]},
        "validation": {"loss": [2.5, 1.5], "accuracy": [0.25, 0.5]},
        "test": {"loss": 1.25},
    },
    "resumed": [{"update": 20, "nodes_before": 1, "nodes": 2}],
    "weights": "b93842fbdbb04926",
    "hosts": ["host1", "host2"],
    "versions": {"sparksplit": "0.2.0", "tensorflow": "2.21.0"},
    "restarts": 0,
    "application_id": "app-20261122082412-0000",
    "attempts": [
        {
            "how": "start",
            "begun": "2026-11-22T08:24:12Z",
            "nodes": 1,
            "update": 0,
            "ended": "2026-11-22T08:24:14Z",
            "seconds": 2.0,
            "cause": {"what": "node 0 on host1: was ended by SIGTERM", "rank": 0, "host": "host1"},
        },
        {"how": "resume", "begun": "2026-11-22T08:30:00Z", "nodes": 2, "update": 20, "ended": "2026-11-22T08:30:01Z"},
    ],
    "threads": 1,
    "collective": {"name": "ring"},
}


EPOCH: dict[str, Any] = {
    "epoch": 1,
    "updates": 8,
    "steps": 8,
    "train": {"loss": 2.0, "auc": None},
    "validation": {"loss": 1.0},
    "rows": 40,
    "rows_per_second": 80.5,
    "seconds": {
        "train": 0.5,
        "feed": 0.0,
        "warmup": 0.0,
        "copy": 0.0,
        "compute": 0.25,
        "sync": 0.25,
        "waiting": 0.0,
        "validation": 0.125,
        "metrics": 0.0,
        "checkpoint": 0.0,
        "records": 0.0,
        "other": 0.125,
        "total": 0.75,
    },
}
"""A line of metrics.jsonl."""


TOP = (
    *("start", "handoff", "feed", "warmup", "train", "validation", "metrics", "checkpoint", "records", "test"),
    *("export", "lost", "end", "other"),
)
"""The seconds of run.json that add up to the total; the others are parts of them."""


def check_seconds(result: dict[str, Any], history: Sequence[EpochRecord] = ()) -> None:
    """That the seconds of run.json and of metrics.jsonl add up, are those of the same run, and leave little over."""
    run = result["seconds"]
    assert sum(run[name] for name in TOP) == pytest.approx(run["total"], abs=1e-6) and min(run.values()) >= 0
    assert run["copy"] + run["compute"] + run["sync"] == pytest.approx(run["train"], abs=1e-6)
    assert run["other"] < 0.2 * run["total"] and run["train"] > 0
    for line in history:
        found = vars(line.seconds)
        assert sum(found[name] for name in ROUNDS) == pytest.approx(found["total"], abs=1e-6)
        assert min(found.values()) >= 0
    assert sum(line.seconds.total for line in history) < run["total"]


def epoch(number: int, **values: Any) -> EpochRecord:
    """The record of round `number`; `values` in their keys' places."""
    return EpochRecord.from_json({**EPOCH, "epoch": number, **values}, "a test")


def run_json(**values: Any) -> dict[str, Any]:
    """The content of run.json; `values` in their keys' places."""
    return {**copy.deepcopy(RUN_JSON), **values}


def run_record(**values: Any) -> RunRecord:
    """As `run_json`."""
    return RunRecord.from_json(run_json(**values), "a test")


def keys_of(content: dict[str, Any]) -> list[Any]:
    """The keys of run.json in their order, with those of the parts whose keys do not depend on the run."""
    parts = ("data", "sync", "ledger", "seconds", "metrics")
    return [list(content), *(list(content[part]) for part in parts)]
