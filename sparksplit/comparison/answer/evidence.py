"""The verdicts about the rows of the table, looked up in the differences.

A recommendation needs less than verdicts: of its differences it is enough that each is `enough`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sparksplit.comparison.analysis.goals import goal_of, seconds_of
from sparksplit.comparison.analysis.verdicts import BETTER, GOOD, SAME, WORSE
from sparksplit.comparison.answer.content import Note
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Pair, Row, TimePair
from sparksplit.comparison.plan import SINGLE


class Evidence:
    """The verdicts about rows on real nodes. single: the row that all rows are compared with."""

    def __init__(self, results: Results, single: Row) -> None:
        self.results, self.single, self.goal = results, single, goal_of(results.table)
        self.rows = [row for row in results.table if not row.virtual]
        self.others = [row for row in self.rows if row is not single]
        self.steady = [row for row in self.rows if not self.trouble(row)]
        self._on_one = {row.name: row for row in self.rows if row.nodes == 1}
        self._pairs = {(one.name, one.nodes, one.against): one for one in results.pairs if not one.virtual}
        self._times = {(one.name, one.nodes, one.against, one.what): one for one in results.times}
        winners = self.quickest(row for row in self.others if self.wins(row))
        self.winner = next((row for row in winners if row.nodes > 1), winners[0] if winners else None)

    def pair(self, row: Row, against: str = SINGLE) -> Pair | None:
        """The difference of the metric between the row and `against`."""
        return self._pairs.get((row.name, row.nodes, against))

    def speed(self, row: Row, against: str = SINGLE) -> TimePair | None:
        """The speed-up of the row over `against`, in the seconds that count."""
        return self._times.get((row.name, row.nodes, against, self.goal))

    def speed_beside(self, row: Row, against: str) -> TimePair | None:
        """Return the speed-up over `against`. Without a speed-up to the target, the seconds of all passes count."""
        return self.speed(row, against) or self._times.get((row.name, row.nodes, against, IN_ALL))

    def seconds(self, row: Row) -> float | None:
        """The row's seconds; None where it has none that count."""
        return seconds_of(row, self.goal)

    def learnt(self, row: Row) -> float | None:
        """The row's mean of the metric, with a sign that makes higher better."""
        mean = row.metric.mean
        return mean if mean is None or self.results.metric.higher_is_better else -mean

    def is_quicker(self, row: Row, other: Row) -> bool:
        """Whether the table shows fewer seconds for the row."""
        seconds, others = self.seconds(row), self.seconds(other)
        return seconds is not None and others is not None and seconds < others

    def quickest(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows in order, the quickest first."""
        return sorted(rows, key=lambda row: (self.seconds(row) or 0.0, row.nodes))

    def is_as_good(self, row: Row, against: str = SINGLE) -> bool:
        """Whether it is decided that the row learns as well as `against`."""
        return _is_decided(self.pair(row, against), *GOOD)

    def is_faster(self, row: Row, against: str = SINGLE) -> bool:
        """Whether it is decided that the row is faster than `against`. The table must not show the opposite."""
        other = self._on_one[against]
        is_shown = self.seconds(other) is None or self.is_quicker(row, other)
        return is_shown and _is_decided(self.speed_beside(row, against), "faster")

    def behind(self, row: Row) -> list[str]:
        """Return the controls that a row on several nodes is not decided to beat. To beat a control, the row must be
        faster or learn better."""
        behind = (own for own in row.controls if not _is_decided(self.pair(row, own), BETTER))
        return [control for control in behind if not self.is_faster(row, control)]

    def wins(self, row: Row) -> bool:
        """Whether the row may be recommended.

        No run of the row diverged. The row is decided to be faster than `single`, and to learn as well. A row on
        several nodes also beats every other row on one node.
        """
        return not row.diverged and self.is_faster(row) and self.is_as_good(row) and not self.behind(row)

    def is_ruled_out(self, row: Row) -> bool:
        """Whether it is decided that the row is not worth having.

        The row is slower or worse than `single`, or another row on one node is faster and learns as well.
        """
        verdicts = [(_verdict(self.speed(row, own)), _verdict(self.pair(row, own))) for own in (SINGLE, *row.controls)]
        beaten = any(speed == "slower" and learnt in (WORSE, SAME) for speed, learnt in verdicts)
        return beaten or verdicts[0][0] == "slower" or verdicts[0][1] == WORSE

    def trouble(self, row: Row) -> Note | None:
        """Return why the row cannot win, however its other runs did; None if it can."""
        to, why = row.to_target, Note(kind="other place", name=row.name, nodes=row.nodes)
        if row.diverged:
            return replace(why, kind="diverged", number=row.diverged, of=row.runs + row.diverged)
        if self.seconds(row) is not None:
            return None
        if self.goal == TO_TARGET and to is not None and to.reached < to.of:
            return replace(why, kind="unmet", number=to.of - to.reached, of=to.of)
        return why


def _is_decided(difference: Pair | TimePair | None, *verdicts: str) -> bool:
    """Whether a difference has one of the verdicts, or is decided well enough for a recommendation."""
    return difference is not None and (difference.enough or difference.verdict in verdicts)


def _verdict(difference: Pair | TimePair | None) -> str:
    return "" if difference is None else difference.verdict
