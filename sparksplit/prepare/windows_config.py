"""The configuration of windows over time: rows of series become rows of arrays (sources/windows.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from sparksplit.base.config import Config
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from sparksplit.prepare.config import InputConfig, PreprocessConfig
    from sparksplit.prepare.cut_config import CutConfig

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
"""Microseconds."""
_DURATION = re.compile(rf"([1-9]\d{{0,11}}) ?({'|'.join(_UNITS)})")


def duration(text: str) -> int:
    """Microseconds of a text such as 15min. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"must be a whole number and one of {', '.join(_UNITS)}, such as 15min or 1d (is {text!r})")
    return int(found[1]) * _UNITS[found[2]]


def written(step: int, *, time: bool) -> str:
    """A step as a configuration has it. time: whether it is in microseconds"""
    unit = next(unit for unit, size in reversed(_UNITS.items()) if step % size == 0)
    return f"{step // _UNITS[unit]}{unit}" if time else str(step)


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


def check_windows(config: InputConfig) -> None:
    """Raise ConfigError for keys of an input section that do not go with its windows."""
    windows = config.windows
    if windows is None:
        return
    if config.label_type not in ("auto", "number"):
        raise config.error("label_type", f"must be number where windows are predicted (is {config.label_type})")
    if config.shape is not None:
        raise config.error("shape", "must be left out: windows are [window, columns]")
    if not (config.dtype or "float32").startswith("float"):
        raise config.error("dtype", f"must be a float dtype, since windows are searched for gaps (is {config.dtype})")
    if windows.order in windows.by or len(set(windows.by)) < len(windows.by):
        raise windows.error("by", "names a column twice, or the one that orders the rows")


def timed(config: PreprocessConfig) -> CutConfig:
    """The cut of `config`: where rows are windows, by the time of the last row of their labels.

    Raises ConfigError where another one was asked for, or what windows cannot have.
    """
    cut, windows = config.cut, config.input.windows
    if windows is None:
        return cut
    if cut.by != "time" and "by" in cut.model_fields_set:
        message = "windows overlap, so that other cuts would train on the very values that are to be tested"
        raise cut.error("by", f"must be time where rows are windows: {message} (is {cut.by})")
    if cut.column is not None and cut.column != windows.order:
        raise cut.error("column", f"must be left out: windows are cut by their order (is {cut.column!r})")
    if config.features is not None:
        raise config.error("features", "must be left out where rows are windows, whose columns are all numbers")
    if config.input.label is None:
        raise config.input.error("label", "must be the column whose next values are to be predicted")
    return cut.model_copy(update={"by": "time", "column": windows.order})


def left_between(config: PreprocessConfig, every: int, rows: Mapping[str, int]) -> int:
    """How many rows were left out at the cut's boundaries. every: all rows. rows: of each split

    Raises InputError where that leaves nothing of a split that was asked for.
    """
    between, cut = every - sum(rows.values()), config.cut
    asked = {"validation": config.validation or cut.validation_from, "test": config.test or cut.test_from, "train": 1}
    for name, wanted in asked.items():
        if between and wanted and not rows[name]:
            raise InputError(
                f"{config.input.place}: has no windows for {name}: {between:,} have labels that are in the next split "
                "too, and were left out; give it more time, or lower input.windows.horizon"
            )
    return between


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
