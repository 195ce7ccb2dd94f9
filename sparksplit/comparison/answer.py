"""The answer: which strategy, the few worth having, a slow network, what diverged; its conditions, and how sure it is.

Each sentence says only what the verdicts of all pairs together decide; tests/comparison/truth/ reads them back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

from sparksplit.comparison.analysis.frontier import goal_of, seconds_of, single_of, worth_having
from sparksplit.comparison.certainty import certainty
from sparksplit.comparison.content import Answer, Results
from sparksplit.comparison.content_table import Choice, Row
from sparksplit.comparison.evidence import (
    is_as_good,
    pair_of,
    quality_said,
    seeds_said,
    speed_of,
    target_said,
    times_said,
    untimed_said,
)
from sparksplit.comparison.numbers import Quantity, compact, count, duration, node_time
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.recommendation import nothing, which
from sparksplit.comparison.tuning.headline import headline

_FEWER = 1.05
"""How many times fewer bytes than `batch` a strategy must send to be recommended for that."""


def answer(results: Results) -> Answer:
    """The `answer` of results.json, from everything else in it."""
    quantity = Quantity(results.metric.name)
    rows = [row for row in results.table if not row.virtual]
    several = [row for row in rows if row.nodes > 1]
    single = single_of(results.table)
    first = which(results, single, several, quantity) if single and several else nothing(results, rows, several)
    text = [
        first,
        *_alone(results, single, several, quantity),
        *_few(results, quantity),
        _slow_network(results, several, quantity),
        *_diverged(rows),
    ]
    return Answer(text, _conditions(results), certainty(results, quantity), headline(results.tuning, results.config))


def _sent(row: Row) -> float:
    """Bytes that a node sends in a run."""
    return row.bytes_per_node or 0.0


def _few(results: Results, quantity: Quantity) -> Iterator[str]:
    """The fastest, the cheapest and the best of what is decided."""
    roles: dict[tuple[str, int], list[Choice]] = {}
    for choice in worth_having(results.frontier):
        roles.setdefault((choice.name, choice.nodes), []).append(choice)
    if results.frontier and not roles:
        own = results.frontier[0]
        yield (
            "Of the strategies that are decided to learn as well as `single`, none is decided to be faster, cheaper or "
            f"better. `single` takes {_cost(results, own)}, {quantity.label} {quantity.value(own.metric)}."
        )
    elif roles:
        parts = [
            f"{' and '.join(choice.role for choice in some)} is `{strategy}` on {nodes} ({_cost(results, some[0])}, "
            f"{quantity.label} {quantity.value(some[0].metric)})"
            for (strategy, nodes), some in roles.items()
        ]
        yield f"Of what is decided, {'; '.join(parts)}."


def _cost(results: Results, choice: Choice) -> str:
    if choice.seconds is None:
        whose = (choice.name, choice.nodes, False)
        return untimed_said(
            next(row for row in results.table if (row.name, row.nodes, row.virtual) == whose), choice.goal
        )
    return f"{duration(choice.seconds)} and {node_time(choice.node_hours)} {choice.goal}"


def _alone(results: Results, single: Row | None, several: Sequence[Row], quantity: Quantity) -> Iterator[str]:
    """What the other strategies on one node gain: that takes no second node."""
    if single is None or not single.runs:
        return
    goal = goal_of(results.table)
    rows = {row.name: row for row in results.table if row.nodes == 1 and not row.virtual}
    for control in dict.fromkeys(control for row in several if not row.diverged for control in row.controls):
        row, speed = rows[control], speed_of(results, rows[control], goal)
        seconds, alone = (seconds_of(own, goal) for own in (row, single))
        took = untimed_said(row, goal) if seconds is None else f"takes {duration(seconds)} {goal}"
        if speed is not None:
            unsure = ", undecided" if speed.verdict == "undecided" else ""
            took += f", where `single` takes {duration(alone)} ({times_said(speed)}{unsure})"
        yield (f"One node alone, by `{control}`, {took}, and {quality_said(results, row, SINGLE, quantity)}.")


def _diverged(rows: Sequence[Row]) -> Iterator[str]:
    """Which strategies must not be used, whatever those of their runs that ended well say."""
    diverged = [f"`{row.name}` on {row.nodes} ({seeds_said(row)})" for row in rows if row.diverged]
    if diverged:
        yield f"Not recommended, because the loss or the metric was no longer a number: {', '.join(diverged)}."


def _slow_network(results: Results, several: Sequence[Row], quantity: Quantity) -> str:
    batch = {row.nodes: row for row in several if row.name == "batch" and row.runs}
    others = [
        row for row in several
        if row.name != "batch" and not row.diverged and row.nodes in batch and _sent(row) > 0
    ]  # fmt: skip
    if not others:
        steady = ", of which no run diverges" if any(row.diverged for row in several) else ""
        return (
            "What a slow network would change was not compared: that takes `batch` and another strategy on as many "
            f"nodes{steady}."
        )
    sign = 1 if results.metric.higher_is_better else -1

    def times(row: Row) -> float:
        return _sent(batch[row.nodes]) / _sent(row)

    def gain(row: Row) -> float:
        pair = pair_of(results, row, "batch")
        return sign * pair.mean if pair else -math.inf

    fewer = [row for row in others if times(row) >= _FEWER]
    if not fewer:
        return "On a slow network nothing is gained: no strategy sends fewer bytes than `batch` on as many nodes."
    # Of the strategies that lose nothing, the one that sends least, beside `batch`; otherwise the one that loses least.
    good = [row for row in fewer if is_as_good(results, row, "batch")]
    best = max(good, key=times) if good else max(fewer, key=gain)
    return (
        f"On a slow network `{best.name}` sends {compact(times(best))} times fewer bytes than `batch` on "
        f"{best.nodes} nodes, and {quality_said(results, best, 'batch', quantity)}."
    )


def _conditions(results: Results) -> str:
    data, machine = results.data, results.machine
    parts = [
        f"{results.model} on {data.path} ({count(data.rows['train'])} training rows)",
        f"{count(results.epochs.run)} passes, mini-batches of {count(cast(int, results.config['batch_size']))} rows",
        f"{', '.join(map(str, results.nodes))} nodes, driver on a host with {machine.cores} cores",
    ]
    if results.target is not None:
        parts.append(f"target {target_said(results, Quantity(results.metric.name))} on the validation rows")
    return "; ".join(parts) + ". Another model, other data or another network may turn it round."
