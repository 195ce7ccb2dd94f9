"""The page's tables about the hyperparameter search: the chosen values, and all tries."""

from __future__ import annotations

from sparksplit.comparison.content import Results
from sparksplit.comparison.numbers import MISSING, Quantity, compact, count
from sparksplit.comparison.tuning import said
from sparksplit.comparison.tuning.tries import name_of
from sparksplit.comparison.tuning.tuning_record import TunedStrategy
from sparksplit.pages.tables import Cell, Table, number, text


def chosen(results: Results) -> Table | None:
    """Return a table of the chosen values, a line for each strategy; None without a search."""
    if results.tuning is None:
        return None
    quantity = Quantity(results.tuning.metric)
    keys = _keys(results)
    rows = []
    for tuned in results.tuning.strategies:
        best = None if tuned.chosen is None else tuned.tries[tuned.chosen]
        known = [one.metric for one in tuned.tries if one.metric is not None]
        lost = len(tuned.tries) - len(known)
        rows.append(
            [
                text(_name(tuned)),
                number(tuned.nodes, count(tuned.nodes)),
                *(_value(None if best is None else best.values.get(key)) for key in keys),
                number(None if best is None else best.metric, quantity.value(None if best is None else best.metric)),
                text(f"{quantity.value(min(known))} to {quantity.value(max(known))}" if known else MISSING),
                number(lost, count(lost)),
                text("; ".join(said.edges_of(tuned)) or "no"),
                text(", ".join(tuned.also).replace("`", "")),
            ]
        )
    columns = [
        ("strategy", ""),
        ("N", "nodes"),
        *((name_of(key), "chosen") for key in keys),
        (f"validation {quantity.label}", "at the end: what the choice was made by"),
        ("all tries", "the same, from the lowest to the highest"),
        ("diverged", "tries"),
        (
            "at an edge",
            "of what the lowest or the highest value that was tried was best: a better one may lie beyond it",
        ),
        ("also for", "the same on any number of nodes"),
    ]
    used = [index for index, (name, _) in enumerate(columns) if name != "also for" or any(row[-1].text for row in rows)]
    caption = f"What each strategy was given: the best of {results.tuning.tries} tries, by the validation rows"
    return Table(
        "tuned", caption, [columns[index] for index in used], [[row[index] for index in used] for row in rows], True
    )


def tries(results: Results) -> Table | None:
    """Every try."""
    if results.tuning is None:
        return None
    quantity = Quantity(results.tuning.metric)
    keys = _keys(results)
    rows = [
        [
            text(_name(tuned)),
            number(tuned.nodes, count(tuned.nodes)),
            *(_value(one.values.get(key)) for key in keys),
            number(one.metric, "diverged" if one.metric is None else quantity.value(one.metric)),
            text("chosen" if place == tuned.chosen else ""),
        ]
        for tuned in results.tuning.strategies
        for place, one in enumerate(tuned.tries)
    ]
    names = [("strategy", ""), ("N", "nodes"), *((name_of(key), "") for key in keys)]
    columns = [*names, (f"validation {quantity.label}", "at the end"), ("", "")]
    return Table("tries", "Every try. Choose a column's name to sort by it.", columns, rows, sortable=True)


def _keys(results: Results) -> list[str]:
    strategies = results.tuning.strategies if results.tuning is not None else []
    return list(dict.fromkeys(key for tuned in strategies for key in tuned.ranges))


def _name(tuned: TunedStrategy) -> str:
    return tuned.name + (" (virtual)" if tuned.virtual else "")


def _value(value: float | None) -> Cell:
    return number(value, compact(value))
