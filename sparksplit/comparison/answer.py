"""The answer: two sentences (three if runs diverged), the conditions under which they hold, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

from sparksplit.comparison.content import Answer, Pair, Results, Row
from sparksplit.comparison.numbers import Quantity, compact, count, duration
from sparksplit.comparison.plan import SINGLE

_FEWER = 1.05
"""How many times fewer bytes than `batch` a way must send to be recommended for that."""


def answer(results: Results) -> Answer:
    """The `answer` of results.json, from everything else in it."""
    quantity = Quantity(results.metric.name)
    rows = [row for row in results.table if not row.virtual]
    several = [row for row in rows if row.nodes > 1]
    single = next((row for row in rows if (row.way, row.nodes) == (SINGLE, 1)), None)
    which = _which(results, single, several, quantity) if single and several else _nothing(results, rows, several)
    text = [which, _slow_network(results, several, quantity), *_diverged(rows)]
    return Answer(text, _conditions(results), _certainty(results, quantity))


def _planned(row: Row) -> int:
    """How many runs there are, including those that diverged."""
    return row.runs + row.diverged


def _sent(row: Row) -> float:
    """Bytes that a node sends in a run."""
    return row.bytes_per_node or 0.0


def _to_target(row: Row) -> float | None:
    """Seconds to the target, if every run reached it."""
    to = row.to_target
    return to.seconds if to is not None and to.reached == to.of else None


def _pair(results: Results, row: Row, against: str) -> Pair | None:
    for pair in results.pairs:
        if not pair.virtual and (pair.way, pair.nodes, pair.against) == (row.way, row.nodes, against):
            return pair
    return None


def _is_as_good(results: Results, row: Row, against: str) -> bool:
    pair = _pair(results, row, against)
    return pair is not None and pair.verdict in ("better", "no difference")


def _nothing(results: Results, rows: Sequence[Row], several: Sequence[Row]) -> str:
    """Why no way can be compared with one node."""
    alone = [f"`{row.way}`" for row in rows if row.nodes == 1]
    text = "Nothing was compared: that takes `single` and a way on several nodes. "
    if several and alone:
        return (
            text + f"On one node only {', '.join(alone)} was run, with keys of its own: add `single` to `strategies`."
        )
    if several:
        return text + "Add 1 to `nodes`."
    if max(results.nodes) > 1:
        return text + "Add a way of several nodes to `strategies`."
    return text + "Add a number above 1 to `nodes`."


def _which(results: Results, single: Row, several: Sequence[Row], quantity: Quantity) -> str:
    steady = [row for row in several if not row.diverged]
    if not single.runs:
        done = ", ".join(f"`{row.way}` on {row.nodes}" for row in steady)
        return (
            f"Every run of `single` diverged ({_seeds(single)}), so that no way can be compared with one node: try a "
            f"smaller `optimizer.learning_rate`. " + (f"No run diverged of: {done}." if done else "No way was safe.")
        )
    if single.diverged:
        stay = f"Nothing is recommended, since `single` diverged, too ({_seeds(single)})"
        beside = f", where `single` diverged with {_seeds(single)}"
    else:
        stay, beside = "Stay on one node", ""
    if not steady:
        return f"{stay}: every way on several nodes diverged in some of its runs."
    # A target that even one node misses says nothing about the others: then the whole training counts.
    to_target = _to_target(single)
    alone = single.seconds if to_target is None else to_target
    assert alone is not None
    goal = "in all" if to_target is None else "to the target"
    found = [(row.seconds if to_target is None else _to_target(row), row) for row in steady]
    times = [(seconds, row) for seconds, row in found if seconds is not None]
    if not times:
        return f"{stay}: no way on several reached the target of {_target(results, quantity)} in every run."
    seconds, fastest = min(times, key=lambda item: item[0])
    if seconds >= alone:
        return (
            f"{stay}: the fastest way on several, `{fastest.way}` on {fastest.nodes}, takes "
            f"{duration(seconds)} {goal}, where one node takes {duration(alone)}."
        )
    good = [(seconds, row) for seconds, row in times if seconds < alone and _is_as_good(results, row, SINGLE)]
    if not good:
        return (
            f"{stay}, or see whether `{fastest.way}` on {fastest.nodes} is good enough: it takes "
            f"{duration(seconds)} {goal}, where one node takes {duration(alone)}, but "
            f"{_quality(results, fastest, SINGLE, quantity)}."
        )
    seconds, best = min(good, key=lambda item: item[0])
    return (
        f"Split the work by `{best.way}` on {best.nodes} nodes: it takes {duration(seconds)} {goal}, where one "
        f"node takes {duration(alone)} ({compact(alone / seconds)} times as fast), and "
        f"{_quality(results, best, SINGLE, quantity)}{beside}."
    )


def _seeds(row: Row) -> str:
    """Such as `2 of 5 seeds`: with how many of them the way diverged."""
    planned = _planned(row)
    return f"{row.diverged} of {planned} seed{'s' if planned > 1 else ''}"


def _diverged(rows: Sequence[Row]) -> Iterator[str]:
    """Which ways must not be used, whatever those of their runs that ended well say."""
    found = [f"`{row.way}` on {row.nodes} ({_seeds(row)})" for row in rows if row.diverged]
    if found:
        yield f"Not recommended, because the loss or the metric was no longer a number: {', '.join(found)}."


def _quality(results: Results, row: Row, against: str, quantity: Quantity) -> str:
    pair = _pair(results, row, against)
    if pair is None:
        return f"there is nothing to compare its {quantity.label} with"
    interval = "" if pair.low is None else f", 95 % interval {quantity.interval(pair.low, pair.high)}"
    some = "" if pair.seeds == pair.of else f", over the {pair.seeds} of {pair.of} seeds that both finished"
    difference = f"({quantity.difference(pair.mean)}{interval}{some})"
    what = {
        "no difference": f"its {quantity.label} is the same as `{against}`'s within the margin {difference}",
        "better": f"its {quantity.label} is better than `{against}`'s {difference}",
        "worse": f"its {quantity.label} is worse than `{against}`'s {difference}",
        "undecided": f"whether its {quantity.label} differs from `{against}`'s is undecided {difference}",
    }
    return what[pair.verdict]


def _slow_network(results: Results, several: Sequence[Row], quantity: Quantity) -> str:
    batch = {row.nodes: row for row in several if row.way == "batch" and row.runs}
    others = [
        row for row in several
        if row.way != "batch" and not row.diverged and row.nodes in batch and _sent(row) > 0
    ]  # fmt: skip
    if not others:
        return (
            "What a slow network would change was not compared: that takes `batch` and another way on as many nodes, "
            "which does not diverge."
        )
    sign = 1 if results.metric.higher_is_better else -1

    def times(row: Row) -> float:
        return _sent(batch[row.nodes]) / _sent(row)

    def gain(row: Row) -> float:
        pair = _pair(results, row, "batch")
        return sign * pair.mean if pair else -math.inf

    fewer = [row for row in others if times(row) >= _FEWER]
    if not fewer:
        return "On a slow network nothing is gained: no way sends fewer bytes than `batch` on as many nodes."
    # Of the ways that lose nothing, the one that sends least, beside `batch`; otherwise the one that loses least.
    good = [row for row in fewer if _is_as_good(results, row, "batch")]
    best = max(good, key=times) if good else max(fewer, key=gain)
    return (
        f"On a slow network `{best.way}` sends {compact(times(best))} times fewer bytes than `batch` on "
        f"{best.nodes} nodes, and {_quality(results, best, 'batch', quantity)}."
    )


def _target(results: Results, quantity: Quantity) -> str:
    return f"{quantity.value(None if results.target is None else results.target.value)} {quantity.label}"


def _conditions(results: Results) -> str:
    data, machine = results.data, results.machine
    parts = [
        f"{results.model} on {data.path} ({count(data.rows['train'])} training rows)",
        f"{count(results.epochs.run)} passes, mini-batches of {count(cast(int, results.config['batch_size']))} rows",
        f"{', '.join(map(str, results.nodes))} nodes, driver on a host with {machine.cores} cores",
    ]
    if results.target is not None:
        parts.append(f"target {_target(results, Quantity(results.metric.name))} on the validation rows")
    return "; ".join(parts) + ". Another model, other data or another network may turn it round."


def _certainty(results: Results, quantity: Quantity) -> str:
    metric, seeds = results.metric, len(results.seeds)
    where = f"{quantity.label} of the {metric.split} rows"
    if metric.split != "test":
        where += " (there are no test rows; the target comes from them too)"
    if seeds < 2:
        return f"One seed for each way ({where}): no interval can be told, so no difference in quality is decided."
    margin = quantity.difference(metric.margin).lstrip("+")
    pairs = [pair for pair in results.pairs if not pair.virtual]
    decided = sum(pair.verdict != "undecided" for pair in pairs)
    lost = sum(row.diverged for row in results.table if not row.virtual)
    left = f", less {count(lost)} that diverged" if lost else ""
    step = metric.resolution
    least = quantity.difference(step).lstrip("+")
    wide = f", and reach at least {least}, the least that can differ, to each side" if step else ""
    return (
        f"{seeds} seeds for each way, the same for all{left}; differences in {where} are paired, with 95 % intervals"
        f"{wide}, and count as none only where the whole interval lies within {margin}. {decided} of {len(pairs)} "
        "differences are decided."
    )
