"""How sure the answer is: the basis of the verdicts, the open questions, and the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparksplit.comparison.analysis.verdicts import UNDECIDED
from sparksplit.comparison.answer.words import needed, noted, whether
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import Pair, TimePair
from sparksplit.pages import sentence


def how_sure(results: Results) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each fact."""
    seeds, virtual = len(results.seeds), [row for row in results.table if row.virtual]
    real = " on real nodes" if virtual else ""
    yield "seeds", f"{seeds} for each row{real}, the same for all of them"
    if len(results.looks) > 1:
        looks = ", ".join(map(str, results.looks))
        yield "looks", f"planned after {looks} seeds; the verdicts are those after {seeds}"
    judged: list[Pair | TimePair] = [*(pair for pair in results.pairs if not pair.virtual), *results.times]
    yield (
        "decided",
        f"{_decided(judged)} differences{real}, judged together: of 100 such pages at most {results.wrong_of_100} "
        f"call a row{real} wrongly better, worse, faster or slower",
    )
    if virtual:
        runs = max(row.runs + row.diverged for row in virtual)
        decided = _decided([pair for pair in results.pairs if pair.virtual])
        yield (
            "virtual nodes",
            f"{runs} seed{'s' if runs > 1 else ''} for each row; {decided} differences, judged apart from the others: "
            f"of 100 such pages at most {results.wrong_of_100} call a row on virtual nodes wrongly better or worse",
        )
    if seeds > 1:
        yield "rows", _rows(results)
    for place, question in enumerate(results.answer.open):
        yield "" if place else "open", f"{whether(question, results)}. {needed(question)}"
    for place, note in enumerate(results.answer.notes):
        yield "" if place else "notes", sentence(noted(note, results))


def _decided(pairs: Sequence[Pair | TimePair]) -> str:
    """How many of the differences are decided, such as `4 of 5`."""
    return f"{sum(pair.verdict != UNDECIDED for pair in pairs)} of {len(pairs)}"


def _rows(results: Results) -> str:
    """Return, in words, the rows that the intervals of the metric hold for."""
    told = [pair for pair in results.pairs if pair.low is not None and not pair.virtual]
    alone = sum(pair.rows_error is None for pair in told)
    if not alone and results.data.dependent is None:
        return f"intervals hold for other rows of the same kind: the {results.metric.split} rows count as a sample"
    some = "intervals" if alone == len(told) else f"{alone} of {len(told)} intervals"
    why = "these rows depend on each other" if results.data.dependent else "this metric does not tell of other rows"
    return f"{some} hold for these very {results.metric.split} rows: {why}"
