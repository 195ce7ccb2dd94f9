"""The configuration of windows over time: rows of series become rows of arrays (sources/windows.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from sparksplit.base.config import Config
from sparksplit.prepare.durations import duration


def _step(value: int | str) -> int | str:
    if isinstance(value, str):
        duration(value)
    return value


class WindowsConfig(Config):
    """Windows of time series: `window` consecutive rows of a series as features, and the next `horizon` values of the
    label."""

    window: Annotated[int, Field(ge=1)]
    """Number of past rows that the model sees. The features have the shape [window, columns], and include past values
    of the label column."""
    horizon: Annotated[int, Field(ge=1)] = 1
    """Number of future rows to predict. The model predicts the label of all these rows at once."""
    order: int | str
    """Column that orders the rows of a series: timestamps, dates or whole numbers."""
    by: list[int | str] = Field(default_factory=list)
    """Columns that identify a series, such as a station. Without columns, all rows are one series, which a single task
    reads."""
    stride: Annotated[int, Field(ge=1)] = 1
    """Start a new window every this many rows of a series."""
    step: Annotated[int, Field(ge=1)] | Annotated[str, AfterValidator(_step)] | None = None
    """Largest step between two consecutive rows of a series. A longer step is a gap, and no window spans a gap. If
    `input.windows.order` holds whole numbers, give a whole number. Otherwise give a duration such as 15min, 1h or 31d.
    null: the most frequent step. Finding this step takes one more pass over all rows."""


_WHY = {
    "gaps": "over a gap",
    "nulls": "with a null",
    "cut": "with labels that overlap the next split",
    "short": "series too short for one",
}


def said(left_out: Mapping[str, int], before: str = "") -> str:
    """Describe for people how many windows were left out, and why. Return "" if none was left out.

    before: text in front of the description
    """
    reasons = ", ".join(f"{left_out[why]:,} {text}" for why, text in _WHY.items() if left_out.get(why))
    return before + reasons if reasons else ""
