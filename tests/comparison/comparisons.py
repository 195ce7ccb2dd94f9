"""Whole comparisons as tests call them."""

from __future__ import annotations

from sparksplit.base.config import parse
from sparksplit.base.options import Options
from sparksplit.comparison.compare import compare
from sparksplit.comparison.compare_config import CompareConfig

STRATEGIES = [
    "single",
    "batch",
    "epoch",
    "epoch-delayed",
    {"strategy": "local", "sync": {"every": 8, "outer": "nesterov"}},
]
SETTINGS = {"batch_size": 64, "optimizer": {"name": "sgd", "learning_rate": 0.1}, "epochs": 2}


def compared(digits, output, options=Options(), **more):  # noqa: B008
    keys = {
        "data": str(digits),
        "output": str(output),
        "strategies": STRATEGIES,
        "nodes": [1, 2],
        "seeds": 2,
        **SETTINGS,
        **more,
    }
    return compare(parse(CompareConfig, keys), options).to_json()
