"""The verdicts about the rows of the table, looked up in the differences."""

from __future__ import annotations

from dataclasses import dataclass

from sparksplit.comparison.analysis.goals import seconds_of
from sparksplit.comparison.analysis.verdicts import BETTER, GOOD, SAME, WORSE
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import IN_ALL, Pair, Row, TimePair
from sparksplit.comparison.plan import SINGLE


@dataclass(frozen=True)
class Evidence:
    """The verdicts about rows on real nodes. goal: the seconds that count. single: the row that all rows are compared
    with."""

    results: Results
    goal: str
    single: Row

    def seconds(self, row: Row) -> float | None:
        """The row's seconds; None where it has none that count."""
        return seconds_of(row, self.goal)

    def pair(self, row: Row, against: str = SINGLE) -> Pair | None:
        """The difference of the metric between the row and `against`."""
        rows = [pair for pair in self.results.pairs if not pair.virtual and pair.against == against]
        return next((pair for pair in rows if (pair.name, pair.nodes) == (row.name, row.nodes)), None)

    def speed(self, row: Row, against: str = SINGLE, goal: str | None = None) -> TimePair | None:
        """Return the speed-up of the row over `against`. goal: the seconds to compare, by default the seconds that
        count."""
        wanted = row.name, row.nodes, goal or self.goal, against
        return next(
            (pair for pair in self.results.times if (pair.name, pair.nodes, pair.what, pair.against) == wanted), None
        )

    def speed_beside(self, row: Row, control: str) -> TimePair | None:
        """Return the speed-up over another row on one node. Without a speed-up to the target, the seconds of all passes
        count."""
        return self.speed(row, control) or self.speed(row, control, IN_ALL)

    def is_as_good(self, row: Row, against: str = SINGLE) -> bool:
        """Whether it is decided that the row learns as well as `against`."""
        pair = self.pair(row, against)
        return pair is not None and pair.verdict in GOOD

    def is_faster(self, row: Row) -> bool:
        """Whether it is decided that the row is faster than `single`. The table must not show the opposite."""
        speed, seconds, alone = self.speed(row), self.seconds(row), self.seconds(self.single)
        is_shown = seconds is not None and alone is not None and seconds < alone
        return is_shown and speed is not None and speed.verdict == "faster"

    def behind(self, row: Row) -> list[str]:
        """Return the controls that a row on several nodes is not decided to beat. To beat a control, the row must be
        faster or learn better."""
        return [control for control in row.controls if not self._is_ahead(row, control)]

    def _is_ahead(self, row: Row, control: str) -> bool:
        pair, speed = self.pair(row, control), self.speed_beside(row, control)
        if pair is not None and pair.verdict == BETTER:
            return True
        if speed is None or speed.verdict != "faster":
            return False
        # The row is faster, paired by seed. The table must not show the opposite.
        others = (
            other for other in self.results.table if (other.name, other.nodes, other.virtual) == (control, 1, False)
        )
        seconds, alone = self.seconds(row), self.seconds(next(others))
        return alone is None or (seconds is not None and seconds < alone)

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
        speed, pair = self.speed(row), self.pair(row)
        is_slower, is_worse = (
            speed is not None and speed.verdict == "slower",
            pair is not None and pair.verdict == WORSE,
        )
        return is_slower or is_worse or any(self._is_beaten(row, control) for control in row.controls)

    def _is_beaten(self, row: Row, control: str) -> bool:
        pair, speed = self.pair(row, control), self.speed(row, control)
        return speed is not None and speed.verdict == "slower" and pair is not None and pair.verdict in (WORSE, SAME)
