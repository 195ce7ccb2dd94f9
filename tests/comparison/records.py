"""Parts of results.json, and the records that it is made of, for tests of the arithmetic on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from sparksplit.comparison.answer.content import NO_ANSWER
from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.content import FORMAT_VERSION, DataFacts, Epochs, Machine, Metric, Results, Target
from sparksplit.comparison.content_table import Interval, Pair, Row
from sparksplit.training.progress_record import CurvePoint
from sparksplit.training.run_record import RunSeconds
from tests.training.records import RUN_JSON

_RUN = ComparedRun.from_json({**RUN_JSON, "key": "a", "name": "single", "seed": 1, "history": []}, "a test")


def compared_run(**fields: Any) -> ComparedRun:
    """A run that finished; `fields` in place of its own."""
    return replace(_RUN, **fields)


def run_seconds(train: float, sync: float) -> RunSeconds:
    """Of a run that took no time for anything else."""
    none = dict.fromkeys((field.name for field in fields(RunSeconds)), 0.0)
    return RunSeconds(**{**none, "train": train, "sync": sync, "total": train})


def curve_of(name: str, values: Sequence[float | None], seconds: float = 0.1) -> list[CurvePoint]:
    """The metric's values on the validation rows after each pass, which took so many seconds."""
    return [
        CurvePoint(passes=n, updates=n, steps=n, seconds=seconds * n, validation={name: value})
        for n, value in enumerate(values, 1)
    ]


def table_row(**fields: Any) -> Row:
    """A line of the table; what is not given is None."""
    none = dict.fromkeys(
        ("hosts", "strategy", "passes", "updates", "syncs", "bytes_per_node", "seconds", "rows_per_second",
         "efficiency", "to_target", "time")
    )  # fmt: skip
    return Row(
        **{
            "virtual": False,
            "runs": 1,
            "diverged": 0,
            "timed": 1,
            "metric": Interval(None, None, None),
            **none,
            **fields,
        }
    )


def metric_of(
    name: str = "accuracy", margin: float = 0.003, split: str = "test", resolution: float | None = 1e-3
) -> Metric:
    """A metric with that margin in its own unit."""
    return Metric(name, name == "accuracy", split, resolution, share=0.01, range=None, margin=margin)


def some_results(table: Sequence[Row], pairs: Sequence[Pair], metric: Metric, **fields: Any) -> Results:
    """A results.json with this table and these pairs."""
    content: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "command": "compare",
        "sparksplit": "0",
        "created": "2026-11-21T22:00:00+00:00",
        "config_hash": "c",
        "config": {"batch_size": 64, "strategies": ["single", "batch"]},
        "data": DataFacts("d", "e", {"train": 1000}),
        "model": "m:build",
        "epochs": Epochs(10, 10, None),
        "seeds": [1],
        "looks": [1],
        "nodes": [1, 2],
        "target": Target(metric.name, 0.95, "configuration"),
        "machine": Machine(2, 1, "p", "s", "3", []),
        "versions": {},
        "runs": [],
        "virtual": [],
        "diverged": [],
        "references": [],
        "grid": [],
        "place": None,
        "times": [],
        "cost_model": None,
        "scale": [],
        "answer": NO_ANSWER,
    }
    return Results(table=list(table), pairs=list(pairs), metric=metric, **{**content, **fields})
