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
    """Windows over time: `window` rows of a series that follow each other, and the label's next `horizon` values."""

    window: Annotated[int, Field(ge=1)]
    """Rows that a prediction knows: the features are [window, columns], the label's own past among them."""
    horizon: Annotated[int, Field(ge=1)] = 1
    """Rows after these whose label is predicted, all at once."""
    order: int | str
    """The column that orders the rows of a series: times, dates or whole numbers."""
    by: list[int | str] = Field(default_factory=list)
    """The columns that tell series apart, such as a station; none: all rows are one series, which one task reads."""
    stride: Annotated[int, Field(ge=1)] = 1
    """A window begins at every so many rows of a series."""
    step: Annotated[int, Field(ge=1)] | Annotated[str, AfterValidator(_step)] | None = None
    """The longest way from a row to the next; a longer one is a gap, which no window reaches over. A whole number where
    `order` holds these, otherwise such as 15min, 1h or 31d. null: the most frequent way, which takes one more reading
    of all rows to find."""


_WHY = {
    "gaps": "over a gap",
    "nulls": "with a null",
    "cut": "with labels that are in the next split too",
    "short": "series too short for one",
}


def said(left_out: Mapping[str, int], before: str = "") -> str:
    """How many windows were left out, and why, for people, and what comes before that; "" where none was."""
    found = ", ".join(f"{left_out[why]:,} {text}" for why, text in _WHY.items() if left_out.get(why))
    return before + found if found else ""
