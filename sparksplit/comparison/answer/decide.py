"""Make the answer: the recommendation, its gain, the open questions, and the next command.

A row is recommended by what is `enough` alone, and ruled out by the verdicts of all differences together. A choice by
the means alone has the decision `undecided`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from sparksplit.base.records import JsonObject
from sparksplit.comparison.analysis.goals import goal_of, lost, seconds_of, single_of
from sparksplit.comparison.analysis.needed import for_seeds, in_search, in_time, order, with_needs
from sparksplit.comparison.analysis.verdicts import BETTER, GOOD, SAME, WORSE, further_looks
from sparksplit.comparison.answer.content import About, Answer, Decision, Gain, Next, Note, Question
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import Pair, Row, TimePair
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.tuning.space import learn_as_single, takes_rates

_TRIES = 8
"""Learning rates to try where none was tuned."""
_FEWER = 1.05
"""A row is named for a slow network if it sends at least this many times fewer bytes than `batch`."""


def answer(results: Results) -> Answer:
    """Return the `answer` of results.json, made from all other fields."""
    single = single_of(results.table)
    if single is None or all(row is single or row.virtual for row in results.table):
        return Answer(decision="nothing to compare", notes=[Note(kind="no other" if single else "no single")])
    evidence = _Evidence(results, single)
    likely = _by_the_means(evidence)
    decision, choice, doubtful = _decided(evidence, likely)
    speed, quality = (evidence.speed(choice), evidence.pair(choice)) if choice else (None, None)
    asked = [one for row in doubtful for one in sorted(_questions(evidence, row), key=order)]
    if decision == "use":
        rest = list(filter(evidence.wins, evidence.steady))[:1]
    elif decision == "stay":
        rest = [*(row for row in evidence.steady if row.nodes > 1), *likely]
    else:  # what the first question is about
        rest = [*(row for row in evidence.steady if row.nodes == 1 and asked and row.name == asked[0].against), *likely]
    rest = [row for row in rest if row not in (choice, single)][:1]
    if choice is not single and evidence.seconds(single) < inf:
        rest.append(single)
    return Answer(
        decision=decision,
        choice=choice,
        gain=Gain(speed=speed, quality=quality) if speed and quality else None,
        until=(evidence.winner or single) if decision == "undecided" and not single.diverged else None,
        runners_up=rest,
        open=asked,
        notes=list(_notes(evidence, quality.mean if quality else 0.0)),
        next=_next(evidence, asked),
    )


class _Evidence:
    """The verdicts about rows on real nodes. single: the row that all rows are compared with.

    steady: the rows without trouble, the quickest first. winner: the row to recommend; None if none is decided.
    """

    def __init__(self, results: Results, single: Row) -> None:
        self.results, self.single, self.goal = results, single, goal_of(results.table)
        self.sign = 1 if results.metric.higher_is_better else -1
        self.rows = [row for row in results.table if not row.virtual]
        self._on_one = {row.name: row for row in self.rows if row.nodes == 1}
        self._pairs = {(one.name, one.nodes, one.against): one for one in results.pairs if not one.virtual}
        # The seconds of all passes are compared where a row missed the target.
        times = sorted(results.times, key=lambda one: one.what == self.goal)
        self._times = {(one.name, one.nodes, one.against): one for one in times}
        steady = [row for row in self.rows if self.trouble(row) is None]
        self.steady = sorted(steady, key=lambda row: (self.seconds(row), row.nodes))
        self.winner = min(filter(self.wins, self.steady), key=lambda row: row.nodes == 1, default=None)

    def seconds(self, row: Row) -> float:
        """The row's seconds; infinite where it has none that count."""
        seconds = seconds_of(row, self.goal)
        return inf if seconds is None else seconds

    def pair(self, row: Row, against: str = SINGLE) -> Pair | None:
        """The difference of the metric between the row and `against`."""
        return self._pairs.get((row.name, row.nodes, against))

    def speed(self, row: Row, against: str = SINGLE) -> TimePair | None:
        """The speed-up of the row over `against`."""
        return self._times.get((row.name, row.nodes, against))

    def learns(self, row: Row, *verdicts: str, against: str = SINGLE) -> bool:
        """Whether the difference of the metric has one of these verdicts, and is not `enough`."""
        pair = self.pair(row, against)
        return pair is not None and pair.verdict in verdicts and not pair.enough

    def is_good(self, row: Row, against: str = SINGLE) -> bool:
        """Whether it is decided that the row learns as well as `single`, or better than another row on one node."""
        pair = self.pair(row, against)
        return pair is not None and pair.enough

    def is_faster(self, row: Row, against: str = SINGLE) -> bool:
        """Whether it is decided that the row is faster than `against`. The table must not show the opposite."""
        speed, is_shown = self.speed(row, against), self.seconds(row) < self.seconds(self._on_one[against])
        return is_shown and speed is not None and speed.enough

    def is_slower(self, row: Row, against: str) -> bool:
        """Whether it is decided that the row is slower than `against`, in the seconds that count.

        A row that never reaches the target takes longer than all of its passes, and `against` takes no longer than all.
        """
        speed, to = self.speed(row, against), row.to_target
        is_never = to is not None and to.reached == 0 and self.seconds(self._on_one[against]) < inf
        return speed is not None and speed.verdict == "slower" and (is_never or speed.what == self.goal)

    def behind(self, row: Row) -> list[str]:
        """Return the controls that a row on several nodes is not decided to beat. To beat a control, the row must be
        faster or learn better."""
        return [own for own in row.controls if not (self.is_good(row, own) or self.is_faster(row, own))]

    def wins(self, row: Row) -> bool:
        """Whether a steady row may be recommended.

        The row is decided to be faster than `single`, and to learn as well. A row on several nodes also beats every
        other row on one node.
        """
        return self.is_faster(row) and self.is_good(row) and not self.behind(row)

    def is_ruled_out(self, row: Row) -> bool:
        """Whether the row is not worth having: all of its runs diverged, or it is decided to be slower or to learn
        worse than `single`, or a row on one node, not ruled out itself, is decided to be faster and to learn as
        well."""
        alone = (own for own in row.controls if not self.is_ruled_out(self._on_one[own]))
        better = (own for own in alone if self.learns(row, WORSE, SAME, against=own))
        is_beaten = any(self.is_slower(row, own) for own in (SINGLE, *better))
        return is_beaten or self.learns(row, WORSE) or (row.runs == 0 and row.diverged > 1)

    def trouble(self, row: Row) -> Note | None:
        """Return why the row cannot win, however its other runs did; None if it can."""
        found = lost(row, self.goal)
        return Note(kind=found[0], name=row.name, nodes=row.nodes, number=found[1], of=found[2]) if found else None


def _by_the_means(evidence: _Evidence) -> list[Row]:
    """Return the rows that learn as well as `single` by the means, the quickest first.

    A row on several nodes is left out if, by the means, one of these rows on one node is as quick and as good.
    """
    sign, metric = evidence.sign, evidence.results.metric

    def learns(row: Row, other: Row) -> bool:
        mean, others = row.metric.mean, other.metric.mean
        return mean is not None and (others is None or sign * (mean - others) >= -metric.margin)

    def is_beaten(row: Row) -> bool:
        as_quick = (own for own in alone if evidence.seconds(own) <= evidence.seconds(row))
        return row.nodes > 1 and any(learns(own, row) for own in as_quick)

    good = [row for row in evidence.steady if learns(row, evidence.single) and not evidence.is_ruled_out(row)]
    alone = [row for row in good if row.nodes == 1]
    return [row for row in good if not is_beaten(row)]


def _decided(evidence: _Evidence, likely: Sequence[Row]) -> tuple[Decision, Row | None, list[Row]]:
    """Return the decision, the choice, and the undecided rows that could change the choice."""
    single, winner, steady = evidence.single, evidence.winner, evidence.steady
    if winner is None or winner.nodes == 1:
        several, advice = [row for row in evidence.rows if row.nodes > 1], winner or single
        # A row with a diverged run is never recommended, so it cannot change a choice that is decided.
        rivals = [row for row in evidence.rows if row is not single and not (winner and row.diverged)]
        rivals = [row for row in rivals if not (evidence.wins(row) or evidence.is_ruled_out(row))]
        left = [row for row in rivals if row.nodes > 1]
        # A row is no advice if one is shown to beat it that only an undecided row on one node rules out.
        is_beaten = any(evidence.is_faster(row, advice.name) and evidence.is_good(row) for row in several)
        if not left and (is_beaten or not (winner or several)):
            left = rivals
        if left or single not in steady:
            left.sort(key=lambda row: (row not in steady, not evidence.is_faster(row), evidence.seconds(row)))
            return "undecided", likely[0] if likely else None, left[:1] if single in steady else []
    choice = winner or single
    quicker = (row for row in steady if evidence.seconds(row) < evidence.seconds(choice))
    doubtful = [row for row in quicker if not evidence.wins(row) and not evidence.is_ruled_out(row)]
    return "use" if choice.nodes > 1 else "stay", choice, doubtful


def _questions(evidence: _Evidence, row: Row) -> Iterator[Question]:
    """Yield the questions to decide before the row can be recommended."""
    if evidence.trouble(row):
        yield Question(name=row.name, nodes=row.nodes, against=SINGLE, about="faults")
        return
    is_faster, is_as_good = evidence.is_faster(row), evidence.is_good(row)
    if not is_faster:
        yield _question(evidence, row, "speed")
    if not is_as_good:
        yield _question(evidence, row, "quality")
    for control in evidence.behind(row) if is_faster and is_as_good else ():
        speed = evidence.speed(row, control)
        yield _question(evidence, row, "quality" if speed and speed.verdict == "slower" else "speed", control)


def _question(evidence: _Evidence, row: Row, about: About, against: str = SINGLE) -> Question:
    one = evidence.pair(row, against) if about == "quality" else evidence.speed(row, against)
    return with_needs(Question(name=row.name, nodes=row.nodes, against=against, about=about), one, evidence.results)


def _next(evidence: _Evidence, asked: Sequence[Question]) -> Next | None:
    """Return the command with more seeds; None if they would decide nothing."""
    results, there = evidence.results, len(evidence.results.seeds)
    most = max((question.seeds or 0 for question in for_seeds(asked)), default=0)
    ahead = [] if there == 1 and evidence.single.diverged else further_looks(results.looks, there, most)
    settings: JsonObject = {"seeds": ahead[0]} if ahead and there == 1 else {}
    if ahead and (there > 1 or results.config.get("max_seeds")):
        settings["max_seeds"] = ahead[-1]
    more = [in_time(results, look) - in_time(results, there) for look in ahead]
    return Next(settings=settings, seeds=ahead, seconds=more) if ahead else None


def _notes(evidence: _Evidence, gained: float) -> Iterator[Note]:
    """Yield the notes, the most important first. gained: the difference of the metric between the choice and
    `single`."""
    results, metric, tuning = evidence.results, evidence.results.metric, evidence.results.tuning
    if len(results.seeds) < 2:
        yield Note(kind="one seed")
    elif results.data.dependent is not None:
        yield Note(kind="seeds alone", key=results.data.dependent)
    yield from filter(None, map(evidence.trouble, evidence.rows))
    pairs = [evidence.pair(row) for row in evidence.rows if not row.diverged]
    better, sign = (one for one in pairs if one and one.verdict == BETTER), evidence.sign
    best = max(better, key=lambda one: sign * one.mean, default=None)
    if best and sign * (best.mean - gained) > 0:
        yield Note(kind="learns better", name=best.name, nodes=best.nodes, number=best.mean)
    for tuned in tuning.strategies if tuning else ():
        for key in tuned.edges if not tuned.virtual else ():
            yield Note(kind="edge", name=tuned.name, nodes=tuned.nodes, key=key)
    if tuning is None and not learn_as_single(results.config["strategies"]):
        seconds = in_search(results, _TRIES) + in_time(results, len(results.seeds))
        can_tune = results.data.rows.get("validation") and takes_rates(results.config)
        yield Note(kind="untuned", number=(seconds or None) if can_tune else None)
    if metric.split != "test":
        yield Note(kind="no test rows")
    # On a slow network, the row helps most that saves most bytes over `batch` and learns as well as `batch` does.
    sent = {(row.name, row.nodes): row.bytes_per_node or 0.0 for row in evidence.steady}
    rows = [row for row in evidence.steady if row.bytes_per_node and evidence.learns(row, *GOOD, against="batch")]
    fewer = [(sent.get(("batch", row.nodes), 0.0) / sent[row.name, row.nodes], row.name, row.nodes) for row in rows]
    times, name, nodes = max(fewer, default=(0.0, "", 0))
    if times >= _FEWER:
        yield Note(kind="slow network", name=name, nodes=nodes, number=times)
