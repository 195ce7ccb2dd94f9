"""The length of blocks and the number of their rounds. Pure functions of measurements that are equal on all nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparksplit.comparison.intervals import interval
from sparksplit.diagnosis.advice import knee_is_decided
from sparksplit.diagnosis.measured import Readers
from sparksplit.diagnosis.messages import Effort

CALL_SECONDS = 0.25
"""Seconds of one call into TensorFlow in training. A block has several calls."""
CALLS = 3
"""The fewest calls in a block."""
_LEAST_ROUNDS = 3
_GROWTH = 4


@dataclass(frozen=True)
class Extent:
    """The extent of a block: `rounds` whole rounds.

    If `rounds` is 0, the extent is `updates` updates of one round. The block then lasts from the arrival of the first
    rows to the arrival of the next rows.
    """

    rounds: int
    updates: int = 0

    def steps(self, steps: int) -> int:
        """Return a node's steps in the block. steps: the steps of a round."""
        return self.rounds * steps or self.updates


def extent_of(steps: int, pace: float, seconds: float, together: int = 1) -> Extent:
    """Return the extent that takes about `seconds`. steps: of a round. pace: seconds of each step. together: see
    `whole_calls`."""
    return whole_calls(steps, math.ceil(seconds / max(pace, 1e-9)), together)


def whole_calls(steps: int, updates: int, together: int) -> Extent:
    """Return the extent of at least `updates` updates, as a multiple of `together`; about as many in whole rounds if
    rounds are short.

    together: the updates that readers have ready at about the same time. After these updates, the readers are as far
    ahead as before.
    """
    wanted = -(-max(1, updates) // together) * together
    if 2 * wanted > steps:
        return Extent(max(1, round(updates / steps)))
    return Extent(0, wanted)


def common_extent(extents: Sequence[Extent], steps: Sequence[int]) -> Extent:
    """Return an extent that has as many steps on all nodes. extents, steps: of each node's own block and round."""
    if len({*steps}) == 1:
        return extents[0]
    own = (extent.steps(of_node) for extent, of_node in zip(extents, steps, strict=True))
    return Extent(0, min(*own, *steps))


@dataclass(frozen=True)
class Read:
    """A reading of `rows` rows."""

    rows: int
    seconds: float

    @property
    def per_row(self) -> float:
        """Seconds per row."""
        return self.seconds / max(1, self.rows)


def begin_of(first: Read, again: Read) -> float:
    """Return the seconds of a process's first reading that do not depend on its rows, such as for imports and for
    opening files. again: a later reading of the process."""
    return max(0.0, first.seconds - again.per_row * first.rows)


def next_call(call: int, pace: float, seconds: float) -> int:
    """Return the updates of the next call into TensorFlow, after a call of `call` updates. The call should take
    `seconds`, as in training. pace: seconds of each update."""
    return max(1, min(_GROWTH * call, int(seconds / max(pace, 1e-9))))


def syncs(before: int, after: int, interval: int) -> int:
    """Return the number of multiples of `interval` above `before`, up to `after`."""
    return after // interval - before // interval


def sync_interval(every: int | None, steps: int) -> int:
    """Return the average number of steps between two syncs. Nodes agree every `every` steps, and at the end of a round
    of `steps`."""
    return max(1, round(steps / math.ceil(steps / min(every or steps, steps))))


def rotated(names: Sequence[str], by: int) -> list[str]:
    """Return `names`, starting with another name in each round. So no variant always follows the same pause. by: the
    round."""
    start = by % len(names)
    return [*names[start:], *names[:start]]


def is_enough(seconds: Mapping[str, Sequence[float]], spent: float, effort: Effort) -> bool:
    """Whether there have been enough rounds.

    seconds: seconds per row of each variant, by round; `full` is one of the variants. spent: seconds of these rounds so
    far.
    """
    done = len(seconds["full"])
    if done >= effort.most_rounds:
        return True
    if done < effort.rounds:
        return done >= _LEAST_ROUNDS and spent > 2 * effort.seconds
    if spent > effort.seconds:
        return True
    whole = sum(seconds["full"]) / done
    return all(_half(values) <= effort.narrow * whole for values in seconds.values())


def sweep_is_enough(seconds: Mapping[str, Sequence[float]], spent: float, effort: Effort) -> bool:
    """Whether there have been enough rounds of the sweep. seconds: per row for each number of readers, by round. spent:
    as in `is_enough`."""
    done = len(next(iter(seconds.values())))
    if done >= effort.most_sweep_rounds or (done >= 2 and spent > 2 * effort.sweep_seconds):
        return True
    if done < effort.sweep_rounds:
        return False
    return spent > effort.sweep_seconds or knee_is_decided(
        [Readers(int(key), [*by_round]) for key, by_round in seconds.items()]
    )


def _half(values: Sequence[float]) -> float:
    mean, low, _ = interval(values)
    return math.inf if low is None else mean - low
