"""The pictures of diagnosis.html."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from sparksplit.comparison.numbers import count, percent, usable
from sparksplit.diagnosis.answer import Answer, Gain
from sparksplit.diagnosis.diagnosis_record import Diagnosis, ReadersTable
from sparksplit.diagnosis.settings import written
from sparksplit.diagnosis.tables import times
from sparksplit.pages import drawing
from sparksplit.pages.drawing import COLOURS, GREY, INK, Mark, Picture, canvas, legend

_BLUE, _RED = COLOURS[0], COLOURS[1]
_LOOKS = (
    ("#56B4E9", ""), ("#E69F00", "xx"), ("#D55E00", "//"), ("#009E73", "\\\\"), ("#0072B2", ""), ("#CC79A7", ".."),
    ("#bfbfbf", ""), ("#F0E442", "||"),
)  # fmt: skip
"""The colours and the hatches of the shares, in their order."""


def shares(every: Sequence[tuple[str, float]]) -> Picture:
    """One bar with the shares of the time: (name, share) pairs."""
    key, title = "shares", "Where the time goes"
    shown = [(name, share, look) for (name, share), look in zip(every, cycle(_LOOKS)) if (usable(share) or 0) > 0]
    if not shown:
        return Picture(key, title, note="No share could be measured.")
    with canvas(1.0) as (figure, axes):
        left, entries = 0.0, []
        for name, share, (colour, hatch) in shown:
            axes.barh([0], [100 * share], left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8)
            left += 100 * share
            entries.append((f"{percent(share)} {name}", Patch(facecolor=colour, hatch=hatch, edgecolor="white")))
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(False)
        axes.set_xlim(0, max(100.0, left))
        axes.set_xlabel("% of the time")
        legend(figure, entries)
        svg = drawing.to_svg(figure, key, f"{title}: one bar of its shares")
    rows = [(name, percent(share, 1)) for name, share in every]
    return Picture(key, title, "They add up to all of the time.", svg, ("what", "share"), rows)


def roofline(record: Diagnosis) -> Picture:
    """The throughput of the step as it is, without each part, and with each part alone."""
    key, title = "roofline", "How far the step is from each limit"
    parts, rate = record.parts, record.rows_per_second
    if not parts:
        return Picture(key, title, note="No part of the step could be measured.")
    with canvas(drawing.bar_height(len(parts))) as (figure, axes):
        drawing.bar_rows(axes, [part.name for part in parts])
        axes.set_xscale("log")
        axes.axvline(rate, color=GREY, linewidth=1)
        for row, part in enumerate(parts):
            _with_interval(axes, row, part.gain, rate)
            alone, low, high = (usable(value) for value in (part.rows_per_second, part.low, part.high))
            if low is not None and high is not None:
                axes.plot([low, high], [row, row], color=_RED, linewidth=1.2)
            if alone is not None:
                axes.plot([alone], [row], color=_RED, marker="D", markerfacecolor="white", linestyle="none")
        axes.margins(x=0.08)
        axes.autoscale_view()
        drawing.log_axis(axes.xaxis, count)
        axes.set_xlabel("rows per second, over all nodes")
        entries = [
            (f"the step: {count(rate)} rows/s", drawing.line(Mark(GREY, "", "-"))),
            ("without the part", drawing.line(Mark(INK, "o", "-"))),
            ("with nothing but the part", drawing.line(Mark(_RED, "D", "-"), hollow=True)),
        ]
        legend(figure, entries)
        svg = drawing.to_svg(figure, key, f"{title}: rows per second without each part, and with nothing else")
    caption = (
        "Lines through them: intervals. The further right the dot, the more is gained where the part costs less. The "
        "nearer the diamond is to the line, the less room the part itself leaves."
    )
    small = [part.name for part in parts if usable(part.rows_per_second) is None]
    if small:
        caption += f" Without a diamond, it costs too little to be told from nothing: {', '.join(small)}."
    return Picture(key, title, caption, svg)


def readers(record: Diagnosis) -> Picture:
    """Rows per second over the number of readers, with the knee."""
    key, title = "readers", "The step by readers per node"
    sweep = record.readers
    if sweep is None or not sweep.rows:
        return Picture(key, title, note="Readers were not swept: rows are not read from files while training.")
    with canvas() as (figure, axes):
        now = next((row.rows_per_second for row in sweep.rows if row.readers == sweep.now), None)
        xs, ys = [row.readers for row in sweep.rows], [row.rows_per_second for row in sweep.rows]
        axes.axvline(sweep.knee, color=_RED, linewidth=1.2, linestyle="--")
        axes.plot(xs, ys, color=_BLUE, marker="o")
        for row in sweep.rows:
            low, high = (None, None) if row.gain is None else (usable(row.gain.low), usable(row.gain.high))
            if now is not None and low is not None and high is not None:
                axes.plot([row.readers] * 2, [now * low, now * high], color=_BLUE, marker="_", linewidth=1)
        if now is not None:
            axes.plot([sweep.now], [now], color=INK, marker="s", markersize=9, fillstyle="none", linestyle="none")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: count(value))
        axes.xaxis.set_major_locator(FixedLocator(xs))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("readers per node")
        axes.set_ylabel("rows per second")
        legend(figure, _readers_entries(sweep, now))
        svg = drawing.to_svg(figure, key, f"{title}: rows per second over their number")
    caption = "The knee: the fewest readers that are within 10 % of the fastest."
    if any(row.gain is not None and usable(row.gain.low) is not None for row in sweep.rows):
        caption += " Bars: intervals of the gain over the configured number."
    return Picture(key, title, caption, svg)


def _readers_entries(sweep: ReadersTable, now: float | None) -> list[tuple[str, Any]]:
    entries = [
        ("the whole step", drawing.line(Mark(_BLUE, "o", "-"))),
        (f"the knee: {sweep.knee}", drawing.line(Mark(_RED, "", "--"))),
    ]
    if now is not None:
        entries.append((f"as configured: {sweep.now}", drawing.line(Mark(INK, "s", "none"), hollow=True)))
    return entries


def settings(answer: Answer) -> Picture:
    """The gains of the settings that may help."""
    key, title, every = "gains", "What the settings bring", [*answer.keeping, *answer.changing]
    if not every:
        return Picture(key, title, note="No setting was likely to help, so none was tried.")
    measured = [(advice, advice.gain) for advice in every if advice.gain is not None]
    if not measured:
        return Picture(key, title, note="What may help was not measured.")
    with canvas(drawing.bar_height(len(measured))) as (figure, axes):
        drawing.bar_rows(axes, [written(advice.settings) for advice, _ in measured])
        axes.axvline(1, color=GREY, linewidth=1)
        for row, (_, gain) in enumerate(measured):
            _with_interval(axes, row, gain, 1.0)
        axes.margins(x=0.08)
        axes.autoscale_view(scaley=False)
        axes.xaxis.set_major_formatter(lambda value, _: times(value))
        axes.set_xlabel("times as fast")
        svg = drawing.to_svg(figure, key, f"{title}: how many times as fast, with intervals")
    caption = "Dot: mean of the rounds. Line: its interval. Right of 1 it helps."
    if any(usable(gain.low) is None and not advice.computed for advice, gain in measured):
        caption += " Without a line: too few rounds for an interval."
    if any(advice.computed for advice, _ in measured):
        caption += " A computed gain has no line."
    return Picture(key, title, caption, svg)


def _with_interval(axes: Any, row: int, gain: Gain, unit: float) -> None:
    known = [usable(value) for value in (gain.mean, gain.low, gain.high)]
    drawing.interval_row(axes, row, *(None if value is None else value * unit for value in known))
