"""Pictures of the learning: the paired differences, and the held-out metric during training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import Pair, Row
from sparksplit.comparison.numbers import Quantity, duration, plain, usable
from sparksplit.pages import drawing
from sparksplit.pages.drawing import GREY, Picture, canvas, legend

Curve = list[tuple[float, ...]]
"""Points: passes, seconds, and the mean, the smallest and the largest value."""


def strategies(results: Results) -> list[str]:
    """The labels of all strategies in order of appearance, so that each has one mark in all pictures."""
    sources: tuple[Sequence[Row | ComparedRun], ...] = (results.table, results.runs, results.virtual)
    return list(dict.fromkeys(item.name for source in sources for item in source))


def strategy_marks(results: Results) -> dict[str, drawing.Mark]:
    """The mark of each strategy."""
    model = results.cost_model
    further = [*(item.name for item in model.checks), *(item.name for item in model.predictions)] if model else []
    return drawing.marks([*strategies(results), *further])


def described(name: str, nodes: int, letters: int | None = None) -> str:
    """A strategy's name and number of nodes: 'batch, N = 2'. letters: the most letters of the name."""
    return f"{name if letters is None else drawing.shortened(name, letters)}, N = {nodes}"


def survivors(rows: Iterable[Row]) -> str:
    """Return a sentence on the rows with diverged runs, because pictures show only finished runs; '' without diverged
    runs."""
    lost = [
        f"{row.name}, N = {row.nodes}{' virtual' if row.virtual else ''} ({row.runs} of {row.runs + row.diverged})"
        for row in rows
        if row.diverged
    ]
    return f"Only runs that finished: {'; '.join(lost)}." if lost else ""


def forest(results: Results) -> Picture:
    """The paired differences of the metric."""
    metric, quantity, key = results.metric, Quantity(results.metric.name), "differences"
    title = f"Differences in {quantity.label}"
    pairs = [pair for pair in results.pairs if usable(pair.mean) is not None]
    if not pairs:
        return Picture(key, title, note="No difference was measured.")
    labels = [_versus(pair) for pair in pairs]
    with canvas(drawing.point_height(labels)) as (figure, axes):
        rows = drawing.point_rows(axes, labels)
        margin = metric.margin * quantity.scale
        if margin:
            axes.axvspan(-margin, margin, color=drawing.BAND, zorder=0)
        axes.axvline(0, color=GREY, linewidth=1)
        for row, pair in zip(rows, pairs, strict=True):
            values = (usable(value) for value in (pair.mean, pair.low, pair.high))
            drawing.interval_row(axes, row, *(None if value is None else value * quantity.scale for value in values))
        reach = max(abs(end) for end in axes.get_xlim())
        axes.set_xlim(-reach, reach)
        unit = f", {quantity.unit}" if quantity.unit else ""
        axes.set_xlabel(f"difference in {quantity.label}{unit}")
        drawing.label_rows(
            axes, labels, [(pair.mean * quantity.scale, row) for row, pair in zip(rows, pairs, strict=True)]
        )
        svg = drawing.to_svg(figure, key, f"{title}: the mean of each pair, its interval, and the margin")
    caption = "Dot: mean over the seeds. Line: its interval."
    if any(usable(pair.low) is None for pair in pairs):
        caption = "Dot: mean over the seeds. Without a line: too few seeds for an interval."
    if any(pair.seeds < pair.of for pair in pairs):
        caption += " Over the seeds with which both finished."
    caption += " Right of zero is better." if metric.higher_is_better else " Left of zero is better."
    if margin:
        size = quantity.difference(metric.margin).lstrip("+")
        caption += f" Grey: within the margin of {size}, which counts as no difference."
    return Picture(key, title, caption, svg)


def _versus(pair: Pair) -> str:
    """'local, N = 2 − batch, N = 2'"""
    whose = described(pair.name, pair.nodes) + (" virtual" if pair.virtual else "")
    return f"{whose} − {described(pair.against, pair.against_nodes)}"


def learning(results: Results) -> list[Picture]:
    """The held-out metric over passes, and over seconds."""
    quantity = Quantity(results.metric.name)
    title = f"Held-out {quantity.label}"
    curves = {strategy: points for strategy in strategies(results) if (points := _curve(results, strategy))}
    if not curves:
        note = f"No run measured {quantity.label} on the validation rows."
        return [Picture(f"learning-{where}", f"{title} over {where}", note=note) for where in ("passes", "seconds")]
    timed = {strategy: (nodes, points) for strategy, (nodes, points) in curves.items() if math.isfinite(points[-1][1])}
    over = f"{title} over seconds"
    return [
        _learning(results, curves, "passes", "passes over the training set", f"{title} over passes"),
        _learning(results, timed, "seconds", "seconds of training", over)
        if timed
        else Picture("learning-seconds", over, note="The times of these runs do not count."),
    ]


def _learning(results: Results, curves: dict[str, tuple[int, Curve]], where: str, label: str, title: str) -> Picture:
    quantity, known = Quantity(results.metric.name), strategy_marks(results)
    target = _target(results)
    banded = False
    key = f"learning-{where}"
    x = 0 if where == "passes" else 1
    with canvas() as (figure, axes):
        entries = []
        zoomed = _zoom(axes, [points for _, points in curves.values()], quantity.scale, target)
        low, high = (end / quantity.scale for end in axes.get_ylim())
        lines = {strategy: [(point[x], point[2]) for point in points] for strategy, (_, points) in curves.items()}
        longest = max(point[0] for points in lines.values() for point in points)
        groups = drawing.coinciding(lines, longest, high - low)
        for group in groups:
            points, mark = curves[group[0]][1], known[group[0]]
            xs = [point[x] for point in points]
            mean, low, high = ([point[index] * quantity.scale for point in points] for index in (2, 3, 4))
            if low != high:
                banded = True
                axes.fill_between(xs, low, high, color=mark.colour, alpha=0.16, linewidth=0)
            every = max(1, len(xs) // 6)
            axes.plot(xs, mean, color=mark.colour, linestyle=mark.dash, marker=mark.marker, markevery=every)
            entries.append((drawing.named(group), drawing.line(mark)))
        if target is not None:
            entries.append(
                (f"target {quantity.value(target)}", axes.axhline(target * quantity.scale, color=GREY, lw=1))
            )
        axes.set_xlim(left=0)
        axes.set_xlabel(label)
        axes.set_ylabel(quantity.axis)
        legend(figure, entries)
        svg = drawing.to_svg(figure, key, f"{title}, a line for each strategy")
    gone = [
        row for row in results.table
        if not row.virtual and not row.runs and row.nodes > curves.get(row.name, (row.nodes,))[0]
    ]  # fmt: skip
    where_from = "the largest number of nodes on which a run of it finished" if gone else "its largest number of nodes"
    caption = f"Each strategy on {where_from}: the mean over the seeds"
    caption += ", and a band from the least to the greatest." if banded else "."
    caption += " The first passes lie outside the picture." if zoomed else ""
    caption += drawing.drawn_once(groups)
    shown = {(strategy, nodes) for strategy, (nodes, _) in curves.items()}
    rows_shown = [row for row in results.table if (row.name, row.nodes) in shown and not row.virtual]
    caption = f"{caption} {survivors(rows_shown)}".strip()
    if gone:
        caption += f" Every run diverged: {'; '.join(described(row.name, row.nodes) for row in gone)}."
    rows = [
        [strategy, str(nodes), plain(points[-1][0]), duration(points[-1][1]), quantity.value(points[-1][2])]
        for strategy, (nodes, points) in curves.items()
    ]
    return Picture(
        key, title, caption, svg, ("strategy", "N", "passes", "seconds", f"{quantity.label} at the end"), rows
    )


def _curve(results: Results, strategy: str) -> tuple[int, Curve] | None:
    """Return (N, points) of a strategy's runs on its largest number of real nodes, N; None without a value.

    A point is (passes, seconds, mean, smallest, largest). Seconds are the mean of the runs whose times count, or NaN
    without these runs.
    """
    name = results.metric.name
    runs = [run for run in results.runs if run.name == strategy]
    nodes = max((run.nodes for run in runs), default=0)
    by_passes: dict[float, list[tuple[float | None, float]]] = {}
    for run in runs:
        for point in run.history if run.nodes == nodes else []:
            value = usable((point.validation or {}).get(name))
            if value is not None:
                counts = run.is_timed_in(results.place)
                by_passes.setdefault(point.passes, []).append((point.seconds if counts else None, value))
    if not by_passes:
        return None
    points: Curve = []
    for passes, pairs in sorted(by_passes.items()):
        values = [value for _, value in pairs]
        seconds = [second for second, _ in pairs if second is not None]
        mean = fmean(seconds) if seconds else math.nan
        points.append((float(passes), mean, fmean(values), min(values), max(values)))
    return nodes, points


def _zoom(axes: Any, curves: list[Curve], scale: float, target: float | None) -> bool:
    """Show the values after each curve's first quarter. Return whether values are left out.

    The first passes change so much that the rest would look like one line.
    """
    shown = [value for points in curves for point in points[len(points) // 4 :] for value in point[2:]]
    everything = [value for points in curves for point in points for value in point[2:]]
    shown += [] if target is None else [target]
    low, high = min(shown) * scale, max(shown) * scale
    pad = (high - low) * 0.06 or abs(high) * 0.01 or 1.0
    axes.set_ylim(low - pad, high + pad)
    return min(everything) * scale < low - pad or max(everything) * scale > high + pad


def _target(results: Results) -> float | None:
    target = results.target
    return target.value if target and target.metric == results.metric.name else None
