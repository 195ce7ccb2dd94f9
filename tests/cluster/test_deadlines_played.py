"""Invented runs, beat by beat: no healthy one is ended, and each that hangs is."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from sparksplit.cluster.deadlines import Hang, Limits, hanging
from sparksplit.cluster.node_record import NodeRecord

LIMIT = 10.0
SILENT = LIMIT - 4.2
"""Longer than this without progress, and a beat that is late makes it look like LIMIT."""
ROUNDS = 4


class Play:
    """A run whose nodes meet in a sum at the end of each round; one of them comes late to each.

    says: whether nodes say that they wait, as the ring does and TensorFlow's sums do not. own: whether they show
    updates of their own between the sums. lines: by rank, when its state changed, and to what. ends: when each has its
    result; None: never, since the node `hung` stops at the beginning of its work in the last round.
    """

    def __init__(self, chance: random.Random, hangs: bool) -> None:
        self.chance, size = chance, chance.choice([2, 3, 4])
        self.says = chance.random() < 0.5
        self.own = self.says and chance.random() < 0.5
        self.hung = chance.randrange(size) if hangs else None
        self.states: list[dict[str, Any]] = [{"update": 0, "done": 0, "phases": 0} for _ in range(size)]
        self.lines: list[list[tuple[float, dict[str, Any]]]] = [[(0.0, dict(state))] for state in self.states]
        self.at = [0.0] * size
        for number in range(ROUNDS):
            self._round(number, number == ROUNDS - 1)
        self.last = max(line[-1][0] for line in self.lines)
        self._put(0, phase="export", phases=99) if not hangs else None
        self.at[0] += chance.uniform(0, SILENT)
        self.ends = [None if hangs else at for at in self.at]

    def _put(self, rank: int, **fields: Any) -> None:
        self.states[rank].update(fields)
        self.lines[rank].append((self.at[rank], dict(self.states[rank])))

    def _round(self, number: int, last: bool) -> None:
        chance, ranks = self.chance, range(len(self.at))
        late = chance.randrange(len(self.at))
        for rank in ranks:
            if rank == self.hung and last:
                continue
            state, in_phase = self.states[rank], chance.random() < 0.3
            if in_phase:
                self._put(rank, phase="validation", phases=state["phases"] + 1)
            for _ in range(chance.randint(4, 9) if rank == late else chance.randint(0, 2)):
                self.at[rank] += chance.uniform(0.1, SILENT)
                name = "update" if self.own and not in_phase else "done"
                self._put(rank, **{name: state[name] + 1})
            if in_phase:
                self._put(rank, phase=None, phases=state["phases"] + 1)
        meet = max(self.at)
        for rank in ranks:
            if self.says and (meet - self.at[rank] > 1 or (self.hung is not None and last)) and rank != self.hung:
                self.at[rank] += 1
                self._put(rank, waiting=True)
        if self.hung is not None and last:
            return
        for rank in ranks:
            self.at[rank] = meet + chance.uniform(0, 0.02)
            if self.states[rank].get("waiting"):
                self._put(rank, waiting=False)
            self.at[rank] += chance.choice([0.01, 0.01, 1.5, SILENT])
            self._put(rank, update=100 * (number + 1))

    def events(self, until: float) -> list[tuple[float, int, dict[str, Any] | None]]:
        """What the driver hears, and when; None: a result."""
        found = []
        for rank, (line, end) in enumerate(zip(self.lines, self.ends, strict=True)):
            beat, heard = self.chance.uniform(0, 2), 0.0
            while beat < (until if end is None else end):
                state = [state for at, state in line if at <= beat][-1]
                heard = max(heard, beat + self.chance.choice([0, 0, 0, self.chance.uniform(0, 1.5)]))
                found.append((heard, rank, state))
                beat += 2 + self.chance.uniform(0, 0.2)
            if end is not None:
                found.append((max(heard, end), rank, None))
        return sorted(found, key=lambda event: event[0])


def judged(play: Play, until: float) -> tuple[float, Hang] | None:
    """When the driver names a node, looking ten times a second; None if it never does."""
    records = [NodeRecord(rank, progressed=0.0) for rank in range(len(play.at))]
    events = [(0.0, 0, None), *play.events(until)]
    for (before, *_), (at, rank, state) in pairwise(events):
        for tenth in range(int(before * 10) + 1, int(at * 10) + 1):
            found = hanging(records, tenth / 10, Limits(LIMIT, LIMIT, LIMIT))
            if found is not None:
                return tenth / 10, found
        if state is None:
            records[rank].result, records[rank].progressed = {}, at
        else:
            records[rank].observe(state, at)
    return None


@pytest.mark.parametrize("seed", range(100))
def test_no_healthy_run_is_ended(seed: int) -> None:
    play = Play(random.Random(seed), hangs=False)
    assert judged(play, 1e9) is None


@pytest.mark.parametrize("seed", range(100))
def test_a_hang_is_named_within_its_limit_after_the_last_progress(seed: int) -> None:
    play = Play(random.Random(seed), hangs=True)
    found = judged(play, play.last + 60)
    assert found is not None
    at, hang = found
    assert at < play.last + 2 * LIMIT
    assert not play.says or hang.node.rank == play.hung
