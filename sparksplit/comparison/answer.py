"""The answer: which way, the few worth having, a slow network, what diverged; its conditions, and how sure it is.

Each sentence says only what the verdicts of all pairs together decide; tests/comparison/truth/ reads them back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

from sparksplit.comparison.analysis.frontier import goal_of, seconds_of, single_of
from sparksplit.comparison.analysis.runs import BASE
from sparksplit.comparison.analysis.verdicts import GOOD
from sparksplit.comparison.certainty import certainty
from sparksplit.comparison.content import IN_ALL, TO_TARGET, Answer, Choice, Pair, Results, Row, TimePair
from sparksplit.comparison.numbers import Quantity, bound, compact, count, duration, node_time
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.tuning.headline import headline

_FEWER = 1.05
"""How many times fewer bytes than `batch` a way must send to be recommended for that."""


def answer(results: Results) -> Answer:
    """The `answer` of results.json, from everything else in it."""
    quantity = Quantity(results.metric.name)
    rows = [row for row in results.table if not row.virtual]
    several = [row for row in rows if row.nodes > 1]
    single = single_of(results.table)
    which = _which(results, single, several, quantity) if single and several else _nothing(results, rows, several)
    text = [
        which,
        *_alone(results, single, several, quantity),
        *_few(results, quantity),
        _slow_network(results, several, quantity),
        *_diverged(rows),
    ]
    return Answer(text, _conditions(results), certainty(results, quantity), headline(results.tuning, results.config))


def _sent(row: Row) -> float:
    """Bytes that a node sends in a run."""
    return row.bytes_per_node or 0.0


def _pair(results: Results, row: Row, against: str) -> Pair | None:
    for pair in results.pairs:
        if not pair.virtual and (pair.way, pair.nodes, pair.against) == (row.way, row.nodes, against):
            return pair
    return None


def _is_as_good(results: Results, row: Row, against: str) -> bool:
    pair = _pair(results, row, against)
    return pair is not None and pair.verdict in GOOD


def _speed(results: Results, row: Row, goal: str, against: str = SINGLE) -> TimePair | None:
    for pair in results.times:
        if (pair.way, pair.nodes, pair.what, pair.against) == (row.way, row.nodes, goal, against):
            return pair
    return None


def _is_ahead(results: Results, row: Row, control: str, goal: str) -> bool:
    """Whether a way on several nodes is decided to be faster than one of its controls, or to learn better. Where the
    control has missed the target, all passes count."""
    pair = _pair(results, row, control)
    speed = _speed(results, row, goal, control) or _speed(results, row, IN_ALL, control)
    is_faster = speed is not None and speed.verdict == "faster"
    return (is_faster and _is_as_good(results, row, control)) or (pair is not None and pair.verdict == "better")


def _nothing(results: Results, rows: Sequence[Row], several: Sequence[Row]) -> str:
    """Why no way on several nodes can be compared with one node."""
    alone = [f"`{row.way}`" for row in rows if row.nodes == 1]
    text = "Whether several nodes help was not compared: that takes `single` and a way on several. "
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

    speeds = {(row.way, row.nodes): _speed(results, row, goal) for _, row in times}
    faster = [
        (seconds, row, speed) for seconds, row in times
        if (speed := speeds[row.way, row.nodes]) is not None and speed.verdict == "faster" and seconds < alone
    ]  # fmt: skip
    good = [one for one in faster if _is_as_good(results, one[1], SINGLE)]
    if good:
        seconds, best, speed, is_ahead = _best(results, good, goal)
        said = f"{takes(seconds)} ({_times(speed)}), and {_quality(results, best, SINGLE, quantity)}"
        split = f"Split the work by `{best.way}` on {best.nodes} nodes: {said}{beside}."
        return split if is_ahead else _not_ahead(results, best, goal, said, stay)
    seconds, fastest = min(times, key=lambda item: item[0])
    if seconds >= alone:
        return (
            f"{stay}: the fastest way on several, `{fastest.way}` on {fastest.nodes}, takes "
            f"{duration(seconds)} {goal}, where one node takes {duration(alone)}."
        )
    if faster:
        seconds, fastest, speed = min(faster, key=lambda one: one[0])
        return (
            f"{stay}, or see whether `{fastest.way}` on {fastest.nodes} is good enough: {takes(seconds)} "
            f"({_times(speed)}), but {_quality(results, fastest, SINGLE, quantity)}."
        )
    speed = speeds[fastest.way, fastest.nodes]
    unsure = "" if speed is None or speed.low is None else f" ({_times(speed)})"
    name, quality = f"`{fastest.way}` on {fastest.nodes}", _quality(results, fastest, SINGLE, quantity)
    if speed is not None and speed.verdict == "slower":  # over the seeds of both, and not over all of each
        begin, but = f"{stay}: {name} is no faster; ", "seed by seed it is slower"
    else:
        begin, but = f"{stay}, or see with more seeds whether {name} is faster: ", "that is undecided"
    return f"{begin}{takes(seconds)}, but {but}{unsure}, and {quality}."


_Faster = tuple[float, Row, TimePair]


def _best(results: Results, good: Sequence[_Faster], goal: str) -> tuple[float, Row, TimePair, bool]:
    """The fastest of those that are ahead of all their controls, or of all if none is; and whether it is."""
    ahead = [one for one in good if all(_is_ahead(results, one[1], control, goal) for control in one[1].controls)]
    seconds, row, speed = min(ahead or good, key=lambda one: one[0])
    return seconds, row, speed, bool(ahead)


def _not_ahead(results: Results, row: Row, goal: str, said: str, stay: str) -> str:
    behind = [f"`{name}`" for name in row.controls if not _is_ahead(results, row, name, goal)]
    return (
        f"{stay}, or see whether `{row.way}` on {row.nodes} is ahead of what one node can do: {said}, but against "
        f"{' and '.join(behind)} on one node it is neither decided to be faster and as good, nor to be better."
    )


def _no_times(results: Results, steady: Sequence[Row], goal: str, quantity: Quantity, stay: str) -> str:
    """Why no way on several nodes has a time."""
    which = ""
    if goal == TO_TARGET:
        if not any(row.to_target and row.to_target.reached == row.to_target.of for row in steady):
            return f"{stay}: no way on several reached the target of {_target(results, quantity)} in every run."
        which = "that reached the target in every run "
    return f"Nothing is recommended: no way on several {which}was measured where most others were."


def _times(speed: TimePair) -> str:
    """Such as `2.1 times as fast, 95 % interval 1.9 to 2.3, at least 1.8 times`."""
    interval = "" if speed.low is None else f", 95 % interval {compact(speed.low)} to {compact(speed.high)}"
    least = "" if speed.at_least is None else f", and at least {bound(speed.at_least)} times"
    some = "" if speed.seeds == speed.of else f", over {speed.seeds} of {speed.of} seeds"
    return f"{compact(speed.times)} times as fast{interval}{least}{some}"


def _few(results: Results, quantity: Quantity) -> Iterator[str]:
    """The fastest, the cheapest and the best of what is decided."""
    roles: dict[tuple[str, int], list[Choice]] = {}
    for choice in results.frontier:
        roles.setdefault((choice.way, choice.nodes), []).append(choice)
    if list(roles) == [BASE[:2]]:
        yield (
            "Of the ways that are decided to learn as well as `single`, none is decided to be faster, cheaper or "
            f"better: {_cost(results.frontier[0])}, {quantity.label} {quantity.value(results.frontier[0].metric)}."
        )
    elif roles:
        parts = [
            f"{' and '.join(choice.role for choice in some)} is `{way}` on {nodes} ({_cost(some[0])}, "
            f"{quantity.label} {quantity.value(some[0].metric)})"
            for (way, nodes), some in roles.items()
        ]
        yield f"Of what is decided, {'; '.join(parts)}."


def _cost(choice: Choice) -> str:
    if choice.seconds is None:
        return f"no time {choice.goal} that counts"
    return f"{duration(choice.seconds)} and {node_time(choice.node_hours)} {choice.goal}"


def _alone(results: Results, single: Row | None, several: Sequence[Row], quantity: Quantity) -> Iterator[str]:
    """What the controls of the ways on several nodes gain: that takes no second node."""
    if single is None or not single.runs:
        return
    goal = goal_of(results.table)
    rows = {row.way: row for row in results.table if row.nodes == 1 and not row.virtual}
    for control in dict.fromkeys(control for row in several if not row.diverged for control in row.controls):
        row, speed = rows[control], _speed(results, rows[control], goal)
        seconds, alone = (seconds_of(own, goal) for own in (row, single))
        took = f"has no time {goal} that counts" if seconds is None else f"takes {duration(seconds)} {goal}"
        if speed is not None:
            unsure = ", undecided" if speed.verdict == "undecided" else ""
            took += f", where `single` takes {duration(alone)} ({_times(speed)}{unsure})"
        whose = [f"`{own.way}` on {own.nodes}" for own in several if control in own.controls and not own.diverged]
        yield (
            f"One node alone, by `{control}` (the control of {', '.join(whose)}), {took}, and "
            f"{_quality(results, row, SINGLE, quantity)}."
        )


def _seeds(row: Row) -> str:
    """Such as `2 of 5 seeds`: with how many of them the way diverged."""
    planned = row.runs + row.diverged
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
        "not worse": f"its {quantity.label} is not worse than `{against}`'s by more than the margin {difference}",
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
