"""Pictures over strategies and nodes: scaling, exchanged bytes, the parts of the time, virtual nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from matplotlib.patches import Patch

from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import Row
from sparksplit.comparison.numbers import Quantity, count, duration, percent, size, usable
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.report.charts import described, strategy_marks, survivors
from sparksplit.pages import drawing
from sparksplit.pages.drawing import GREY, INK, Picture, canvas, legend

PARTS = ("reading", "hand-off", "compute", "waiting", "synchronising", "other")
_PART_COLOURS = ("#56b4e9", "#cc79a7", "#0072b2", "#e69f00", "#d55e00", drawing.REST)
_HATCHES = ("", "\\\\\\\\", "", "xx", "//", "")


def scaling(results: Results) -> Picture:
    """Rows per second over N, with the ideal line."""
    key, title = "scaling", "Rows per second against ideal scaling"
    rows = [row for row in results.table if not row.virtual and usable(row.rows_per_second)]
    nodes = sorted({row.nodes for row in rows})
    if len(nodes) < 2:
        return Picture(key, title, note="Only one number of nodes was run, so there is no scaling to show.")
    known, base = strategy_marks(results), _base(rows)
    lines: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.nodes):
        lines.setdefault(row.name, []).append(row)
    with canvas() as (figure, axes):
        ideal = [_rate(base) / base.nodes * n for n in nodes]
        entries = [("ideal", axes.plot(nodes, ideal, color=GREY, linewidth=1, linestyle="--")[0])]
        # A strategy that was not run on one node starts at `single`, since there is nothing to split on one node.
        starts = {strategy: [] if line[0].nodes == base.nodes else [base] for strategy, line in lines.items()}
        points = {
            strategy: [(row.nodes, _rate(row)) for row in (*starts[strategy], *lines[strategy])] for strategy in lines
        }
        groups = drawing.coinciding(points, max(nodes), max(rate for line in points.values() for _, rate in line))
        for group in groups:
            mark, line = known[group[0]], points[group[0]]
            axes.plot(*zip(*line, strict=True), color=mark.colour, linestyle=mark.dash, linewidth=1.3)
            run_points = line[len(starts[group[0]]) :]
            axes.plot(*zip(*run_points, strict=True), color=mark.colour, marker=mark.marker, linestyle="none")
            entries.append((drawing.named(group), drawing.line(mark)))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: count(value))
        axes.set_ylabel("rows per second")
        drawing.nodes_axis(axes, nodes, log=False)
        legend(figure, entries)
        svg = drawing.to_svg(figure, key, f"{title}: a line for each strategy over the number of nodes")
    caption = f"Ideal is N times {base.name} on {base.nodes} node{'s' if base.nodes > 1 else ''}."
    caption += " Lines of strategies that were not run on as few nodes begin there."
    caption += drawing.drawn_once(groups)
    caption = f"{caption} {survivors(rows)}".strip()
    cells = [[row.name, str(row.nodes), count(row.rows_per_second), percent(row.efficiency)] for row in rows]
    return Picture(key, title, caption, svg, ("strategy", "N", "rows/s", "efficiency"), cells)


def _base(rows: Iterable[Row]) -> Row:
    """Return the row that ideal scaling starts from: on the fewest nodes, `single` or the fastest row."""
    return min(rows, key=lambda row: (row.nodes, row.name != SINGLE, -_rate(row)))


def _rate(row: Row) -> float:
    """Rows per second, of a row that has them."""
    return row.rows_per_second or 0.0


def _mean(row: Row) -> float:
    """The metric's mean, of a row that has one."""
    return row.metric.mean or 0.0


def exchange(results: Results) -> Picture:
    """The metric against the bytes that a node sends."""
    quantity, key = Quantity(results.metric.name), "exchange"
    title = f"{_where(results)} {quantity.label} against bytes sent"
    rows = [row for row in _measured(results) if not row.virtual]
    sending = [row for row in rows if row.bytes_per_node]
    if not sending:
        return Picture(key, title, note="No run exchanged anything: all were on one node.")
    known, silent = strategy_marks(results), [row for row in rows if not row.bytes_per_node]
    several = len({row.nodes for row in sending}) > 1
    with canvas() as (figure, axes):
        axes.set_xscale("log")
        entries = {row.name: drawing.line(known[row.name], dash=False) for row in sending}
        for row in sending:
            mark, x, y = known[row.name], row.bytes_per_node, _mean(row) * quantity.scale
            axes.errorbar([x], [y], _errors(row, quantity), color=mark.colour, marker=mark.marker, capsize=3)
        for row in silent:
            mark = known[row.name]
            drawn = axes.axhline(_mean(row) * quantity.scale, color=mark.colour, linewidth=1, linestyle="--")
            entries.setdefault(row.name, drawn)
        sent = [row.bytes_per_node for row in sending if row.bytes_per_node]
        room = max(3.0, (max(sent) / min(sent)) ** 0.15)
        axes.set_xlim(min(sent) / room, max(sent) * room)
        drawing.log_axis(axes.xaxis, size)
        axes.set_xlabel("bytes sent by each node")
        axes.set_ylabel(quantity.axis)
        legend(figure, list(entries.items()))
        if several:
            places = [(row.bytes_per_node or 0.0, _mean(row) * quantity.scale) for row in sending]
            ends = [(usable(row.metric.low), usable(row.metric.high)) for row in sending]
            lines = [
                ((x, low * quantity.scale), (x, high * quantity.scale))
                for (low, high), (x, _) in zip(ends, places, strict=True)
                if low is not None and high is not None
            ]
            drawing.label_points(axes, places, [f"N = {row.nodes}" for row in sending], lines)
        svg = drawing.to_svg(figure, key, f"{title}: a point for each strategy and number of nodes")
    caption = "Dashed line: a run on one node, which sends nothing." if silent else ""
    if any(usable(row.metric.low) is not None for row in rows):
        caption = f"Bars: the interval of the mean. {caption}".strip()
    caption = f"{caption} {survivors(rows)}".strip()
    cells = [
        [described(row.name, row.nodes), size(row.bytes_per_node), quantity.value(row.metric.mean)] for row in rows
    ]
    return Picture(key, title, caption, svg, ("strategy", "bytes per node", quantity.label), cells)


def _where(results: Results) -> str:
    """The split that the metric is computed on: Test or Validation."""
    return str(results.metric.split).capitalize()


def _measured(results: Results) -> list[Row]:
    """The table's rows that have a metric."""
    return [row for row in results.table if usable(row.metric.mean) is not None]


def _errors(row: Row, quantity: Quantity) -> list[list[float]] | None:
    low, mean, high = (usable(value) for value in (row.metric.low, row.metric.mean, row.metric.high))
    if low is None or mean is None or high is None:
        return None
    return [[max(0.0, mean - low) * quantity.scale], [max(0.0, high - mean) * quantity.scale]]


def spread(results: Results) -> Picture:
    """The metric against N: nodes at hand, and virtual ones."""
    quantity, key = Quantity(results.metric.name), "nodes"
    title = f"{_where(results)} {quantity.label} against the number of nodes"
    rows = sorted(_measured(results), key=lambda row: row.nodes)
    if len({row.nodes for row in rows}) < 2:
        return Picture(key, title, note="Only one number of nodes was run, and no virtual nodes.")
    known, virtual = strategy_marks(results), any(row.virtual for row in rows)
    names = [strategy for strategy in known if any(row.name == strategy for row in rows)]
    lines = {
        strategy: [(math.log2(row.nodes), _mean(row) * quantity.scale) for row in rows if row.name == strategy]
        for strategy in names
    }
    heights = [y for points in lines.values() for _, y in points]
    groups = drawing.coinciding(lines, math.log2(rows[-1].nodes), max(heights) - min(heights))
    with canvas() as (figure, axes):
        for group in groups:
            mark, of_strategy = known[group[0]], [row for row in rows if row.name == group[0]]
            xs = [row.nodes for row in of_strategy]
            ys = [_mean(row) * quantity.scale for row in of_strategy]
            axes.plot(xs, ys, color=mark.colour, linestyle=mark.dash, linewidth=1.2)
            for row, x, y in zip(of_strategy, xs, ys, strict=True):
                face = "white" if row.virtual else mark.colour
                style = {"color": mark.colour, "marker": mark.marker, "markerfacecolor": face, "capsize": 2.5}
                axes.errorbar([x], [y], _errors(row, quantity), elinewidth=1, **style)
        drawing.nodes_axis(axes, [row.nodes for row in rows], log=True)
        axes.set_ylabel(quantity.axis)
        entries = [(drawing.named(group), drawing.line(known[group[0]])) for group in groups]
        if virtual:
            hollow = drawing.Mark(INK, "o", "none")
            entries.append(("hollow: virtual nodes", drawing.line(hollow, hollow=True)))
        legend(figure, entries)
        svg = drawing.to_svg(figure, key, f"{title}: a line for each strategy")
    caption = "Filled: nodes at hand. " + (
        "Hollow: virtual nodes, one process that plays all of them with the same arithmetic."
        if virtual
        else "No virtual nodes were run."
    )
    caption += drawing.drawn_once(groups)
    caption = f"{caption} {survivors(rows)}".strip()
    cells = [
        [described(row.name, row.nodes), "virtual" if row.virtual else "real", quantity.value(row.metric.mean)]
        for row in rows
    ]
    return Picture(key, title, caption, svg, ("strategy", "nodes", quantity.label), cells)


def times(results: Results) -> Picture:
    """Where the time goes: one bar for each strategy and number of nodes."""
    key, title = "time", "Where the time goes"
    rows = [row for row in results.table if row.time and not row.virtual]
    if not rows:
        return Picture(key, title, note="No run measured where its time went.")
    totals = [sum(_part(row, part) for part in PARTS) for row in rows]
    looks = zip(PARTS, _PART_COLOURS, _HATCHES, strict=True)
    shown = [look for look in looks if any(_part(row, look[0]) for row in rows)]
    with canvas(drawing.bar_height(len(rows))) as (figure, axes):
        labels = [
            f"{described(row.name, row.nodes, 28)}: {duration(total)}" for row, total in zip(rows, totals, strict=True)
        ]
        drawing.bar_rows(axes, labels)
        for index, row in enumerate(rows):
            left = 0.0
            for part, colour, hatch in shown:
                style = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
                axes.barh([index], [_part(row, part)], left=left, height=0.4, **style)
                left += _part(row, part)
        axes.set_xlabel("seconds")
        axes.set_xlim(0, max(totals) * 1.02 or 1)
        legend(figure, [(part, Patch(facecolor=c, hatch=h, edgecolor="white")) for part, c, h in shown])
        svg = drawing.to_svg(figure, key, f"{title}: a stacked bar for each strategy and number of nodes")
    caption = (
        "Seconds of a run, by what they were spent on (other: to start, compile and validate): the mean over the seeds."
    )
    caption = f"{caption} {survivors(rows)}".strip()
    parts = [part for part, *_ in shown]
    cells = [[described(row.name, row.nodes), *(duration(_part(row, part)) for part in parts)] for row in rows]
    return Picture(key, title, caption, svg, ("strategy", *parts), cells)


def _part(row: Row, part: str) -> float:
    return max(0.0, usable((row.time or {}).get(part)) or 0.0)
