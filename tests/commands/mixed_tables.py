"""A table of mixed columns with gaps, as users have them, and an answer that follows from two of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa


def clients(rows: int, seed: int = 1, first_day: int = 0) -> pa.Table:
    """Columns id, age, pay, plan, city, active, opened, seen at, note, pair, worth and the label left (yes or no).

    left: whether an age of more than 40 and the plan `basic` differ. first_day: of `opened`, days since 2020
    """
    rng = np.random.default_rng(seed)
    plan = rng.choice(["basic", "plus", "family", "once"], rows, p=[0.5, 0.3, 0.19, 0.01])
    age, city = rng.integers(18, 80, rows), rng.integers(0, 300, rows)
    gaps = rng.random((rows, 5)) < 0.04
    opened = [dt.date(2020, 1, 1) + dt.timedelta(days=first_day + int(day)) for day in rng.integers(0, 700, rows)]
    seen = [dt.datetime(2022, 1, 1) + dt.timedelta(minutes=int(minute)) for minute in rng.integers(0, 500_000, rows)]
    columns: dict[str, Any] = {
        "id": [f"client {seed}-{number}" for number in range(rows)],
        "age": pa.array(age, pa.int32()),
        "pay": pa.array(np.round(rng.lognormal(3, 1, rows), 2), mask=gaps[:, 0]),
        "plan": pa.array(plan, mask=gaps[:, 1] & (plan != "basic")),
        "city": pa.array([f"c{number}" for number in city], mask=gaps[:, 2]),
        "active": pa.array(rng.random(rows) < 0.5),
        "opened": pa.array(opened, mask=gaps[:, 3]),
        "seen at": pa.array(seen, pa.timestamp("us"), mask=gaps[:, 4]),
        "note": [f"The {one} of {two}, paid" for one, two in zip(plan, city, strict=True)],
        "pair": pa.array(list(rng.normal(size=(rows, 2)).astype("f4")), pa.list_(pa.float32())),
        "worth": pa.array(np.round(rng.uniform(0.5, 2, rows), 1)),
        "left": pa.array(np.where((age > 40) ^ (plan == "basic"), "yes", "no")),
    }
    return pa.table(columns)


FEATURES = {
    "pay": {"log1p": True, "impute": "median", "indicator": True},
    "age": {"buckets": 8},
    "city": {"kind": "category", "hash": 64},
    "note": {"kind": "text", "length": 6},
    "opened": {"since": "2020-01-01"},
}
"""What `clients` are to be, where their types do not say it."""


def raw_columns(table: pa.Table) -> dict[str, Any]:
    """What the exported model takes of `clients`: by the names in its signature, float64 or texts."""
    texts = {
        "plan": table["plan"].to_pylist(),
        "city": table["city"].to_pylist(),
        "active": [str(one).lower() for one in table["active"].to_pylist()],
        "opened": [one and one.isoformat() for one in table["opened"].to_pylist()],
        "seen_at": [one and one.isoformat() for one in table["seen at"].to_pylist()],
        "note": table["note"].to_pylist(),
    }
    return {
        "age": np.array(table["age"].to_pylist(), np.float64),
        "pay": np.array([np.nan if one is None else one for one in table["pay"].to_pylist()]),
        "pair": np.array(table["pair"].to_pylist(), np.float64),
        **{name: np.array([one or "" for one in column]) for name, column in texts.items()},
    }
