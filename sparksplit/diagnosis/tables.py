"""The tables of diagnosis.html, and how its gains are written."""

from __future__ import annotations

from statistics import fmean

from rich.markup import escape
from rich.table import Table as TerminalTable

from sparksplit.comparison.intervals import interval
from sparksplit.comparison.numbers import MISSING, count, duration, percent, usable
from sparksplit.diagnosis.answer import Advice, Answer, Gain
from sparksplit.diagnosis.diagnosis_record import Diagnosis
from sparksplit.diagnosis.measured import VARIANTS
from sparksplit.diagnosis.settings import written
from sparksplit.diagnosis.verdict import Part
from sparksplit.pages.tables import Cell, Table, number, text

SHARES = {
    "rows": "waiting for rows",
    "copy": "copying rows to the device",
    "synchronise": "synchronising with the other nodes",
    "forward and backward": "the model's forward and backward pass",
    "optimizer": "the optimizer",
    "hand-off": "Spark's hand-off, as much of it as falls to one pass",
}
"""The shares of the step in words, by their name in the record."""


UNCERTAIN = "not certain"
"""The words in place of a gain whose interval contains 1."""


def on_terminal(table: Table) -> TerminalTable:
    """Return a table of the page for the terminal."""
    shown = TerminalTable(box=None, pad_edge=False)
    for (name, _), is_number in zip(table.columns, table.numeric, strict=True):
        shown.add_column(name, justify="right" if is_number else "left")
    for row in table.rows:
        shown.add_row(*(escape(cell.text) for cell in row))
    return shown


def cost(gain: Gain) -> str:
    """Return the words for a part that may cost nothing, in place of its gain."""
    return "nothing" if gain.is_loss else UNCERTAIN


def times(value: float | None) -> str:
    """How many times as fast: 1.42"""
    value = usable(value)
    return MISSING if value is None else f"{value:.2f}"


def span(gain: Gain) -> str:
    """1.31 to 1.55; '' without an interval."""
    low, high = usable(gain.low), usable(gain.high)
    return "" if low is None or high is None else f"{times(low)} to {times(high)}"


def rates(part: Part) -> str:
    """The interval of a part's rows/s alone; '' without one."""
    low, high = usable(part.low), usable(part.high)
    return "" if low is None or high is None else f"{count(low)} to {count(high)}"


def parts(record: Diagnosis) -> Table:
    """The distance of the step from each of its parts alone."""
    columns = [
        ("part", ""),
        ("without it", "how many times as fast the step would be if this part cost nothing"),
        ("interval", "of that, 95 %"),
        ("rows/s alone", "over all nodes, if there were nothing but this part"),
        ("its interval", "95 %"),
        ("reached", "the step's share of that: near 100 %, the part leaves no room"),
    ]
    rows = [
        [
            text(part.name),
            _times(part.gain) if part.gain.is_certain else number(None, cost(part.gain)),
            _interval(part.gain),
            number(part.rows_per_second, count(part.rows_per_second)),
            number(part.low, rates(part) or MISSING),
            number(part.reached, percent(part.reached)),
        ]
        for part in record.parts
    ]
    return Table("parts", "The parts of the step, each left out and each alone", columns, rows)


def readers(record: Diagnosis) -> Table | None:
    """The sweep of readers."""
    sweep = record.readers
    if sweep is None:
        return None
    columns = [
        ("readers", "per node"),
        ("rows/s", "of the whole step"),
        ("times as fast", "as with the configuration's number"),
        ("interval", "of that, 95 %"),
        ("", ""),
    ]
    rows = [
        [
            number(row.readers, count(row.readers)),
            number(row.rows_per_second, count(row.rows_per_second)),
            _against(row.gain, row.readers == sweep.now),
            _interval(row.gain),
            text(_named(row.readers, {"as configured": sweep.now, "the knee": sweep.knee})),
        ]
        for row in sweep.rows
    ]
    return Table("readers", "The whole step by the number of readers per node", columns, rows)


def settings(answer: Answer) -> Table | None:
    """The settings that may help, as measured."""
    if not answer.keeping and not answer.changing:
        return None
    columns = [
        ("settings", ""),
        ("times as fast", "the run with them as without; measured in rounds that alternate, or computed"),
        ("interval", "of that, 95 %"),
        ("it helps", "yes if the whole interval is above 1; if measured only once, from 1.1; if computed, above 1"),
        ("the result", "whether it stays the same: the trained weights, or the prepared rows"),
        ("because", ""),
    ]
    rows = [
        [
            text(written(advice.settings)),
            _times(advice.gain),
            _interval(advice.gain),
            text(_helps(advice)),
            text(result),
            text(advice.why),
        ]
        for some, result in ((answer.keeping, "the same"), (answer.changing, "changes"))
        for advice in some
    ]
    return Table("settings", "What may help, as it was tried", columns, rows)


def variants(record: Diagnosis) -> Table:
    """The measurements: the step with parts left out."""
    columns = [
        ("measured", ""),
        ("what it is", ""),
        ("time per row", "of the whole mini-batch, over all nodes; the mean of the rounds"),
        ("interval", "of that, 95 %"),
        ("rows/s", "over all nodes"),
        ("rounds", ""),
    ]
    rows = []
    for name, seconds in record.measured.seconds.items():
        mean, low, high = interval(seconds)
        rows.append(
            [
                text(name.replace("_", " ")),
                text(VARIANTS.get(name, "")),
                number(mean, duration(mean)),
                number(low, MISSING if low is None else f"{duration(max(0.0, low))} to {duration(high)}"),
                number(1 / fmean(seconds), count(1 / fmean(seconds))),
                number(len(seconds), count(len(seconds))),
            ]
        )
    return Table("variants", "What was measured, in rounds one after the other", columns, rows)


def _times(gain: Gain | None) -> Cell:
    return number(None, MISSING) if gain is None else number(gain.mean, times(gain.mean))


def _against(gain: Gain | None, is_now: bool) -> Cell:
    """The speed-up over the configured number of readers, if it is certain."""
    if gain is None or is_now or gain.is_certain or gain.is_loss:
        return _times(gain)
    return number(None, UNCERTAIN)


def _helps(advice: Advice) -> str:
    if advice.gain is None:
        return "not measured" if advice.failed is None else "could not be tried"
    if advice.computed:
        return f"{'yes' if advice.helps else 'no'}, computed"
    once = ", measured only once" if advice.gain.low is None else ""
    return ("yes" if advice.helps else "no, it is slower" if advice.gain.is_loss else "not for certain") + once


def _interval(gain: Gain | None) -> Cell:
    return number(None, MISSING) if gain is None else number(gain.low, span(gain) or MISSING)


def _named(readers: int, names: dict[str, int]) -> str:
    return " and ".join(name for name, value in names.items() if value == readers)
