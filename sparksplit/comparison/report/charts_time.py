"""The first picture: how long each strategy takes on so many nodes, and what all of them cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparksplit.comparison.analysis.frontier import goal_of, seconds_of, single_of, worth_having
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Row
from sparksplit.comparison.numbers import MISSING, compact, duration, node_time, usable
from sparksplit.comparison.report.charts import described, survivors
from sparksplit.pages import drawing
from sparksplit.pages.drawing import COLOURS, GREY, Picture, beside

_WIDE = 10
"""Where the longest time is so many times the shortest, axes are logarithmic."""
_ROOM = 0.55
"""Right of so much of an axis's width there is no room for words."""
_CHEAPEST = "cheapest"

_Times = Mapping[tuple[str, int], float | None]
"""Seconds by strategy and number of nodes; None where there are none that count."""


def overview(results: Results) -> Picture:
    """Time to the target, or in all, with its interval, beside the seconds of all nodes: the quickest first."""
    goal, key = goal_of(results.table), "overview"
    title = "Time to the target, and its cost" if goal == TO_TARGET else "Time for all passes, and its cost"
    rows = [row for row in results.table if not row.virtual and row.runs]
    times = {(row.name, row.nodes): usable(seconds_of(row, goal)) for row in rows}
    known = [seconds for seconds in times.values() if seconds]
    if not known:
        return Picture(key, title, note=f"No time {goal} counts.")
    rows.sort(key=lambda row: times[row.name, row.nodes] or float("inf"))
    roles: dict[tuple[str, int], list[str]] = {}
    for choice in worth_having(results.frontier):
        roles.setdefault((choice.name, choice.nodes), []).append(choice.role)
    with beside(drawing.bar_height(len(rows)), (3, 2)) as (figure, (time, cost)):
        for axes in (time, cost):
            if max(known) > _WIDE * min(known):
                axes.set_xscale("log")
        drawing.bar_rows(time, [_label(row, times[row.name, row.nodes], goal) for row in rows])
        drawing.bar_rows(cost, [""] * len(rows))
        for place, row in enumerate(rows):
            if seconds := times[row.name, row.nodes]:
                drawing.interval_row(time, place, seconds, *_interval(row, goal))
                drawing.interval_row(cost, place, row.nodes * seconds, None, None)
        _axis(time, known, "seconds")
        costs = [row.nodes * seconds for row in rows if (seconds := times[row.name, row.nodes])]
        _axis(cost, costs, "node-seconds")
        single = single_of(results.table)
        alone = times.get((single.name, single.nodes)) if single else None
        if alone:
            for axes in (time, cost):
                axes.axvline(alone, color=GREY, linewidth=1, linestyle="--", zorder=0)
        for place, row in enumerate(rows):
            if seconds := times[row.name, row.nodes]:
                own, (low, high) = roles.get((row.name, row.nodes), []), _interval(row, goal)
                _beside(time, place, low or seconds, high or seconds, [role for role in own if role != _CHEAPEST])
                whole = row.nodes * seconds
                _beside(cost, place, whole, whole, [role for role in own if role == _CHEAPEST])
        svg = drawing.to_svg(figure, key, f"{title}: two dots for each strategy and number of nodes")
    return Picture(key, title, _caption(rows, goal, bool(alone)), svg, *_table(rows, times, goal))


def _label(row: Row, seconds: float | None, goal: str) -> str:
    """The strategy, shortened so that all that follows has room."""
    what = duration(seconds) if seconds else _missed(row, goal)
    room = drawing.LABEL_LETTERS - len(f"{described('', row.nodes)}: {what}")
    return f"{described(row.name, row.nodes, room)}: {what}"


def _beside(axes: Any, place: int, low: float, high: float, roles: list[str]) -> None:
    """Write which of the few strategies worth having it is on the right of what is drawn there, from `low` to `high`,
    or on the left if there is no room."""
    if not roles:
        return
    end = axes.transAxes.inverted().transform(axes.transData.transform((high, 0)))[0]
    x, offset, side = (high, 9, "left") if end < _ROOM else (low, -9, "right")
    style = {"textcoords": "offset points", "va": "center", "fontsize": 9.5, "fontweight": "bold", "color": COLOURS[0]}
    text = axes.annotate(", ".join(roles), (x, place), (offset, 0), ha=side, bbox=drawing.BOX, zorder=3, **style)
    text.set_in_layout(False)


def _missed(row: Row, goal: str) -> str:
    """Why there is no time."""
    to = row.to_target
    if goal == IN_ALL or to is None or to.reached == to.of:
        return "no time that counts"
    return f"reached by {to.reached} of {to.of}"


def _interval(row: Row, goal: str) -> tuple[float | None, float | None]:
    if goal == IN_ALL:
        return usable(row.seconds_low), usable(row.seconds_high)
    return (None, None) if row.to_target is None else (usable(row.to_target.low), usable(row.to_target.high))


def _axis(axes: Any, known: list[float], label: str) -> None:
    """Few ticks, that whole numbers of seconds are written at; an interval may reach out of the picture."""
    axes.set_xlabel(label)
    if axes.get_xscale() == "log":
        axes.set_xlim(min(known) / 1.5, max(known) * 1.5)
        drawing.log_axis(axes.xaxis, compact)
    else:
        axes.set_xlim(0, max(known) * 1.2)
        axes.locator_params(axis="x", nbins=4)


def _caption(rows: list[Row], goal: str, has_single: bool) -> str:
    what = "median over the runs" if goal == TO_TARGET else "mean over the runs"
    caption = f"Left: {what}, and the 95 % interval of the geometric mean. " if _has_intervals(rows, goal) else (
        f"Left: {what}; too few runs for an interval. "
    )  # fmt: skip
    caption += "Right: the same for all nodes together, which is what it costs. "
    caption += "Dashed: `single`. " if has_single else ""
    return f"{caption}{survivors(rows)}".strip().replace("`", "")


def _has_intervals(rows: list[Row], goal: str) -> bool:
    return any(_interval(row, goal)[0] is not None for row in rows)


def _table(rows: list[Row], times: _Times, goal: str) -> tuple[tuple[str, ...], list[list[str]]]:
    cells = []
    for row in rows:
        seconds, (low, high) = times[row.name, row.nodes], _interval(row, goal)
        interval = MISSING if low is None else f"{duration(low)} to {duration(high)}"
        cost = node_time(None if seconds is None else seconds * row.nodes / 3600)
        reached = (
            MISSING if goal == IN_ALL or row.to_target is None else f"{row.to_target.reached} of {row.to_target.of}"
        )
        cells.append([described(row.name, row.nodes), duration(seconds), interval, reached, cost])
    return ("strategy", f"time {goal}", "interval", "reached by", "node time"), cells
