"""The few strategies worth having: the fastest, the cheapest, the best. Each is `single` unless something else is
decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sparksplit.comparison.analysis.runs import BASE
from sparksplit.comparison.analysis.verdicts import BETTER, GOOD
from sparksplit.comparison.content import Metric
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Choice, Pair, Row, TimePair


def single_of(table: Sequence[Row]) -> Row | None:
    """The line of what all are compared with."""
    return next((row for row in table if (row.name, row.nodes, row.virtual) == BASE), None)


def goal_of(table: Sequence[Row]) -> str:
    """What times are compared: to the target or, if not even `single` always reaches it, in all."""
    single = single_of(table)
    return IN_ALL if single is None or _to_target(single) is None else TO_TARGET


def seconds_of(row: Row, goal: str) -> float | None:
    """Seconds of a strategy: the median to the target, if every run reached it, or the mean in all."""
    return row.seconds if goal == IN_ALL else _to_target(row)


def _to_target(row: Row) -> float | None:
    to = row.to_target
    return to.seconds if to is not None and to.reached == to.of else None


def behind(
    row: Row, table: Sequence[Row], pairs: Sequence[Pair], times: Sequence[TimePair], speedup: float = 1.0
) -> list[str]:
    """The strategies on one node, `single` aside, that a strategy on several nodes is not decided to be ahead of:
    neither faster, nor learning better. speedup: how many times as fast it must be at least.

    Where the other has missed the target, all passes count.
    """
    goal, own = goal_of(table), (row.name, row.nodes)
    versus = {pair.against: pair for pair in pairs if not pair.virtual and (pair.name, pair.nodes) == own}
    speeds = {(pair.what, pair.against): pair for pair in times if (pair.name, pair.nodes) == own}
    others = {other.name: other for other in table if other.nodes == 1 and not other.virtual}
    seconds = seconds_of(row, goal)

    def is_ahead(name: str) -> bool:
        pair, speed = versus.get(name), speeds.get((goal, name)) or speeds.get((IN_ALL, name))
        if pair is not None and pair.verdict == BETTER:
            return True
        if speed is None or speed.verdict != "faster" or (speedup > 1 and (speed.at_least or 1.0) <= speedup):
            return False
        # Paired by seed it is faster; what the table shows must not say otherwise.
        alone = seconds_of(others[name], goal)
        return alone is None or (seconds is not None and seconds * speedup < alone)

    return [name for name in row.controls if not is_ahead(name)]


def frontier(table: Sequence[Row], pairs: Sequence[Pair], times: Sequence[TimePair], metric: Metric) -> list[Choice]:
    """The fastest, the cheapest and the best of the strategies on the nodes at hand that are decided to learn as well
    as `single`; empty where that cannot be told. No strategy is among them of which a run diverged, and none on several
    nodes that is not decided to be ahead of all that one node did."""
    single, goal = single_of(table), goal_of(table)
    alone = None if single is None else seconds_of(single, goal)
    if single is None or single.diverged or alone is None or single.metric.mean is None:
        return []
    base = Choice("", single.name, single.nodes, goal, alone, _hours(alone, 1), single.metric.mean)
    versus = {(pair.name, pair.nodes): pair for pair in pairs if not pair.virtual and (pair.against, 1) == BASE[:2]}
    speeds = {(pair.name, pair.nodes): pair for pair in times if (pair.what, pair.against) == (goal, BASE[0])}
    faster: list[Choice] = []
    cheaper: list[Choice] = []
    better: list[Choice] = []
    for row in table:
        own = row.name, row.nodes
        pair, speed, seconds = versus.get(own), speeds.get(own), seconds_of(row, goal)
        if row.virtual or row.diverged or pair is None or pair.verdict not in GOOD or row.metric.mean is None:
            continue
        if behind(row, table, pairs, times):
            continue
        hours = None if seconds is None else _hours(seconds, row.nodes)
        choice = Choice("", row.name, row.nodes, goal, seconds, hours, row.metric.mean)
        if pair.verdict == BETTER:
            better.append(choice)
        if speed is None or seconds is None or hours is None:
            continue
        if speed.verdict == "faster" and seconds < alone:
            faster.append(choice)
        is_cheaper = speed.at_least is not None and speed.at_least > row.nodes and hours < _hours(alone, 1)
        if is_cheaper and not behind(row, table, pairs, times, row.nodes):
            cheaper.append(choice)
    # The fastest and the cheapest have a time; the best need not.
    sign = 1 if metric.higher_is_better else -1
    by: tuple[tuple[str, list[Choice], Callable[[Choice], float]], ...] = (
        ("fastest", faster, lambda one: one.seconds or 0.0),
        ("cheapest", cheaper, lambda one: one.node_hours or 0.0),
        ("best", better, lambda one: -sign * one.metric),
    )
    return [replace(min(some or [base], key=key), role=role) for role, some, key in by]


def worth_having(choices: Sequence[Choice]) -> list[Choice]:
    """The few of a frontier; none where nothing but `single` is decided, which is no choice among strategies."""
    return [] if {(one.name, one.nodes) for one in choices} == {BASE[:2]} else list(choices)


def _hours(seconds: float, nodes: int) -> float:
    return seconds * nodes / 3600
