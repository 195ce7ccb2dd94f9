"""The tables of diagnosis.html, and how its gains are written."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from sparksplit.base.yaml_edits import as_yaml
from sparksplit.comparison.intervals import interval
from sparksplit.comparison.numbers import MISSING, count, duration, percent, usable
from sparksplit.diagnosis.diagnosis_record import Advice, Diagnosis
from sparksplit.diagnosis.measured import VARIANTS
from sparksplit.diagnosis.verdict import Gain, Part
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


COMPUTED = "computed from the time of one checkpoint"
"""The words after a gain that no run with the settings has shown."""

UNCERTAIN = "not certain"
"""The words in place of a gain whose interval contains 1."""


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


def shares(record: Diagnosis) -> Table:
    """The shares of the step's time."""
    rows = [
        [text(SHARES.get(each.name, each.name)), number(each.share, percent(each.share, 1))]
        for each in record.verdict.shares
    ]
    return Table("shares", "Shares of the step; they add up to all of it", [("what", ""), ("share", "")], rows)


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
        for part in record.verdict.parts
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


def settings(every: Sequence[tuple[str, Advice]], weights: bool = True) -> Table | None:
    """The tried settings, as measured. every: (kind, advice) pairs. weights: whether the settings may change the
    trained weights."""
    if not every:
        return None
    columns = [
        ("settings", ""),
        ("", ""),
        ("times as fast", "the run with them as without; measured in rounds that alternate, or computed"),
        ("interval", "of that, 95 %"),
        ("it helps", "yes if the whole interval is above 1; if measured only once, from 1.1; if computed, above 1"),
        *([("weights", "whether the trained weights stay the same")] if weights else []),
        ("because", ""),
    ]
    rows = [
        [
            text(written(advice)),
            text(kind),
            _times(advice.gain),
            _interval(advice.gain),
            text(_helps(advice)),
            *([text("the same" if kind == "recommended" else "change")] if weights else []),
            text(advice.why),
        ]
        for kind, advice in every
    ]
    return Table("settings", "What was tried", columns, rows)


def advices(record: Diagnosis) -> list[tuple[str, Advice]]:
    """(kind, advice) pairs, where the kind is recommended or proposed."""
    recommended = [] if record.recommended is None else [("recommended", record.recommended)]
    return [*recommended, *(("proposed", advice) for advice in record.proposed)]


def written(advice: Advice) -> str:
    """The settings as they stand in a configuration."""
    return ", ".join(f"{key}: {as_yaml(value)}" for key, value in advice.settings.items())


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
        return f"{'yes' if advice.helps else 'no'}, {COMPUTED}"
    once = ", measured only once" if advice.gain.low is None else ""
    return ("yes" if advice.helps else "no, it is slower" if advice.gain.is_loss else "not for certain") + once


def _interval(gain: Gain | None) -> Cell:
    return number(None, MISSING) if gain is None else number(gain.low, span(gain) or MISSING)


def _named(readers: int, names: dict[str, int]) -> str:
    return " and ".join(name for name, value in names.items() if value == readers)
