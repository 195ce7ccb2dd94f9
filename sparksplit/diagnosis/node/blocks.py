"""How long blocks are and how many rounds of them there are: pure functions of what all nodes have measured alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparksplit.comparison.intervals import interval
from sparksplit.diagnosis.advice import knee_is_decided
from sparksplit.diagnosis.measured import Readers
from sparksplit.diagnosis.messages import Effort

CALL_SECONDS = 0.25
"""How long one call into TensorFlow takes in training; in a block there are several."""
CALLS = 3
"""In a block, at least."""
_LEAST_ROUNDS = 3
_GROWTH = 4


@dataclass(frozen=True)
class Extent:
    """What a block goes through: so many whole rounds; or, where `rounds` is 0, so many `updates` of one, from when
    their first rows are there to when the next ones are."""

    rounds: int
    updates: int = 0

    def steps(self, steps: int) -> int:
        """A node's steps in the block, of `steps` in a round."""
        return self.rounds * steps or self.updates


def extent_of(steps: int, pace: float, seconds: float, together: int = 1) -> Extent:
    """What takes about so many seconds. steps: of a round. pace: seconds for each. together: see `whole_calls`."""
    return whole_calls(steps, math.ceil(seconds / max(pace, 1e-9)), together)


def whole_calls(steps: int, updates: int, together: int) -> Extent:
    """At least so many updates, which are a multiple of `together`: those that readers have ready about the same time,
    after which the next ones are as far as these were at the beginning. Of short rounds, whole ones."""
    wanted = -(-max(1, updates) // together) * together
    if 2 * wanted > steps:
        return Extent(max(1, round(updates / steps)))
    return Extent(0, wanted)


def next_call(call: int, pace: float, seconds: float) -> int:
    """Updates of the next calls into TensorFlow, after one of `call` updates: what comes to `seconds`, as training
    finds it. pace: seconds of each update."""
    return max(1, min(_GROWTH * call, int(seconds / max(pace, 1e-9))))


def syncs(before: int, after: int, interval: int) -> int:
    """How many multiples of `interval` there are above `before`, up to `after`."""
    return after // interval - before // interval


def sync_interval(every: int | None, steps: int) -> int:
    """Steps between two syncs of a strategy whose nodes agree every `every` steps and at the end of a round of `steps`,
    on average."""
    return max(1, round(steps / math.ceil(steps / min(every or steps, steps))))


def rotated(names: Sequence[str], by: int) -> list[str]:
    """`names`, beginning with another name in each round, so that no variant always follows the same pause. by: the
    round."""
    start = by % len(names)
    return [*names[start:], *names[:start]]


def is_enough(seconds: Mapping[str, Sequence[float]], spent: float, effort: Effort) -> bool:
    """Whether there have been enough rounds. seconds: per row of each variant, by round; `full` is one. spent: seconds
    on these rounds so far."""
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
    """Whether there have been enough rounds of the readers. seconds: by their number, per row, by round."""
    done = len(next(iter(seconds.values())))
    if done >= effort.most_sweep_rounds or (done >= 2 and spent > 2 * effort.sweep_seconds):
        return True
    if done < effort.sweep_rounds:
        return False
    return spent > effort.sweep_seconds or knee_is_decided([Readers(int(key), [*own]) for key, own in seconds.items()])


def _half(values: Sequence[float]) -> float:
    mean, low, _ = interval(values)
    return math.inf if low is None else mean - low
