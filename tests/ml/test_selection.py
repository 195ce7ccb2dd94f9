"""The columns that a fit uses."""

from __future__ import annotations

from typing import Any

import pytest

from sparksplit import ConfigError
from sparksplit.ml.selection import Selection

TYPES = {"x": "vector", "city": "string", "y": "double", "w": "float", "held": "boolean", "on": "date"}


def test_all_columns_are_used_once() -> None:
    chosen = Selection(["x", "city"], "y", "w", "held")
    chosen.check(TYPES)
    assert chosen.names == ["x", "city", "y", "w", "held"]
    assert Selection(["x"], "y").names == ["x", "y"]


@pytest.mark.parametrize("kind", ["boolean", "int", "bigint", "float", "double", "decimal(10,2)"])
def test_labels_are_numbers(kind: str) -> None:
    Selection(["x"], "y").check({"x": "vector", "y": kind})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((["x", "citty"], "y"), "featuresCol: no column 'citty'; the DataFrame has x, city, .*; did you mean 'city'?"),
        ((["x"], "label"), "labelCol: no column 'label'; the DataFrame has x, city"),
        ((["x", "x"], "y"), "featuresCol: names the column 'x' twice"),
        ((["x", "y"], "y"), "labelCol: names the column 'y', which is also in featuresCol"),
        ((["x"], "y", "y"), "weightCol: names the column 'y'"),
        ((["x"], "city"), "labelCol: column 'city' is string, but must be numbers; a StringIndexer makes numbers"),
        ((["x"], "on"), "labelCol: column 'on' is date, but must be numbers$"),
        ((["x"], "y", None, "w"), "validationIndicatorCol: column 'w' is float, but must be boolean"),
    ],
)
def test_columns_that_do_not_fit(columns: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Selection(*columns).check(TYPES)
