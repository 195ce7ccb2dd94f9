"""The first sentence of the answer: which strategy, or what is still to be decided and what that would take."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.comparison.analysis.frontier import behind, goal_of, seconds_of
from sparksplit.comparison.analysis.verdicts import SAME, WORSE
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import TO_TARGET, Row
from sparksplit.comparison.evidence import (
    is_as_good,
    pair_of,
    quality_said,
    seeds_said,
    speed_beside,
    speed_of,
    target_said,
    times_said,
)
from sparksplit.comparison.needed import to_decide
from sparksplit.comparison.numbers import Quantity, duration
from sparksplit.comparison.plan import SINGLE

_Timed = tuple[float, Row]
"""Seconds, and whose."""


def which(results: Results, single: Row, several: Sequence[Row], quantity: Quantity) -> str:
    steady = [row for row in several if not row.diverged]
    if not single.runs:
        done = ", ".join(f"`{row.name}` on {row.nodes}" for row in steady)
        return (
            f"Every run of `single` diverged ({seeds_said(single)}), so that no strategy can be compared with one "
            f"node: try a smaller `optimizer.learning_rate`. "
            + (f"No run diverged of: {done}." if done else "No strategy was safe.")
        )
    if single.diverged:
        stay = f"Nothing is recommended, since `single` diverged, too ({seeds_said(single)})"
        beside = f", where `single` diverged with {seeds_said(single)}"
    else:
        stay, beside = "Stay on one node", ""
    if not steady:
        return f"{stay}: every strategy on several nodes diverged in some of its runs."
    return _recommended(results, single, steady, quantity, stay, beside)


def _recommended(
    results: Results, single: Row, steady: Sequence[Row], quantity: Quantity, stay: str, beside: str
) -> str:
    """What is decided to be faster and to learn as well, or why nothing is.

    steady: those on several nodes of which no run diverged. stay, beside: what to say where nothing is recommended, and
    beside what is.
    """
    # A target that even one node misses says nothing about the others: then the whole training counts.
    goal = goal_of(results.table)
    alone = seconds_of(single, goal)
    if alone is None:
        return "Nothing is recommended: the times of `single` were not measured where most others were."
    times = [(seconds, row) for row in steady if (seconds := seconds_of(row, goal)) is not None]
    if not times:
        return _no_times(results, steady, goal, quantity, stay)

    def takes(seconds: float) -> str:
        return f"it takes {duration(seconds)} {goal}, where one node takes {duration(alone)}"

    speeds = {(row.name, row.nodes): speed_of(results, row, goal) for _, row in times}
    good = [
        (seconds, row, speed) for seconds, row in times
        if (speed := speeds[row.name, row.nodes]) is not None and speed.verdict == "faster" and seconds < alone
        and is_as_good(results, row, SINGLE)
    ]  # fmt: skip
    ahead = [one for one in good if not _behind(results, one[1])]
    if ahead:
        seconds, best, speed = min(ahead, key=lambda one: one[0])
        return (
            f"Split the work by `{best.name}` on {best.nodes} nodes: {takes(seconds)} ({times_said(speed)}), and "
            f"{quality_said(results, best, SINGLE, quantity)}{beside}."
        )
    unsettled = [(seconds, row) for seconds, row in times if not _is_ruled_out(results, row, goal)]
    if unsettled:
        return _undecided(results, single, unsettled, alone, goal, quantity, stay)
    return f"{stay}: {_ruled_out(results, times, alone, goal, quantity)}."


def _behind(results: Results, row: Row) -> list[str]:
    """The other strategies on one node that a strategy on several is not decided to be ahead of."""
    return behind(row, results.table, results.pairs, results.times)


def _is_beaten(results: Results, row: Row, control: str, goal: str) -> bool:
    """Whether another strategy on one node is decided to be faster, and to learn as well or better."""
    pair, speed = pair_of(results, row, control), speed_of(results, row, goal, control)
    return speed is not None and speed.verdict == "slower" and pair is not None and pair.verdict in (WORSE, SAME)


def _is_ruled_out(results: Results, row: Row, goal: str) -> bool:
    """Whether it is decided that a strategy is not to be recommended: it is slower than `single`, learns worse, or is
    beaten by another strategy on one node."""
    pair, speed = pair_of(results, row, SINGLE), speed_of(results, row, goal)
    is_slower, is_worse = speed is not None and speed.verdict == "slower", pair is not None and pair.verdict == WORSE
    return is_slower or is_worse or any(_is_beaten(results, row, control, goal) for control in row.controls)


def _ruled_out(results: Results, times: Sequence[_Timed], alone: float, goal: str, quantity: Quantity) -> str:
    """Why not even the fastest of the strategies on several nodes is recommended, where that is decided of all."""
    seconds, row = min(times, key=lambda one: one[0])
    name, both = (
        f"`{row.name}` on {row.nodes}",
        f"takes {duration(seconds)} {goal}, where one node takes {duration(alone)}",
    )
    if seconds >= alone:
        return f"the fastest strategy on several, {name}, {both}"
    speed, pair = speed_of(results, row, goal), pair_of(results, row, SINGLE)
    quality = quality_said(results, row, SINGLE, quantity)
    told = "" if speed is None else f" ({times_said(speed)})"
    if pair is not None and pair.verdict == WORSE:
        return f"{name} {both}{told}, but {quality}"
    if speed is not None and speed.verdict == "slower":  # over the seeds of both, and not over all of each
        return f"{name} {both}, but seed by seed it is slower{told}, and {quality}"
    beaten = [f"`{control}`" for control in row.controls if _is_beaten(results, row, control, goal)]
    return (
        f"{name} {both}{told}, but {' and '.join(beaten)} on one node is decided to be faster, and to learn as "
        "well or better"
    )


def _undecided(
    results: Results, single: Row, unsettled: Sequence[_Timed], alone: float, goal: str, quantity: Quantity, stay: str
) -> str:
    """What is not decided of the most promising strategy, what that would take, and the best guess until then. alone:
    seconds of `single`."""

    def promise(one: _Timed) -> tuple[bool, bool, float]:
        seconds, row = one
        speed = speed_of(results, row, goal)
        is_faster = speed is not None and speed.verdict == "faster" and seconds < alone
        return not (is_faster and is_as_good(results, row, SINGLE)), not is_faster, seconds

    one = min(unsettled, key=promise)
    not_good, not_faster, seconds = promise(one)
    row = one[1]
    pair, speed = pair_of(results, row, SINGLE), speed_of(results, row, goal)
    name, quality = f"`{row.name}` on {row.nodes}", quality_said(results, row, SINGLE, quantity)
    told = "" if speed is None else f" ({times_said(speed)})"
    took = f"it takes {duration(seconds)} {goal}, where one node takes {duration(alone)}{told}"
    pairs, speeds = [] if is_as_good(results, row, SINGLE) else [pair], [speed]
    if not_faster:
        if speed is not None and speed.verdict == "faster":  # seed by seed, but not over all runs
            speeds = [None]
        question = f"whether {name} is faster than one node: {took}, and {quality}"
    elif not_good:
        question = f"whether {name} learns as well as one node: {took}, but {quality}"
    else:
        others = _behind(results, row)
        pairs = [pair_of(results, row, other) for other in others]
        speeds = [speed_beside(results, row, other, goal) for other in others]
        # Faster seed by seed, but not over all runs.
        speeds = [None if speed is not None and speed.verdict == "faster" else speed for speed in speeds]
        question = (
            f"whether {name} is ahead of what one node can do: {took}, and {quality}, but against "
            f"{' and '.join(f'`{other}`' for other in others)} on one node it is neither decided to be faster, nor to "
            "learn better"
        )
    needed = to_decide(results, pairs, speeds)
    if single.diverged:
        return f"{stay}. Not decided besides: {question}. {needed}"
    return f"Not decided yet: {question}. {needed} Best guess until then: {_guess(results, single, unsettled, goal)}."


def _guess(results: Results, single: Row, unsettled: Sequence[_Timed], goal: str) -> str:
    """What the means alone say: the fastest that is faster than `single` and learns as well, on one node or several. On
    several only what no row on one node beats: as fast or faster, and learning as well."""
    sign, margin = 1 if results.metric.higher_is_better else -1, results.metric.margin
    on_one = [
        (seconds, row) for row in results.table
        if row.nodes == 1 and not row.virtual and not row.diverged and (seconds := seconds_of(row, goal)) is not None
    ]  # fmt: skip

    def learns(row: Row, other: Row) -> bool:
        """Whether a strategy learns as well as another."""
        mean, others = row.metric.mean, other.metric.mean
        return mean is not None and others is not None and sign * (mean - others) >= -margin

    def is_beaten(seconds: float, row: Row) -> bool:
        return row.nodes > 1 and any(own <= seconds and learns(other, row) for own, other in on_one)

    alone = seconds_of(single, goal)
    timed = [
        (seconds, row) for seconds, row in (*(one for one in on_one if one[1] is not single), *unsettled)
        if (alone is None or seconds < alone) and learns(row, single) and not is_beaten(seconds, row)
        and not _is_ruled_out(results, row, goal)
    ]  # fmt: skip
    seconds, row = min(timed, key=lambda one: one[0], default=(alone, single))
    name = f"`{row.name}` on {'one node' if row.nodes == 1 else row.nodes}"
    return f"{name}{'' if row is single else ', by the means alone'}, which takes {duration(seconds)} {goal}"


def _no_times(results: Results, steady: Sequence[Row], goal: str, quantity: Quantity, stay: str) -> str:
    """Why no strategy on several nodes has a time."""
    which = ""
    if goal == TO_TARGET:
        if not any(row.to_target and row.to_target.reached == row.to_target.of for row in steady):
            return (
                f"{stay}: no strategy on several reached the target of {target_said(results, quantity)} in every run."
            )
        which = "that reached the target in every run "
    return f"Nothing is recommended: no strategy on several {which}was measured where most others were."


def nothing(results: Results, rows: Sequence[Row], several: Sequence[Row]) -> str:
    """Why no strategy on several nodes can be compared with one node."""
    alone = [f"`{row.name}`" for row in rows if row.nodes == 1]
    text = "Whether several nodes help was not compared: that takes `single` and a strategy on several. "
    if several and alone:
        return (
            text + f"On one node only {', '.join(alone)} was run, with keys of its own: add `single` to `strategies`."
        )
    if several:
        return text + "Add 1 to `nodes`."
    if max(results.nodes) > 1:
        return text + "Add a strategy for several nodes to `strategies`."
    return text + "Add a number above 1 to `nodes`."
