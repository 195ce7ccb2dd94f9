"""How long a plan measures: one deadline for all its loops. Pure, but for the clock that it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

LEAST = 2
"""The fewest sizes and rounds, however long they take."""


@dataclass(frozen=True)
class Deadline:
    """seconds: of all measurements together. clock: the seconds since they began, the same on all nodes that measure
    together.

    A part of the measurements ends at its share of the seconds, counted from the beginning, so that time is left for
    the other parts.
    """

    seconds: float
    clock: Callable[[], float]

    def is_over(self, share: float = 1.0) -> bool:
        """Whether this share of the seconds has passed."""
        return self.clock() >= share * self.seconds

    def rounds(self, most: int, share: float = 1.0) -> Iterator[int]:
        """Yield the numbers of rounds: at most `most`, and after this share of the seconds no more than LEAST."""
        for number in range(most):
            if number >= LEAST and self.is_over(share):
                return
            yield number
