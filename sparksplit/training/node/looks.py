"""When all nodes look together whether a checkpoint is due: after the same step, about once a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparksplit.collectives import Collective
from sparksplit.training.node.saver import Saver

_SECONDS = 1.0
"""Seconds between two looks: short enough for a node that is asked to end, long enough to cost nothing."""
_GROWTH = 4


@dataclass(frozen=True)
class Seen:
    """The result of a look, the same on all nodes. due: a checkpoint is due. ending: a node was asked to end."""

    due: bool
    ending: bool


class Looks:
    """The looks of a run from step `begun` on. A look is one small sum over the nodes, which also gives the step of the
    next look.

    Rank 0's clock decides, so that all nodes do the same.
    seconds: seconds between two checkpoints. None: no checkpoint is due by time.
    ending: returns whether this node was asked to end.
    patience: seconds after which a checkpoint is due even though the last checkpoint is still being written. The run
        then waits for the last checkpoint, so that a hang is noticed.
    rounds: whether to look at the ends of rounds too, because another number of nodes can only go on from there.
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
        """The next look is after this step. If the nodes do not agree there, it is after the next step at which they
        agree."""

    def until(self, step: int, end: int, most: int) -> int:
        """Return where a chunk that begins at `step` and would end at `end` must end. most: largest number of its
        steps.

        Chunks are made before they are trained on. So the next look must be at a step that no node's chunks go beyond.
        """
        if step < self._next:
            end = min(end, self._next)
        self._planned = max(self._planned, min(end, step + most))
        return end

    def check(self) -> None:
        """Raise the error of the last checkpoint's writing, if it has failed."""
        self._saver.check()

    def is_next(self, step: int, ends_round: bool) -> bool:
        """Return whether all nodes look after `step`, where they agree."""
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
        collective.bytes_sent = sent  # not counted, because the number of looks depends on the clock
        self._looked, self._last, self._length = now, step, int(facts[-3])
        self._next = max(step + self._length, int(facts[:-3].max()))
        return Seen(bool(facts[-2]), bool(facts[-1]))

    def saved(self, ends_round: bool) -> None:
        """Note that a checkpoint has been begun."""
        self._saved = time.monotonic()
        if ends_round:
            self._saved_round = self._saved

    def _due(self, now: float, ends_round: bool) -> bool:
        since = self._saved_round if ends_round else self._saved
        if self._seconds is None or now - since < self._seconds:
            return False
        writing = self._saver.seconds
        return not writing or writing > self._patience
