"""A diagnosis on the terminal: the limit of the run, the cost of each part, and the settings that would help."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from sparksplit.comparison.numbers import MISSING, compact, count, duration, percent
from sparksplit.diagnosis.diagnosis_record import Advice, Diagnosis, ReadersTable
from sparksplit.diagnosis.settings import written
from sparksplit.diagnosis.tables import COMPUTED, UNCERTAIN, cost
from sparksplit.diagnosis.verdict import Gain, Verdict


def show(diagnosis: Diagnosis, console: Console, files: Sequence[str]) -> None:
    """Print the diagnosis. files: the files that hold it."""

    def say(text: str = "") -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    verdict = diagnosis.verdict
    say(verdict.sentence)
    say()
    say(f"{count(verdict.rows_per_second)} rows/s; of the time: {shares(verdict)}")
    console.print(_parts(verdict), highlight=False)
    if diagnosis.readers is not None:
        say()
        console.print(_readers(diagnosis.readers), highlight=False)
    say()
    say(f"recommended, and the trained weights stay the same: {advised(diagnosis.recommended)}")
    if diagnosis.proposed:
        say("proposed, but it changes the trained weights:")
        for each in diagnosis.proposed:
            say(f"  {advised(each)}")
    if diagnosis.compare is not None:
        say("which of them learns as well, this decides:")
        say(f"  {diagnosis.compare}")
    for note in diagnosis.notes:
        say(f"note: {note}")
    facts = diagnosis.measured.facts
    nodes = "1 node" if facts.nodes == 1 else f"{facts.nodes} nodes"
    rounds = len(diagnosis.measured.seconds["full"])
    say(f"measured on {nodes} in {rounds} interleaved rounds, {duration(diagnosis.seconds)} in all")
    say(", ".join(files))


def shares(verdict: Verdict) -> str:
    """The shares, such as 61 % waiting for rows, 2 % copy, ..."""
    words = {"rows": "waiting for rows"}
    return ", ".join(f"{percent(share.share)} {words.get(share.name, share.name)}" for share in verdict.shares)


def times(gain: Gain | None) -> str:
    """A gain, such as 1.52 times as fast (1.40 to 1.65)"""
    if gain is None:
        return "not measured"
    return f"{_two(gain.mean)} times as fast ({_interval(gain).replace(MISSING, 'no interval')})"


def advised(advice: Advice | None) -> str:
    """The settings, the reason and the gain, such as readers=4 (...): 1.52 times as fast (1.40 to 1.65)"""
    if advice is None:
        return "nothing"
    text = f"{written(advice.settings)} ({advice.why}): "
    if advice.failed is not None:
        return f"{text}could not be tried: {advice.failed}"
    if advice.computed and advice.gain is not None:
        return f"{text}{_two(advice.gain.mean)} times as fast, {COMPUTED}"
    return f"{text}{times(advice.gain)}{advice.doubt and '; '}{advice.doubt}"


def _parts(verdict: Verdict) -> Table:
    table = _table("part", "without it", "95 % interval", "alone, rows/s", "the step reaches")
    for part in verdict.parts:
        rate = count(part.rows_per_second), percent(part.reached)
        without = f"x {_two(part.gain.mean)}" if part.gain.is_certain else cost(part.gain)
        table.add_row(part.name, without, _interval(part.gain), *rate)
    return table


def _readers(readers: ReadersTable) -> Table:
    table = _table("readers", "rows/s", "against now", "95 % interval", "")
    for row in readers.rows:
        marks = [word for word, place in (("now", readers.now), ("knee", readers.knee)) if row.readers == place]
        gain = None if row.readers == readers.now else row.gain
        against = MISSING if gain is None else UNCERTAIN
        if gain is not None and (gain.is_certain or gain.is_loss):
            against = f"x {_two(gain.mean)}"
        table.add_row(str(row.readers), count(row.rows_per_second), against, _interval(gain), ", ".join(marks))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if name and place else "left", no_wrap=True)
    return table


def _interval(gain: Gain | None) -> str:
    if gain is None or gain.low is None or gain.high is None:
        return MISSING
    return f"{_two(gain.low)} to {_two(gain.high)}"


def _two(value: float | None) -> str:
    """A number below 10 with two decimals. A larger number with three digits."""
    return MISSING if value is None else f"{value:.2f}" if value < 10 else compact(value)
