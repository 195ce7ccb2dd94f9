"""What is decided about one strategy beside another, and how the answer says it."""

from __future__ import annotations

from sparksplit.comparison.analysis.verdicts import GOOD
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Pair, Row, TimePair
from sparksplit.comparison.numbers import Quantity, bound, compact
from sparksplit.comparison.plan import SINGLE


def pair_of(results: Results, row: Row, against: str) -> Pair | None:
    for pair in results.pairs:
        if not pair.virtual and (pair.name, pair.nodes, pair.against) == (row.name, row.nodes, against):
            return pair
    return None


def is_as_good(results: Results, row: Row, against: str) -> bool:
    pair = pair_of(results, row, against)
    return pair is not None and pair.verdict in GOOD


def speed_of(results: Results, row: Row, goal: str, against: str = SINGLE) -> TimePair | None:
    for pair in results.times:
        if (pair.name, pair.nodes, pair.what, pair.against) == (row.name, row.nodes, goal, against):
            return pair
    return None


def speed_beside(results: Results, row: Row, control: str, goal: str) -> TimePair | None:
    """How fast a strategy on several nodes is beside another on one. Where that has missed the target, all passes
    count."""
    return speed_of(results, row, goal, control) or speed_of(results, row, IN_ALL, control)


def times_said(speed: TimePair) -> str:
    """Such as `2.1 times as fast, 95 % interval 1.9 to 2.3, at least 1.8 times`."""
    interval = "" if speed.low is None else f", 95 % interval {compact(speed.low)} to {compact(speed.high)}"
    least = "" if speed.at_least is None else f", and at least {bound(speed.at_least)} times"
    some = "" if speed.seeds == speed.of else f", over {speed.seeds} of {speed.of} seeds"
    return f"{compact(speed.times)} times as fast{interval}{least}{some}"


def untimed_said(row: Row, goal: str) -> str:
    """Why a strategy has no time: `reached the target in 3 of 5 runs`."""
    to = row.to_target
    if goal == TO_TARGET and to is not None and to.reached < to.of:
        return f"reached the target in {to.reached} of {to.of} runs"
    return "was not timed where most runs were"


def quality_said(results: Results, row: Row, against: str, quantity: Quantity) -> str:
    pair = pair_of(results, row, against)
    if pair is None:
        return f"there is nothing to compare its {quantity.label} with"
    interval = "" if pair.low is None else f", 95 % interval {quantity.interval(pair.low, pair.high)}"
    some = "" if pair.seeds == pair.of else f", over the {pair.seeds} of {pair.of} seeds that both finished"
    difference = f"({quantity.difference(pair.mean)}{interval}{some})"
    what = {
        "no difference": f"its {quantity.label} is the same as `{against}`'s within the margin {difference}",
        "not worse": f"its {quantity.label} is not worse than `{against}`'s by more than the margin {difference}",
        "better": f"its {quantity.label} is better than `{against}`'s {difference}",
        "worse": f"its {quantity.label} is worse than `{against}`'s {difference}",
        "undecided": f"whether its {quantity.label} differs from `{against}`'s is undecided {difference}",
    }
    return what[pair.verdict]


def seeds_said(row: Row) -> str:
    """Such as `2 of 5 seeds`: with how many of them the strategy diverged."""
    planned = row.runs + row.diverged
    return f"{row.diverged} of {planned} seed{'s' if planned > 1 else ''}"


def target_said(results: Results, quantity: Quantity) -> str:
    return f"{quantity.value(None if results.target is None else results.target.value)} {quantity.label}"
