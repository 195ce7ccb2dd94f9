"""Make the answer: the recommendation, its gain, the open questions, and the next command.

The decision relies on the verdicts of all differences together. A choice by the means alone has the decision
`undecided`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparksplit.base.records import JsonObject
from sparksplit.comparison.analysis.goals import goal_of, single_of
from sparksplit.comparison.analysis.verdicts import BETTER
from sparksplit.comparison.answer.content import Answer, Decision, Gain, Next, Note, Option, Question
from sparksplit.comparison.answer.evidence import Evidence
from sparksplit.comparison.answer.needed import FIRST, about_quality, about_speed, in_time
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import TO_TARGET, Row
from sparksplit.comparison.tuning.space import learns_as_single, value_at

_TRIES = 8
"""Learning rates to try where none was tuned."""
_LOWER = 0.1
"""Factor for a lower learning rate, if `single` diverges."""
_LAST_LOOK = 1.3
"""Factor on the seeds of a question, for the last of several looks. This look adds half of the seeds, so it may spend
half of the 5 %: (2.24 / 1.96)^2 of the normal distribution's quantiles."""
_FEWER = 1.05
"""A row is named for a slow network if it sends at least this many times fewer bytes than `batch`."""
_RUNNERS_UP = 3
_FIRST = (
    "missing", "one seed", "seeds alone", "diverged", "learns better", "untuned", "edge", "no test rows", "other place",
    "unmet", "slow network",
)  # fmt: skip
"""The kinds of notes, the most important first."""


def answer(results: Results) -> Answer:
    """Return the `answer` of results.json, made from all other fields."""
    rows = [row for row in results.table if not row.virtual]
    single = single_of(results.table)
    if single is None or len(rows) < 2:
        return _made(results, "nothing to compare", notes=[_missing(results, rows, single)])
    evidence = Evidence(results, goal_of(results.table), single)
    decision, choice, doubtful = _decided(evidence, rows)
    told = [*_of_rows(evidence, rows), *_learns_better(evidence, rows, choice), *_of_all(results)]
    notes = sorted(told, key=lambda note: _FIRST.index(note.kind))
    questions = [question for row in doubtful for question in _questions(evidence, row)]
    gain = None if choice in (None, single) else Gain(speed=evidence.speed(choice), quality=evidence.pair(choice))
    return _made(
        results,
        decision,
        choice=None if choice is None else _option(evidence, choice),
        gain=gain,
        runners_up=[_option(evidence, row) for row in _runners_up(evidence, rows, decision, choice)],
        open=questions,
        notes=notes,
        next=_next(results, single, decision, questions, notes),
    )


def _made(results: Results, decision: Decision, **more: object) -> Answer:
    target = None if results.target is None else results.target.value
    common = {
        "goal": goal_of(results.table),
        "target": target,
        "metric": results.metric.name,
        "split": results.metric.split,
    }
    known = {"seeds": len(results.seeds), "wrong_of_100": results.wrong_of_100}
    given = {"choice": None, "gain": None, **common, **known, **more}
    return Answer(decision=decision, **given)  # type: ignore[arg-type]


def _decided(evidence: Evidence, rows: Sequence[Row]) -> tuple[Decision, Row | None, list[Row]]:
    """Return the decision, the choice, and the undecided rows that could change the choice, most promising first."""
    single = evidence.single
    winners = _quickest(evidence, [row for row in rows if row is not single and evidence.wins(row)])
    several = [row for row in winners if row.nodes > 1]
    steady = [row for row in rows if row is not single and not _is_incomplete(evidence, row)]
    unsettled = _quickest(evidence, [row for row in steady if row not in winners and not evidence.is_ruled_out(row)])
    if several:
        first = evidence.seconds(several[0]) or 0.0
        return "use", several[0], [row for row in unsettled if (evidence.seconds(row) or 0.0) < first]
    is_comparable = single.runs > 0 and not single.diverged and evidence.seconds(single) is not None
    is_alone = not winners and all(row.nodes == 1 for row in rows)
    asked = [row for row in rows if row is not single and (row.nodes > 1 or is_alone)]
    left = [row for row in asked if not evidence.is_ruled_out(row) and not _always_diverged(row)]
    if winners:  # a row with a diverged run is never recommended
        left = [row for row in left if not row.diverged]
    if not is_comparable or left:
        choice = next(iter(_as_good_by_mean(evidence, rows)), None)
        promising = _most_promising(evidence, [row for row in unsettled if row in left]) or left[:1]
        return "undecided", choice, promising if is_comparable else []
    choice = winners[0] if winners else single
    return "stay", choice, [row for row in unsettled if _is_quicker(evidence, row, choice)]


def _always_diverged(row: Row) -> bool:
    """Whether more than one run of the row was made, and all diverged."""
    return row.runs == 0 and row.diverged > 1


def _quickest(evidence: Evidence, rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (evidence.seconds(row) or 0.0, row.nodes))


def _is_quicker(evidence: Evidence, row: Row, other: Row) -> bool:
    seconds, others = evidence.seconds(row), evidence.seconds(other)
    return seconds is not None and others is not None and seconds < others


def _most_promising(evidence: Evidence, rows: Sequence[Row]) -> list[Row]:
    """Return the row with the most decided verdicts. Of equal rows, return the quickest."""

    def missing(row: Row) -> tuple[bool, bool, float]:
        is_faster = evidence.is_faster(row)
        return not (is_faster and evidence.is_as_good(row)), not is_faster, evidence.seconds(row) or 0.0

    return sorted(rows, key=missing)[:1]


def _as_good_by_mean(evidence: Evidence, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that learn as well as `single` by the means, the quickest first.

    A row on several nodes is left out if, by the means, a row on one node is as quick and as good.
    """
    metric = evidence.results.metric
    sign = 1 if metric.higher_is_better else -1
    steady = [row for row in rows if not _is_incomplete(evidence, row)]

    def learns(row: Row, other: Row) -> bool:
        mean, others = row.metric.mean, other.metric.mean
        return mean is not None and (others is None or sign * (mean - others) >= -metric.margin)

    def is_beaten(row: Row) -> bool:
        alone = [other for other in steady if other.nodes == 1 and learns(other, row)]
        return row.nodes > 1 and not all(_is_quicker(evidence, row, other) for other in alone)

    good = [row for row in steady if learns(row, evidence.single) and not evidence.is_ruled_out(row)]
    return _quickest(evidence, [row for row in good if not is_beaten(row)])


def _runners_up(evidence: Evidence, rows: Sequence[Row], decision: Decision, choice: Row | None) -> list[Row]:
    """Return the quickest other rows that learn as well by the means, and then `single`.

    With the decision stay, the quickest row on several nodes comes first, however it learns.
    """
    single = evidence.single
    rest = [row for row in _as_good_by_mean(evidence, rows) if row not in (choice, single)]
    if decision == "stay":
        several = [row for row in rows if row.nodes > 1 and not _is_incomplete(evidence, row)]
        rest = [*_quickest(evidence, several)[:1], *(row for row in rest if row.nodes == 1)]
    has_time = single is not choice and evidence.seconds(single) is not None
    return [*rest[: _RUNNERS_UP - 1], *([single] if has_time else [])]


def _questions(evidence: Evidence, row: Row) -> Iterator[Question]:
    """Yield the questions to decide before the row can be recommended."""
    results, single, speed, pair = evidence.results, evidence.single.name, evidence.speed(row), evidence.pair(row)
    if _is_incomplete(evidence, row):
        yield Question(name=row.name, nodes=row.nodes, against=single, about="speed", obstacle="incomplete")
        return
    is_faster, is_as_good = evidence.is_faster(row), evidence.is_as_good(row)
    if not is_faster:  # with None, the row is faster seed by seed, but not over all runs
        yield about_speed(results, row, single, None if speed is not None and speed.verdict == "faster" else speed)
    if not is_as_good:
        yield about_quality(results, row, single, pair)
    if is_faster and is_as_good:
        for control in evidence.behind(row):
            beside = evidence.speed_beside(row, control)
            if beside is not None and beside.verdict == "slower":
                yield about_quality(results, row, control, evidence.pair(row, control))
            else:
                known = beside is None or beside.verdict == "faster"
                yield about_speed(results, row, control, None if known else beside)


def _is_incomplete(evidence: Evidence, row: Row) -> bool:
    """Whether the row cannot win, however its other runs did."""
    return row.diverged > 0 or evidence.seconds(row) is None


def _option(evidence: Evidence, row: Row) -> Option:
    return Option(
        name=row.name,
        nodes=row.nodes,
        settings=row.settings,
        seconds=evidence.seconds(row),
        metric=row.metric.mean,
    )


def _next(
    results: Results, single: Row, decision: Decision, questions: Sequence[Question], notes: Sequence[Note]
) -> Next | None:
    rate = value_at(results.config, "optimizer.learning_rate")
    if single.diverged and decision != "use":
        lower: JsonObject | None = (
            {"optimizer.learning_rate": float(f"{_LOWER * rate:.3g}")} if isinstance(rate, float) else None
        )
        return None if lower is None else Next(settings=lower, seconds=in_time(results, len(results.seeds)))
    if len(results.seeds) < 2 and results.config.get("max_seeds") is None:
        return Next(settings={"seeds": FIRST}, seconds=_in_more_time(results, FIRST))
    if seeds := [question.seeds for question in questions if question.seeds is not None]:
        most = _next_look(results, _LAST_LOOK * max(seeds))
        return Next(settings={"max_seeds": most}, seconds=_in_more_time(results, most))
    if any(note.kind == "untuned" for note in notes):
        once, whole = (in_time(results, seeds) for seeds in (1, len(results.seeds)))
        return Next(settings={"tune": _TRIES}, seconds=None if once is None or whole is None else _TRIES * once + whole)
    return None


def _next_look(results: Results, seeds: float) -> int:
    """Return the first future look with at least `seeds` seeds. Each look has twice the seeds of the look before."""
    at, past = results.looks[0], max(results.looks[-1], len(results.seeds))
    while at < seeds or at <= past:
        at *= 2
    return at


def _in_more_time(results: Results, seeds: int) -> float | None:
    """Return the seconds of the runs that a comparison with `seeds` seeds adds; None if unknown."""
    there, whole = (in_time(results, some) for some in (len(results.seeds), seeds))
    return None if there is None or whole is None else whole - there


# Notes.


def _missing(results: Results, rows: Sequence[Row], single: Row | None) -> Note:
    """Return the note on the key that lacks an entry."""
    has_several = any(row.nodes > 1 for row in rows)
    if single is None and (has_several or len(rows) > 1 or max(results.nodes) > 1):
        is_alone = any(row.nodes == 1 for row in rows)
        return Note(kind="missing", key="strategies" if is_alone else "nodes", name="single", nodes=1)
    return Note(kind="missing", key="strategies" if max(results.nodes) > 1 else "nodes", nodes=2)


def _of_all(results: Results) -> Iterator[Note]:
    if len(results.seeds) < 2:
        yield Note(kind="one seed")
    elif results.data.dependent is not None:
        yield Note(kind="seeds alone", key=results.data.dependent)
    entries = results.config.get("strategies")
    if results.tuning is None and not all(map(learns_as_single, entries if isinstance(entries, list) else [None])):
        yield Note(kind="untuned")
    for tuned in results.tuning.strategies if results.tuning is not None else ():
        for key in tuned.edges if not tuned.virtual else ():
            yield Note(kind="edge", name=tuned.name, nodes=tuned.nodes, key=key)
    if results.metric.split != "test":
        yield Note(kind="no test rows")


def _learns_better(evidence: Evidence, rows: Sequence[Row], choice: Row | None) -> Iterator[Note]:
    """Yield a note on the row with the best mean among the rows that are decided to learn better than `single`. Yield
    nothing if the choice's mean is as good."""
    sign = 1 if evidence.results.metric.higher_is_better else -1
    known = [
        (sign * row.metric.mean, row, pair.mean)
        for row in rows
        if not row.diverged and row.metric.mean is not None
        if (pair := evidence.pair(row)) is not None and pair.verdict == BETTER
    ]
    best, row, difference = max(known, key=lambda one: one[0], default=(0.0, None, 0.0))
    chosen = None if choice is None else choice.metric.mean
    if row is not None and (chosen is None or best > sign * chosen):
        yield Note(kind="learns better", name=row.name, nodes=row.nodes, number=difference)


def _of_rows(evidence: Evidence, rows: Sequence[Row]) -> Iterator[Note]:
    for row in rows:
        of_row: dict[str, Any] = {"name": row.name, "nodes": row.nodes}
        if row.diverged:
            yield Note(kind="diverged", **of_row, number=row.diverged, of=row.runs + row.diverged)
        elif evidence.seconds(row) is None:
            to = row.to_target
            if evidence.goal == TO_TARGET and to is not None and to.reached < to.of:
                yield Note(kind="unmet", **of_row, number=to.of - to.reached, of=to.of)
            else:
                yield Note(kind="other place", **of_row)
    yield from _slow_network(evidence, rows)


def _slow_network(evidence: Evidence, rows: Sequence[Row]) -> Iterator[Note]:
    """Yield a note on the row that saves most bytes over `batch` and learns as well as `batch` on as many nodes."""
    steady = [row for row in rows if row.nodes > 1 and not row.diverged and row.bytes_per_node]
    batch = {row.nodes: row.bytes_per_node or 0.0 for row in steady if row.name == "batch"}
    times = {
        (row.name, row.nodes): batch[row.nodes] / (row.bytes_per_node or 1.0)
        for row in steady
        if row.name != "batch" and row.nodes in batch and evidence.is_as_good(row, "batch")
    }
    if times and max(times.values()) >= _FEWER:
        name, nodes = max(times, key=times.__getitem__)
        yield Note(kind="slow network", name=name, nodes=nodes, number=times[name, nodes])
