"""The answer: two sentences, the conditions under which they hold, and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comparison.numbers import Quantity, compact, count, duration

Results = Mapping[str, Any]
Row = Mapping[str, Any]


def answer(results: Results) -> dict[str, Any]:
    """The `answer` of results.json, from everything else there."""
    quantity = Quantity(results["metric"]["name"])
    rows = [row for row in results["table"] if not row["virtual"]]
    single = next((row for row in rows if row["nodes"] == 1), None)
    several = [row for row in rows if row["nodes"] > 1]
    if single is None or not several:
        text = ["Nothing was compared: that takes `single` and a way on several nodes.", "Give `nodes` two numbers."]
    else:
        text = [_which(results, single, several, quantity), _slow_network(results, several, quantity)]
    return {"text": text, "conditions": _conditions(results, rows), "certainty": _certainty(results, quantity)}


def _to_target(row: Row) -> float | None:
    """Seconds to the target, where every run reached it."""
    to = row["to_target"]
    return to["seconds"] if to is not None and to["reached"] == row["runs"] else None


def _pair(results: Results, row: Row, against: str) -> Mapping[str, Any] | None:
    for pair in results["pairs"]:
        if (pair["way"], pair["nodes"], pair["against"]) == (row["way"], row["nodes"], against):
            return dict(pair)
    return None


def _as_good(results: Results, row: Row) -> bool:
    pair = _pair(results, row, "single")
    return pair is not None and pair["verdict"] in ("better", "no difference")


def _which(results: Results, single: Row, several: Sequence[Row], quantity: Quantity) -> str:
    # A target that one node itself misses says nothing about the others: then the whole training counts.
    to_target = _to_target(single)
    alone = float(single["seconds"]) if to_target is None else to_target
    goal = "in all" if to_target is None else "to the target"
    found = [(float(row["seconds"]) if to_target is None else _to_target(row), row) for row in several]
    times = [(seconds, row) for seconds, row in found if seconds is not None]
    if not times:
        target = _target(results, quantity)
        return f"Stay on one node: no way on several reached the target of {target} in every run."
    seconds, fastest = min(times, key=lambda item: item[0])
    if seconds >= alone:
        return (
            f"Stay on one node: the fastest way on several, `{fastest['way']}` on {fastest['nodes']}, takes "
            f"{duration(seconds)} {goal}, where one node takes {duration(alone)}."
        )
    good = [(seconds, row) for seconds, row in times if seconds < alone and _as_good(results, row)]
    if not good:
        return (
            f"Stay on one node, or see whether `{fastest['way']}` on {fastest['nodes']} is good enough: it takes "
            f"{duration(seconds)} {goal}, where one node takes {duration(alone)}, but "
            f"{_quality(results, fastest, 'single', quantity)}."
        )
    seconds, best = min(good, key=lambda item: item[0])
    return (
        f"Split the work by `{best['way']}` on {best['nodes']} nodes: it takes {duration(seconds)} {goal}, where one "
        f"node takes {duration(alone)} ({compact(alone / seconds)} times as fast), and "
        f"{_quality(results, best, 'single', quantity)}."
    )


def _quality(results: Results, row: Row, against: str, quantity: Quantity) -> str:
    pair = _pair(results, row, against)
    if pair is None:
        return f"there is nothing to compare its {quantity.label} with"
    interval = "" if pair["low"] is None else f", 95 % interval {quantity.interval(pair['low'], pair['high'])}"
    difference = f"({quantity.difference(pair['mean'])}{interval})"
    what = {
        "no difference": f"its {quantity.label} is the same as `{against}`'s within the margin {difference}",
        "better": f"its {quantity.label} is better than `{against}`'s {difference}",
        "worse": f"its {quantity.label} is worse than `{against}`'s {difference}",
        "undecided": f"whether its {quantity.label} differs from `{against}`'s is undecided {difference}",
    }
    return what[pair["verdict"]]


def _slow_network(results: Results, several: Sequence[Row], quantity: Quantity) -> str:
    batch = next((row for row in several if row["way"] == "batch"), None)
    others = [row for row in several if row is not batch and row["bytes_per_node"] > 0]
    if batch is None or not others:
        return "What a slow network would change was not compared: that takes `batch` and another way."
    # Of the ways that lose nothing the one that sends least; else the one that loses least.
    good = [row for row in others if (_pair(results, row, "batch") or {}).get("verdict") in ("better", "no difference")]
    sign = 1 if results["metric"]["higher_is_better"] else -1
    best = (
        min(good, key=lambda row: float(row["bytes_per_node"]))
        if good
        else max(others, key=lambda row: sign * float(row["metric"]["mean"]))
    )
    times = batch["bytes_per_node"] / best["bytes_per_node"]
    return (
        f"On a slow network `{best['way']}` sends {compact(times)} times fewer bytes than `batch` on "
        f"{best['nodes']} nodes, and {_quality(results, best, 'batch', quantity)}."
    )


def _target(results: Results, quantity: Quantity) -> str:
    return f"{quantity.value(results['target']['value'])} {quantity.label}"


def _conditions(results: Results, rows: Sequence[Row]) -> str:
    data, machine = results["data"], results["machine"]
    passes = rows[0]["passes"] if rows else 0
    parts = [
        f"{results['model']} on {data['path']} ({count(data['rows']['train'])} training rows)",
        f"{count(passes)} passes, mini-batches of {count(results['config']['batch_size'])} rows",
        f"{', '.join(map(str, results['nodes']))} nodes, driver on a host with {machine['cores']} cores",
    ]
    if results["target"] is not None:
        parts.append(f"target {_target(results, Quantity(results['metric']['name']))} on the validation rows")
    return "; ".join(parts) + ". Another model, other data or another network may turn it round."


def _certainty(results: Results, quantity: Quantity) -> str:
    seeds = len(results["seeds"])
    if seeds < 2:
        return "One seed for each way: no interval can be told, so no difference in quality is decided."
    margin = quantity.difference(results["metric"]["margin"]).lstrip("+")
    verdicts = [pair["verdict"] for pair in results["pairs"] if "virtual" not in pair["way"]]
    decided = sum(verdict != "undecided" for verdict in verdicts)
    return (
        f"{seeds} seeds for each way, the same for all; differences are paired, with 95 % intervals, and count as none "
        f"only where the whole interval lies within {margin}. {decided} of {len(verdicts)} differences are decided."
    )
