"""Pictures of the cost model: the time to the target beyond the nodes at hand, and the model's errors."""

from __future__ import annotations

import math
from typing import Any

from sparksplit.comparison.content import Results
from sparksplit.comparison.content_costs import Prediction
from sparksplit.comparison.numbers import MISSING, duration, plain, signed, size, usable
from sparksplit.comparison.report.charts import described, strategy_marks
from sparksplit.pages import drawing
from sparksplit.pages.drawing import GREY, INK, Picture, canvas, legend

_NO_MODEL = "There is no cost model in these results, so nothing is predicted."


def predictions(results: Results) -> list[Picture]:
    """Time to the target over N: a picture for each bandwidth of the network, all with the same axes."""
    predicted = results.cost_model.predictions if results.cost_model else []
    title = "Time to the target"
    if not predicted:
        note = "No time to a target was predicted: that takes a target, virtual nodes and a cost model."
        return [Picture("prediction", title, note=note)]
    speeds = sorted({item.gbit_per_s for item in predicted if item.gbit_per_s is not None})
    return [_prediction(results, predicted, speed, f"{title} at {speed:g} Gbit/s") for speed in speeds] or [
        _prediction(results, predicted, None, f"{title} on the network at hand")
    ]


def _prediction(results: Results, predicted: list[Prediction], speed: float | None, title: str) -> Picture:
    key = f"prediction-{speed or 'here'}".replace(".", "-")
    # Times that were measured on the network at hand have no bandwidth, and belong in every picture.
    here = [item for item in predicted if item.gbit_per_s in (speed, None)]
    reached = [item for item in here if usable(item.seconds)]
    cells = [_prediction_cells(item) for item in here]
    columns = ("strategy", "seconds", "passes", "")
    if not reached:
        return Picture(key, title, note="No strategy reaches the target in every run.", columns=columns, rows=cells)
    known = strategy_marks(results)
    names = [strategy for strategy in known if any(item.name == strategy for item in reached)]
    every = [seconds for item in predicted if (seconds := usable(item.seconds))]
    lines = {
        strategy: sorted(
            (math.log(item.nodes), math.log(item.seconds or 1.0)) for item in reached if item.name == strategy
        )
        for strategy in names
    }
    widest = max(item.nodes for item in predicted)
    groups = drawing.coinciding(lines, math.log(widest), math.log(1.96 * max(every) / min(every)))
    with canvas() as (figure, axes):
        axes.set_yscale("log")
        for strategy, *_ in groups:
            _prediction_line(axes, known[strategy], [item for item in reached if item.name == strategy])
        axes.set_ylim(min(every) / 1.4, max(every) * 1.4)
        drawing.nodes_axis(axes, [item.nodes for item in predicted], log=True)
        drawing.log_axis(axes.yaxis, duration)
        axes.set_ylabel("time to the target")
        entries = [(drawing.named(group), drawing.line(known[group[0]])) for group in groups]
        entries += [("filled: measured", drawing.line(drawing.Mark(INK, "o", "none")))]
        entries += [("hollow: predicted", drawing.line(drawing.Mark(INK, "o", "none"), hollow=True))]
        legend(figure, entries)
        svg = drawing.to_svg(figure, key, f"{title}: a line for each strategy over the number of nodes")
    never = list(dict.fromkeys(item.name for item in here if not usable(item.seconds)))
    caption = f"No point where not every run reaches the target ({'; '.join(never)})." if never else ""
    caption = (caption + drawing.drawn_once(groups)).strip()
    return Picture(key, title, caption, svg, columns, cells)


def _prediction_line(axes: Any, mark: drawing.Mark, items: list[Prediction]) -> None:
    items = sorted(items, key=lambda item: item.nodes)
    xs, ys = [item.nodes for item in items], [item.seconds for item in items]
    axes.plot(xs, ys, color=mark.colour, linestyle=mark.dash, linewidth=1.2)
    for item in items:
        face = mark.colour if item.measured else "white"
        style = {"color": mark.colour, "marker": mark.marker, "markerfacecolor": face}
        axes.plot([item.nodes], [item.seconds], linestyle="none", **style)


def _prediction_cells(item: Prediction) -> list[str]:
    missed = f"reached by {item.reached} of {item.of}" if item.reached else "not reached"
    seconds = duration(item.seconds) if usable(item.seconds) else missed
    return [
        described(item.name, item.nodes),
        seconds,
        plain(item.passes, 3),
        "measured" if item.measured else "predicted",
    ]


def checks(results: Results) -> Picture:
    """The model's prediction beside the measurement, for each checked line of the table."""
    key, title = "checks", "The cost model against measurement"
    checks = results.cost_model.checks if results.cost_model else []
    checks = [item for item in checks if usable(item.measured) and usable(item.predicted) is not None]
    if not checks:
        return Picture(
            key,
            title,
            note="The cost model was not checked against any run." if results.cost_model else _NO_MODEL,
        )
    with canvas(drawing.bar_height(len(checks))) as (figure, axes):
        drawing.bar_rows(axes, [f"{described(item.name, item.nodes, 28)}: {_error(item.error)}" for item in checks])
        for row, item in enumerate(checks):
            ends = [item.measured, item.predicted]
            axes.plot(ends, [row, row], color=GREY, linewidth=1.2)
            axes.plot(ends[:1], [row], color=INK, marker="o")
            axes.plot(ends[1:], [row], color=drawing.COLOURS[1], marker="D", markerfacecolor="white")
        axes.set_xlim(0, max(max(item.measured, item.predicted) for item in checks) * 1.05 or 1)
        axes.set_xlabel("seconds of training, with waiting for rows")
        measured, predicted = drawing.Mark(INK, "o", "none"), drawing.Mark(drawing.COLOURS[1], "D", "none")
        legend(figure, [("measured", drawing.line(measured)), ("predicted", drawing.line(predicted, hollow=True))])
        svg = drawing.to_svg(figure, key, f"{title}: two points for each strategy and number of nodes")
    cells = [
        [
            described(item.name, item.nodes),
            duration(item.measured),
            duration(item.predicted),
            _error(item.error),
            f"{duration(item.reading)}, {duration(item.reading_predicted)}",
            "other numbers of nodes" if item.left_out else "these runs, too",
        ]
        for item in checks
    ]
    columns = ("strategy", "measured", "predicted", "error", "of these, waiting for rows", "fitted to")
    caption = "The error is the prediction's, in per cent of the measurement. "
    if all(item.left_out for item in checks):
        caption += "Each is by a model that was fitted to other numbers of nodes only."
    elif any(item.left_out for item in checks):
        caption += "Some are by a model that was fitted to other numbers of nodes only: the table has which."
    else:
        caption += "The model was fitted to these very runs."
    return Picture(key, title, caption, svg, columns, cells)


def _error(fraction: float | None) -> str:
    fraction = usable(fraction)
    return MISSING if fraction is None else signed(f"{abs(100 * fraction):.1f} %", fraction)


def sweep(results: Results) -> Picture:
    """Seconds of one all-reduce against its bytes."""
    key, title = "sweep", "One all-reduce over its size"
    sums = results.cost_model.sweep if results.cost_model else []
    sums = [item for item in sums if usable(item.seconds) and item.bytes > 0]
    if not sums:
        return Picture(key, title, note="No all-reduce was measured by itself." if results.cost_model else _NO_MODEL)
    nodes = sorted({item.nodes for item in sums})
    known = drawing.marks(f"{count} nodes" for count in nodes)
    with canvas() as (figure, axes):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for count, mark in zip(nodes, known.values(), strict=True):
            points = sorted((item.bytes, item.seconds) for item in sums if item.nodes == count)
            style = {"color": mark.colour, "linestyle": mark.dash, "marker": mark.marker}
            axes.plot([point[0] for point in points], [point[1] for point in points], **style)
        drawing.log_axis(axes.xaxis, size)
        drawing.log_axis(axes.yaxis, duration)
        axes.set_xlabel("bytes summed over the nodes")
        axes.set_ylabel("time")
        legend(figure, [(name, drawing.line(mark)) for name, mark in known.items()])
        svg = drawing.to_svg(figure, key, f"{title}: a line for each number of nodes")
    cells = [[str(item.nodes), size(item.bytes), duration(item.seconds)] for item in sums]
    return Picture(key, title, "Both axes are logarithmic.", svg, ("nodes", "bytes", "time"), cells)
