"""The seconds of a row that count: to the target, or of all passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sparksplit.comparison.analysis.runs import BASE
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Row


def single_of(table: Sequence[Row]) -> Row | None:
    """Return the row of `single`, which all rows are compared with; None if it is missing."""
    return next((row for row in table if (row.name, row.nodes, row.virtual) == BASE), None)


def goal_of(table: Sequence[Row]) -> str:
    """Return which seconds are compared: to the target, or in all if not every run of `single` reached the target."""
    single = single_of(table)
    return IN_ALL if single is None or _to_target(single) is None else TO_TARGET


def seconds_of(row: Row, goal: str) -> float | None:
    """Return the seconds of a row: to the target if every run reached it, or in all."""
    return row.seconds if goal == IN_ALL else _to_target(row)


def lost(row: Row, goal: str) -> tuple[Literal["diverged", "unmet", "other place"], int | None, int | None] | None:
    """Return (why, the number of such runs, the number of all runs) if a run of the row diverged, or if the row has no
    seconds that count: a run missed the target, or no run was timed where most runs were."""
    to = row.to_target
    if row.diverged:
        return "diverged", row.diverged, row.runs + row.diverged
    if goal == TO_TARGET and to is not None and to.reached < to.of:
        return "unmet", to.of - to.reached, to.of
    return ("other place", None, None) if seconds_of(row, goal) is None else None


def _to_target(row: Row) -> float | None:
    to = row.to_target
    return to.seconds if to is not None and to.reached == to.of else None
