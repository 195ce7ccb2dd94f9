"""Numbers as reports write them: short, with units, and always in the same form."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from sparksplit.pages import tables

MISSING = tables.MISSING
_LEAST = 1e-4
"""The smallest difference in points that is not written as 0.00."""


def usable(value: float | None) -> float | None:
    """`value`, or None if it is missing or not a finite number (a run that diverged)."""
    return value if value is not None and math.isfinite(value) else None


def count(value: float | None) -> str:
    """A whole number with separators: 24,960"""
    value = usable(value)
    return MISSING if value is None else f"{value:,.0f}"


def plain(value: float | None, digits: int = 4) -> str:
    """A number of any size, to `digits` significant digits."""
    value = usable(value)
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{places}f}"
    return f"{value:.{digits - 1}e}"


def compact(value: float | None) -> str:
    """At most three significant digits, or the whole number: 150, 82, 2.1"""
    text = plain(value, 3)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def node_time(hours: float | None) -> str:
    """The time of all nodes together in a suitable unit, such as node-minutes. hours: the time in hours."""
    hours = usable(hours)
    if hours is None:
        return MISSING
    for limit, times, name in ((120, 3600, "node-seconds"), (7200, 60, "node-minutes")):
        if abs(hours) * 3600 < limit:
            return f"{plain(hours * times, 3)} {name}"
    return f"{plain(hours, 3)} node-hours"


def bound(value: float | None) -> str:
    """A lower bound above 0, like `compact` but rounded down: 1.99 for 1.996."""
    value = usable(value)
    if value is None:
        return MISSING
    unit = min(1.0, 10.0 ** (math.floor(math.log10(value)) - 2))
    return compact(math.floor(value / unit + 1e-9) * unit)


def part(some: int, of: int) -> str:
    """`some` of `of`: 2 of 5, or only 5 if both are equal."""
    return count(of) if some == of else f"{count(some)} of {count(of)}"


def steps(numbers: Sequence[int]) -> str:
    """Up to six ascending numbers. Of more numbers, only the first two and the last: 2, 4, ... 20"""
    shown = [*numbers[:2], *numbers[-1:]] if len(numbers) > 6 else numbers
    text = ", ".join(map(str, shown))
    return text if shown is numbers else text[: text.rindex(" ")] + " ..." + text[text.rindex(" ") :]


def percent(fraction: float | None, places: int = 0) -> str:
    """0.93 as 93 %"""
    fraction = usable(fraction)
    return MISSING if fraction is None else f"{100 * fraction:.{places}f} %"


def signed(text: str, value: float) -> str:
    """`text` with the sign of `value`; without a sign if `text` is zero. text: the absolute `value`, as written."""
    return text if not re.search("[1-9]", text) else f"{'+' if value > 0 else '−'}{text}"


def duration(seconds: float | None) -> str:
    """Seconds in a suitable unit, such as ms, min or days."""
    seconds = usable(seconds)
    if seconds is None:
        return MISSING
    unit, name = time_unit(seconds)
    return f"{_three(seconds / unit)} {name}"


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which `duration` writes these seconds: its seconds, and its name."""
    limits = ((1e-3, 1e-6, "µs"), (1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h"))
    return next(((unit, name) for limit, unit, name in limits if abs(seconds) < limit), (86400, "days"))


def size(value: float | None) -> str:
    """Bytes in a suitable unit, such as kB or GB."""
    value = usable(value)
    if value is None:
        return MISSING
    for power, name in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if abs(value) >= 1000**power:
            return f"{_three(value / 1000**power)} {name}"
    return f"{value:.0f} B"


def megabytes(value: float | None) -> str:
    """Bytes as a number of MB without the unit, for a table column."""
    value = usable(value)
    return MISSING if value is None else plain(value / 1e6, 3)


class Quantity:
    """How reports write the values and differences of a metric. An accuracy is in per cent; other metrics are plain
    numbers."""

    def __init__(self, name: str) -> None:
        self.is_share = name.lower().endswith("accuracy")
        self.label = name.replace("_", " ")
        self.axis = f"{self.label}, %" if self.is_share else self.label
        self.scale = 100.0 if self.is_share else 1.0
        self.unit = "points" if self.is_share else ""

    def value(self, value: float | None) -> str:
        """A value, such as 97.76 %"""
        return percent(value, 2) if self.is_share else plain(value)

    def difference(self, value: float | None) -> str:
        """A difference, such as +0.31 points or +0.0042 points"""
        value = usable(value)
        if value is None:
            return MISSING
        size = plain(abs(value), 3)
        if self.is_share:
            points = abs(100 * value)
            size = plain(points, 2) if _LEAST <= points < 0.01 else f"{points:.2f}"
        return signed(f"{size} {self.unit}".strip(), value)

    def interval(self, low: float | None, high: float | None) -> str:
        """An interval without the unit, such as 97.31 to 98.02; MISSING without an interval."""
        low, high = usable(low), usable(high)
        if low is None or high is None:
            return MISSING
        ends = [f"{100 * end:.2f}" if self.is_share else plain(end) for end in (low, high)]
        return " to ".join(end.replace("-", "−") for end in ends)


def _three(value: float) -> str:
    """About three significant digits: at most two decimals, and no exponent."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 2)}f}"
