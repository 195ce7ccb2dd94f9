"""When all nodes look together whether a checkpoint is due: after the same step, about once a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparksplit.collectives import Collective
from sparksplit.training.node.saver import Saver

_SECONDS = 1.0
"""Between two looks: short enough for a node that is asked to end, long enough to cost nothing."""
_GROWTH = 4


@dataclass(frozen=True)
class Seen:
    """What a look has shown to all nodes alike. due: a checkpoint is. ending: a node was asked to end."""

    due: bool
    ending: bool


class Looks:
    """The looks of a run from step `begun` on. Each is one small sum, which also says after which step the next one is.

    Rank 0's clock decides, so that all nodes do the same. seconds: between two checkpoints; None: none is due by time.
    ending: whether this node was asked to end. patience: seconds after which a checkpoint is due even though the last
    one is still being written, so that it is waited for, and whatever hangs is noticed. rounds: whether they come at
    the ends of rounds, too, since only from there another number of nodes can go on.
    """

    def __init__(
        self,
        collective: Collective,
        saver: Saver,
        seconds: float | None,
        ending: Callable[[], bool],
        begun: int,
        patience: float,
        rounds: bool = False,
    ) -> None:
        self._collective, self._saver, self._ending = collective, saver, ending
        self._seconds, self._patience, self._rounds = seconds, patience, rounds
        self._looked = self._saved = self._saved_round = time.monotonic()
        self._last, self._length = begun, 1
        self._planned = begun
        self._next = begun + 1
        """The step after which the next look is, or after the first one from there on at which all nodes agree."""

    def until(self, step: int, end: int, most: int) -> int:
        """Where a chunk that begins at `step`, and would end at `end`, must end. most: steps that it has at most.

        Chunks are made before they are trained on: the next look is where no node has planned beyond.
        """
        if step < self._next:
            end = min(end, self._next)
        self._planned = max(self._planned, min(end, step + most))
        return end

    def check(self) -> None:
        """Raise what writing the last checkpoint has failed with, if it has."""
        self._saver.check()

    def is_next(self, step: int, ends_round: bool) -> bool:
        """Whether all nodes look after `step`, where they agree."""
        return step >= self._next or (ends_round and self._rounds)

    def look(self, step: int, ends_round: bool = False) -> Seen:
        """Look, after `step`. Every node must call it, after the same step."""
        now, collective = time.monotonic(), self._collective
        facts = np.zeros(collective.size + 3, np.int64)
        facts[collective.rank] = self._planned
        facts[-1] = self._ending()
        if collective.rank == 0:
            rate = (step - self._last) / max(now - self._looked, 1e-6)
            facts[-3] = max(1, min(_GROWTH * self._length, int(_SECONDS * rate)))
            facts[-2] = self._due(now, ends_round and self._rounds)
        sent = collective.bytes_sent
        facts = np.array(collective.sum([facts])[0])
        collective.bytes_sent = sent  # how many looks there are depends on the clock
        self._looked, self._last, self._length = now, step, int(facts[-3])
        self._next = max(step + self._length, int(facts[:-3].max()))
        return Seen(bool(facts[-2]), bool(facts[-1]))

    def saved(self, ends_round: bool) -> None:
        """A checkpoint has been begun."""
        self._saved = time.monotonic()
        if ends_round:
            self._saved_round = self._saved

    def _due(self, now: float, ends_round: bool) -> bool:
        since = self._saved_round if ends_round else self._saved
        if self._seconds is None or now - since < self._seconds:
            return False
        writing = self._saver.seconds
        return not writing or writing > self._patience
