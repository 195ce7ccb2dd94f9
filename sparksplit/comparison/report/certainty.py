"""How sure the answer is: the basis of the verdicts, the open questions, and the notes."""

from __future__ import annotations

from collections.abc import Iterator

from sparksplit.comparison.analysis.verdicts import UNDECIDED
from sparksplit.comparison.answer.content import Question
from sparksplit.comparison.answer.words import named, needed, noted
from sparksplit.comparison.content import Results
from sparksplit.pages import sentence

_DEPENDENT = {
    "windows": "windows over time are no independent sample",
    "text": "sequences of a text are no independent sample",
    "features": "rows that `cut.by: features` keeps together are no independent sample",
    "key": "rows that `cut.by: key` keeps together are no independent sample",
    "time": "rows that are cut by time are no independent sample",
}
"""Why intervals do not hold for other rows, by the manifest's reason."""


def how_sure(results: Results) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each fact."""
    seeds = len(results.seeds)
    verdicts = [*(pair.verdict for pair in results.pairs), *(pair.verdict for pair in results.times)]
    yield "seeds", f"{seeds} for each row, the same seeds for all rows"
    if len(results.looks) > 1:
        looks = ", ".join(map(str, results.looks))
        yield "looks", f"planned after {looks} seeds; the verdicts are those after {seeds}"
    decided = sum(verdict != UNDECIDED for verdict in verdicts)
    yield (
        "decided",
        f"{decided} of {len(verdicts)} differences, judged together: of 100 such pages at most {results.wrong_of_100} "
        "call a row wrongly better, worse, faster or slower",
    )
    if seeds > 1:
        yield "rows", _rows(results)
    for place, question in enumerate(results.answer.open):
        yield "" if place else "open", f"{asked(question)} {needed(question)}"
    for place, note in enumerate(note for note in results.answer.notes if noted(note, results.answer)):
        yield "" if place else "notes", sentence(noted(note, results.answer))


def asked(question: Question) -> str:
    """The question in words."""
    row, other = named(question.name, question.nodes), named(question.against, 1)
    return f"Is {row} faster than {other}?" if question.about == "speed" else f"Does {row} learn as well as {other}?"


def _rows(results: Results) -> str:
    """Return, in words, the rows that the intervals of the metric hold for."""
    told = [pair for pair in results.pairs if pair.low is not None and not pair.virtual]
    alone = sum(pair.rows_error is None for pair in told)
    if not alone:
        return f"intervals hold for other rows of the same kind: the {results.metric.split} rows count as a sample"
    some = "intervals" if alone == len(told) else f"{alone} of {len(told)} intervals"
    why = _DEPENDENT.get(results.data.dependent or "", "how far rows are chance is not known for this metric")
    return f"{some} hold for these very {results.metric.split} rows: {why}"
