"""Make the answer: the recommendation, its gain, the open questions, and the next command.

The decision relies on the verdicts of all differences together. A choice by the means alone has the decision
`undecided`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

from sparksplit.comparison.analysis.goals import goal_of, single_of
from sparksplit.comparison.analysis.verdicts import BETTER
from sparksplit.comparison.answer.content import Answer, Decision, Gain, Kind, Next, Note, Option, Question
from sparksplit.comparison.answer.evidence import Evidence
from sparksplit.comparison.answer.needed import FIRST, in_time, question
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import Row
from sparksplit.comparison.plan import SINGLE
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


def answer(results: Results) -> Answer:
    """Return the `answer` of results.json, made from all other fields."""
    metric, target, single = results.metric, results.target, single_of(results.table)
    made = Answer(
        decision="nothing to compare", goal=goal_of(results.table), target=None if target is None else target.value,
        metric=metric.name, split=metric.split, margin=metric.margin, seeds=len(results.seeds),
        wrong_of_100=results.wrong_of_100, choice=None, gain=None,
    )  # fmt: skip
    rows = [row for row in results.table if not row.virtual]
    if single is None or len(rows) < 2:
        return replace(made, notes=[_missing(results, rows, single)])
    evidence = Evidence(results, single)
    decision, choice, doubtful = _decided(evidence)
    is_open = decision == "undecided" and not single.diverged
    known = None if choice is None or choice is single else choice
    made = replace(
        made,
        decision=decision,
        choice=None if choice is None else _option(evidence, choice),
        until=_option(evidence, evidence.winner or single) if is_open else None,
        gain=None if known is None else Gain(speed=evidence.speed(known), quality=evidence.pair(known)),
        runners_up=[_option(evidence, row) for row in _runners_up(evidence, decision, choice)],
        open=[one for row in doubtful for one in _questions(evidence, row)],
        notes=sorted(_notes(evidence, choice), key=lambda note: get_args(Kind).index(note.kind)),
    )
    return replace(made, next=_next(evidence, made))


def _decided(evidence: Evidence) -> tuple[Decision, Row | None, list[Row]]:
    """Return the decision, the choice, and the undecided rows that could change the choice, most promising first."""
    single, others, winner = evidence.single, evidence.others, evidence.winner
    steady = evidence.quickest(row for row in evidence.steady if row is not single)
    unsettled = [row for row in steady if not evidence.wins(row) and not evidence.is_ruled_out(row)]
    is_comparable = single.runs > 0 and single in evidence.steady
    if winner is None or winner.nodes == 1:
        is_alone = winner is None and all(row.nodes == 1 for row in others)
        left = [row for row in others if (row.nodes > 1 or is_alone) and not evidence.is_ruled_out(row)]
        # A row with a diverged run is never recommended.
        left = [row for row in left if not (row.diverged and (winner or (row.runs == 0 and row.diverged > 1)))]
        if left or not is_comparable:
            best = next(iter(_as_good_by_mean(evidence)), None)
            asked = [row for row in unsettled if row in left]
            asked.sort(
                key=lambda row: (not (faster := evidence.is_faster(row)), faster and not evidence.is_as_good(row))
            )
            return "undecided", best, [*asked, *left][:1] if is_comparable else []
    choice = winner or single
    decision: Decision = "use" if choice.nodes > 1 else "stay"
    return decision, choice, [row for row in unsettled if evidence.is_quicker(row, choice)]


def _as_good_by_mean(evidence: Evidence) -> list[Row]:
    """Return the rows that learn as well as `single` by the means, the quickest first.

    A row on several nodes is left out if, by the means, a row on one node is as quick and as good.
    """

    def learns(row: Row, other: Row) -> bool:
        mean, others = evidence.learnt(row), evidence.learnt(other)
        return mean is not None and (others is None or mean - others >= -evidence.results.metric.margin)

    def is_beaten(row: Row) -> bool:
        alone = [other for other in evidence.steady if other.nodes == 1 and learns(other, row)]
        return row.nodes > 1 and not all(evidence.is_quicker(row, other) for other in alone)

    good = [row for row in evidence.steady if learns(row, evidence.single) and not evidence.is_ruled_out(row)]
    return evidence.quickest(row for row in good if not is_beaten(row))


def _runners_up(evidence: Evidence, decision: Decision, choice: Row | None) -> list[Row]:
    """Return the quickest other rows that learn as well by the means, and then `single`.

    With the decision stay, the quickest row on several nodes comes first, however it learns.
    """
    single = evidence.single
    rest = [row for row in _as_good_by_mean(evidence) if row not in (choice, single)]
    if decision == "stay":
        several = evidence.quickest(row for row in evidence.steady if row.nodes > 1)
        rest = [*several[:1], *(row for row in rest if row.nodes == 1)]
    has_time = single is not choice and evidence.seconds(single) is not None
    return [*rest[: _RUNNERS_UP - 1], *([single] if has_time else [])]


def _questions(evidence: Evidence, row: Row) -> Iterator[Question]:
    """Yield the questions to decide before the row can be recommended."""
    if evidence.trouble(row):
        yield Question(name=row.name, nodes=row.nodes, against=SINGLE, about="speed", obstacle="incomplete")
        return
    is_faster, is_as_good = evidence.is_faster(row), evidence.is_as_good(row)
    if not is_faster:
        yield question(evidence, row, "speed")
    if not is_as_good:
        yield question(evidence, row, "quality")
    for control in evidence.behind(row) if is_faster and is_as_good else ():
        beside = evidence.speed_beside(row, control)
        yield question(evidence, row, "quality" if beside and beside.verdict == "slower" else "speed", control)


def _option(evidence: Evidence, row: Row) -> Option:
    seconds = evidence.seconds(row)
    return Option(name=row.name, nodes=row.nodes, settings=row.settings, seconds=seconds, metric=row.metric.mean)


def _next(evidence: Evidence, made: Answer) -> Next | None:
    """Return the next command after an answer."""
    results, there = evidence.results, made.seeds
    now = in_time(results, there)

    def after(key: str, seeds: int) -> Next:
        return Next(settings={key: seeds}, seconds=in_time(results, seeds) - now or None)

    if evidence.single.diverged and made.decision != "use":
        rate = value_at(results.config, "optimizer.learning_rate")
        if not isinstance(rate, float):
            return None
        return Next(settings={"optimizer.learning_rate": float(f"{_LOWER * rate:.3g}")}, seconds=now or None)
    if there < 2 and results.config.get("max_seeds") is None:
        return after("seeds", FIRST)
    if seeds := [one.seeds for one in made.open if one.seeds is not None]:
        looks = [results.looks[0]]
        while looks[-1] <= max(results.looks[-1], there):  # each look has twice the seeds of the look before
            looks = [2 * looks[-1]]
        while looks[-1] < _LAST_LOOK * max(seeds):
            looks.append(2 * looks[-1])
        first, last = (after("max_seeds", look) for look in (looks[0], looks[-1]))
        return replace(last, first_seeds=looks[0], first_seconds=first.seconds) if looks[1:] else last
    if any(note.kind == "untuned" for note in made.notes):
        return Next(settings={"tune": _TRIES}, seconds=_TRIES * in_time(results, 1) + now or None)
    return None


# Notes.


def _missing(results: Results, rows: Sequence[Row], single: Row | None) -> Note:
    """Return the note on the key that lacks an entry."""
    several = max(results.nodes) > 1
    if single is None and (len(rows) > 1 or several or any(row.nodes > 1 for row in rows)):
        is_alone = any(row.nodes == 1 for row in rows)
        return Note(kind="missing", key="strategies" if is_alone else "nodes", name="single", nodes=1)
    return Note(kind="missing", key="strategies" if several else "nodes", nodes=2)


def _notes(evidence: Evidence, choice: Row | None) -> Iterator[Note]:
    results = evidence.results
    yield from filter(None, map(evidence.trouble, evidence.rows))
    yield from _slow_network(evidence)
    yield from _learns_better(evidence, choice)
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


def _learns_better(evidence: Evidence, choice: Row | None) -> Iterator[Note]:
    """Yield a note on the row with the best mean among the rows that are decided to learn better than `single`. Yield
    nothing if the choice's mean is as good."""
    known = [
        (evidence.learnt(row) or 0.0, row, pair.mean)
        for row in evidence.others
        if not row.diverged and (pair := evidence.pair(row)) is not None and pair.verdict == BETTER
    ]
    mean, row, number = max(known, key=lambda one: one[0], default=(0.0, None, 0.0))
    chosen = None if choice is None else evidence.learnt(choice)
    if row is not None and (chosen is None or mean > chosen):
        yield Note(kind="learns better", name=row.name, nodes=row.nodes, number=number)


def _slow_network(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on the row that saves most bytes over `batch` and learns as well as `batch` on as many nodes."""
    sent = {(row.name, row.nodes): row.bytes_per_node or 0.0 for row in evidence.rows if not row.diverged}
    fewer = {
        (name, nodes): sent.get(("batch", nodes), 0.0) / sent[name, nodes]
        for name, nodes in ((row.name, row.nodes) for row in evidence.others if evidence.is_as_good(row, "batch"))
        if nodes > 1 and name != "batch" and sent.get((name, nodes))
    }
    name, nodes = max(fewer, key=fewer.__getitem__, default=("", 0))
    if nodes and fewer[name, nodes] >= _FEWER:
        yield Note(kind="slow network", name=name, nodes=nodes, number=fewer[name, nodes])
