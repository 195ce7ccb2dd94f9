"""Durations in a configuration, such as 15min or 2h."""

from __future__ import annotations

import re
from typing import Any

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
"""Length of each unit in microseconds."""
_DURATION = re.compile(rf"([1-9]\d{{0,11}}) ?({'|'.join(_UNITS)})")


def duration(text: str) -> int:
    """Return the microseconds of a text such as 15min. Raise ValueError if the text is no duration."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"must be a whole number and one of {', '.join(_UNITS)}, such as 15min or 1d (is {text!r})")
    return int(match[1]) * _UNITS[match[2]]


def written(step: int, *, time: bool) -> str:
    """Return a step as a configuration writes it. time: whether `step` is in microseconds"""
    unit = next(unit for unit, size in reversed(_UNITS.items()) if step % size == 0)
    return f"{step // _UNITS[unit]}{unit}" if time else str(step)


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WAIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd])")


def seconds(value: Any) -> Any:
    """Return the seconds of a text such as 2h. Return any other value unchanged, for pydantic to check.

    Raise ValueError if a text is no duration.
    """
    if not isinstance(value, str):
        return value
    match = _WAIT.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"must be a number with s, m, h or d, such as 2h (is {value!r})")
    return float(match[1]) * _SECONDS[match[2]]
