"""The page's first screen beside the answer: a picture of time against quality, and a table of the quickest rows."""

from __future__ import annotations

from itertools import pairwise

from sparksplit.comparison.analysis.goals import goal_of, lost, seconds_of, single_of
from sparksplit.comparison.analysis.runs import ALL_RUNS, REFERENCE
from sparksplit.comparison.analysis.verdicts import UNDECIDED
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import TO_TARGET, Row, TimePair
from sparksplit.comparison.numbers import MISSING, Quantity, bound, compact, duration, node_time, time_unit, usable
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.report.charts import strategy_marks
from sparksplit.pages import drawing
from sparksplit.pages.drawing import GREY, Picture, canvas, legend
from sparksplit.pages.tables import Cell, Table, number, text

Point = tuple[float, float]
_WIDE = 10
"""The time axis is logarithmic if the longest time is more than this many times the shortest."""
_MOST = 10
"""The most rows of the first table."""


def overview(results: Results) -> Picture:
    """Time against quality: a point for each strategy and number of nodes, with both 95 % intervals."""
    goal, quantity, key = goal_of(results.table), Quantity(results.metric.name), "overview"
    metric = f"{results.metric.split} {quantity.label}"
    title = f"Time {f'to {results.target_in_words}' if goal == TO_TARGET else 'for all passes'}, against {metric}"
    rows = [row for row in _measured(results) if seconds_of(row, goal) and usable(row.metric.mean) is not None]
    if not rows:
        return Picture(key, title, note="No row has a time that counts.")
    unit, unit_name = time_unit(max(seconds_of(row, goal) or 0.0 for row in rows))
    times = [(seconds_of(row, goal) or 0.0) / unit for row in rows]
    values = [quantity.scale * (row.metric.mean or 0.0) for row in rows]
    points = list(zip(times, values, strict=True))
    known = strategy_marks(results)
    with canvas() as (figure, axes):
        if max(times) > _WIDE * min(times):
            axes.set_xscale("log")
        best = _unbeaten(times, values, results.metric.higher_is_better)
        axes.step(*zip(*best, strict=True), where="post", color=GREY, linewidth=1.5, linestyle="--", zorder=1)
        lines = [line for one, other in pairwise(best) for line in _step(one, other)]
        for row, (x, y) in zip(rows, points, strict=True):
            across, upwards = _spans(row, goal, unit, quantity.scale)
            mark = known[row.name]
            own = [((across[0], y), (across[1], y))] if across else []
            own += [((x, upwards[0]), (x, upwards[1]))] if upwards else []
            for line in own:
                axes.plot(*zip(*line, strict=True), color=mark.colour, linewidth=1)
            axes.plot([x], [y], color=mark.colour, marker=mark.marker, linestyle="none")
            lines += own
        axes.set_xlabel(f"time, {unit_name}")
        axes.set_ylabel(f"{results.metric.split} {quantity.axis}")
        axes.margins(0.12)
        if axes.get_xscale() == "log":
            drawing.log_axis(axes.xaxis, compact)
        else:
            axes.set_xlim(left=0)
            axes.locator_params(axis="x", nbins=5)
        names = dict.fromkeys(row.name for row in rows)
        legend(figure, [(_shown(name, results), drawing.line(known[name], dash=False)) for name in names])
        drawing.label_points(axes, points, [f"N = {row.nodes}" for row in rows], lines)
        svg = drawing.to_svg(figure, key, f"{title}: a point for each strategy and number of nodes N")
    return Picture(key, title, _caption(results, rows, len(best), goal), svg)


_DECIDED = "The words “at least”, “faster” and “slower” say that a difference is decided"


def _measured(results: Results) -> list[Row]:
    return [row for row in results.table if not row.virtual and row.runs + row.diverged]


def _step(one: Point, other: Point) -> list[tuple[Point, Point]]:
    """Return the horizontal and the vertical line from a point of the dashed line to the next."""
    corner = other[0], one[1]
    return [(one, corner), (corner, other)]


def _spans(row: Row, goal: str, unit: float = 1.0, scale: float = 1.0) -> tuple[list[float], list[float]]:
    """Return the ends of both intervals, of the time and of the metric; empty for an unknown interval."""
    times = (row.seconds_low, row.seconds_high)
    if goal == TO_TARGET:
        times = (None, None) if row.to_target is None else (row.to_target.low, row.to_target.high)
    spans = []
    for ends, factor in ((times, 1 / unit), ((row.metric.low, row.metric.high), scale)):
        known = [end * factor for end in ends if end is not None]
        spans.append(known if len(known) == len(ends) else [])
    return spans[0], spans[1]


def _unbeaten(times: list[float], values: list[float], higher: bool) -> list[tuple[float, float]]:
    """Return the points that no other point beats in both values, the quickest first."""
    best: list[tuple[float, float]] = []
    for seconds, value in sorted(
        zip(times, values, strict=True), key=lambda one: (one[0], -one[1] if higher else one[1])
    ):
        if not best or ((value > best[-1][1]) == higher and value != best[-1][1]):
            best.append((seconds, value))
    return best


def _caption(results: Results, rows: list[Row], unbeaten: int, goal: str) -> str:
    better = "higher" if results.metric.higher_is_better else "lower"
    lines = any(any(_spans(row, goal)) for row in rows)
    caption = f"N: nodes. Left and {better} is better. "
    both = f"time and {Quantity(results.metric.name).label}"
    caption += f"Dashed line: joins the points that no other point beats in both {both}. " if unbeaten > 1 else ""
    caption += "Bars: each point's own 95 % interval. " if lines else "One run each: no intervals. "
    missing = [results.named(row.name, row.nodes) for row in _measured(results) if row not in rows]
    caption += f"Not shown, because they have no time (see the table): {'; '.join(missing)}." if missing else ""
    return caption.strip().replace("`", "")


def first_rows(results: Results) -> Table | None:
    """The quickest rows, at most ten, with the choice and `single` among them."""
    goal, quantity = goal_of(results.table), Quantity(results.metric.name)
    rows = sorted(_measured(results), key=lambda row: (seconds_of(row, goal) or float("inf"), row.nodes))
    if not rows:
        return None
    single = single_of(results.table)
    advised = [(row.name, row.nodes) for row in (results.answer.choice, results.answer.until) if row]
    kept = [row for row in rows if row is single or (row.name, row.nodes) in advised]
    shown = {id(row) for row in [*kept, *(row for row in rows if row not in kept)][:_MOST]}
    speeds = {(pair.name, pair.nodes): pair for pair in results.times if (pair.what, pair.against) == (goal, "single")}
    cells = [
        [
            text(results.named(row.name, row.nodes).replace("`", "")),
            number(seconds := seconds_of(row, goal), _why(row, goal) if seconds is None else duration(seconds)),
            number(row.metric.mean, f"{quantity.value(row.metric.mean)}{_of(row)}"),
            number(1.0, "1") if row is single else _times(speeds.get((row.name, row.nodes))),
            number(hours := None if seconds is None else seconds * row.nodes / 3600, node_time(hours)),
        ]
        for row in rows
        if id(row) in shown
    ]
    columns = [
        ("", ""),
        (
            "time",
            f"to the target of {results.target_in_words}, {set_by(results)}" if goal == TO_TARGET else "for all passes",
        ),
        (f"{results.metric.split} {quantity.label}", ""),
        ("times as fast", f"compared with {results.named()}. {_DECIDED}"),
        ("node time", "of all nodes together"),
    ]
    first = next((place for place, row in enumerate(rows) if id(row) not in shown), len(rows))
    added = [results.named(row.name, row.nodes).replace("`", "") for row in rows[first:] if id(row) in shown]
    caption = "The quickest first" if first == len(rows) else f"The quickest {first} of {len(rows)}"
    caption += f", and {' and '.join(added)}" if added else ""
    return Table("first", caption, columns, cells, filled_only=True)


def _of(row: Row) -> str:
    """The number of runs in a mean, if some runs diverged; otherwise ''."""
    return f" ({row.runs} of {row.runs + row.diverged} runs)" if row.diverged and row.runs else ""


def _why(row: Row, goal: str) -> str:
    """The reason why the row has no time."""
    why, number, of = lost(row, goal) or ("", None, None)
    begin = {"diverged": "diverged", "unmet": "not reached"}.get(why)
    return f"{begin} in {number} of {of} runs" if begin else "timed elsewhere"


def set_by(results: Results) -> str:
    """Who set the target."""
    told = {
        REFERENCE: f"95 % of the way from the first measured value of {results.named()} to its best",
        ALL_RUNS: "which all runs set",
    }
    return told.get(results.target.by if results.target else "", "as the key target says")


def _shown(name: str, results: Results) -> str:
    """A strategy in the legend, as the table calls it, but without the number of nodes."""
    return results.named(name).replace("`", "").removeprefix("1 node with " if not name.startswith(SINGLE) else "")


def _times(speed: TimePair | None) -> Cell:
    if speed is None:
        return number(None, MISSING)
    decided = "not decided" if speed.verdict == UNDECIDED else speed.verdict
    if speed.at_least is not None:
        decided = f"at least {bound(speed.at_least)}"
    return number(speed.times, f"{compact(speed.times)} ({decided})")
