"""The columns that a DataFrame of training rows must have."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from sparksplit.base.errors import ConfigError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.handoff import feeding


def test_a_frame_for_rows_in_a_given_order_needs_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((8, 1), np.float32)
    kinds = {"x": BinaryType(), "label": LongType(), "row_id": LongType()}

    def check(order: Any, *columns: str) -> None:
        data = from_arrays(f"{tmp_path}/{order}", {"train": (x, np.arange(8) % 2)}, lanes=2, order=order)
        schema = StructType([StructField(name, kinds[name]) for name in columns])
        frame = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=None), schema=schema)
        feeding.check_columns(cast("Any", frame), data)

    monkeypatch.setattr(feeding, "asking", lambda _: nullcontext())
    check("hash", "x", "label")
    check("given", "x", "label", "row_id")
    with pytest.raises(ConfigError, match=r"given: has `order: given`, so the DataFrame needs a column 'row_id'"):
        check("given", "x", "label")
