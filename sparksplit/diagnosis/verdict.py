"""Find what limits a training step, from the times of its variants. Pure functions.

A part's *gain* is how many times as fast the step would be if this part alone cost nothing. The gain is measured by
leaving the part out. So it is right whether parts run one after the other or at the same time. For example, reading
while the device computes costs nothing, until it takes longer than computing.

The step saves no more than the part takes. A step that computes nothing may also wait less for other nodes, but this
time belongs to synchronising.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from sparksplit.comparison.intervals import interval
from sparksplit.diagnosis.answer import Cost, Gain, Limit
from sparksplit.diagnosis.measured import Measured

Array = npt.NDArray[np.float64]
Seconds = Sequence[float] | Array

READING, TRANSFORM, COPY, SYNCHRONISE, COMPUTE, HAND_OFF = PARTS = (
    "reading",
    "transform",
    "copy",
    "synchronise",
    "compute",
    "hand-off",
)
"""The parts of a step. Reading includes putting mini-batches together. The hand-off happens once in a run."""

LEAST = 1.1
"""A part is the limit if its gain is certainly above this, and certainly above this times the gain of the next part.
The second condition is for parts of equal cost, where noise puts one part first. Of 1,000 simulated pipelines with
equal parts, 3 got a limit from 5 rounds that differ by 5 %. With rounds that differ by 10 %, 16 got a limit. Parts that
cost 1.5 to 4 times as much as all others together were named in 100 % and 99.9 % of the pipelines. None of them was
named wrongly."""

_BESIDE = 1.5
_FULL = 0.8
"""A part is about as slow as the step if the step reaches more than this share of the part's throughput."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of PARTS. gain: the speed-up of the step without this part. The step includes its share of the hand-off and
    of the first reading.

    rows_per_second: the throughput over all nodes with this part alone. reached: the step's share of `rows_per_second`.
    Both are None if the part costs too little to be measured. low, high: the 95 % confidence interval of
    `rows_per_second`. They are None with fewer than two rounds, or if the interval has no upper end.
    """

    name: str
    gain: Gain
    rows_per_second: float | None
    reached: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Share:
    """A share of the step's time.

    name: rows (waiting for rows), copy, synchronise, forward and backward, optimizer, or hand-off (its part for one
    pass).
    """

    name: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What limits the step, and the throughput over all nodes.

    parts: the parts that the run has, in the order of PARTS. shares: the shares of the step, which add up to 1.
    """

    limit: Limit
    rows_per_second: float
    parts: list[Part]
    shares: list[Share]


def verdict(measured: Measured, epochs: int) -> Verdict:
    """Return the verdict on a run. epochs: the number of epochs, which share the hand-off and the first reading."""
    step = _Step(measured, epochs)
    parts, shares = step.parts(), step.shares()
    return Verdict(limit=_limit(parts, shares), rows_per_second=1 / typical(step.whole), parts=parts, shares=shares)


def _limit(parts: Sequence[Part], shares: Sequence[Share]) -> Limit:
    """Return the part whose gain is certainly the largest.

    It has no name if there is none, or if the shares point to another part. Parts of training run one after the other,
    so a part of training that takes more should also have more gain.
    """
    first, *others = sorted(parts, key=lambda part: -part.gain.mean)
    taken = taken_by(shares)

    def costs(*named: Part) -> list[Cost]:
        return [Cost(name=part.name, share=taken[part.name], gain=part.gain) for part in named]

    low = first.gain.low
    if low is None:
        return Limit(name=None, costs=costs(first), unclear="one round")
    training = [part for part in others if {part.name, first.name} <= {COPY, SYNCHRONISE, COMPUTE}]
    larger = [part for part in training if part.gain.mean > LEAST and taken[part.name] > taken[first.name]]
    if low > LEAST * max(1.0, *(part.gain.mean for part in others)):
        if not larger:
            alone = first.name == COMPUTE and all(part.gain.mean < LEAST for part in others)
            return Limit(name=first.name, costs=costs(first), alone=alone)
        return Limit(name=None, costs=costs(first, max(larger, key=lambda part: taken[part.name])), unclear="alike")
    if low > LEAST:
        return Limit(name=None, costs=costs(first, others[0]), unclear="alike")
    full = [part for part in parts if part.reached is not None and part.reached > _FULL]
    if len(full) > 1:
        return Limit(name=None, costs=costs(*full), unclear="together")
    return Limit(name=None, costs=costs(first), unclear="small" if low > 1 else "uncertain")


def taken_by(shares: Sequence[Share]) -> dict[str, float]:
    """Return the share of the step that each part takes. The transform and reading share the wait for rows."""
    of = {share.name: share.share for share in shares}
    computing = of["optimizer"] + of["forward and backward"]
    return {**of, READING: of["rows"], TRANSFORM: of["rows"], COMPUTE: computing}


def steady(seconds: Seconds) -> Array:
    """Return the seconds of all rounds, limited to a factor of 1.5 around the median. This weakens outliers, for
    example when the host stopped for a moment.

    In the simulated pipelines, one measurement in twenty took three times as long. From 5 rounds that differ by 5 %,
    99.9 % of the limits were named, instead of 88 % without this function.
    """
    values = np.asarray(seconds, float)
    middle = float(np.median(values))
    clipped: Array = np.clip(values, middle / _BESIDE, middle * _BESIDE)
    return clipped


def typical(seconds: Seconds) -> float:
    """Return the geometric mean of the steady seconds. Ratios of geometric means are means of ratios."""
    return float(np.exp(np.mean(np.log(steady(seconds)))))


def gain(before: Seconds, after: Seconds) -> Gain:
    """Return how many times as fast, from paired seconds: the geometric mean of their ratios, and its interval."""
    mean, low, high = interval(np.log(steady(before) / steady(after)).tolist())
    return Gain(math.exp(mean), None if low is None else math.exp(low), None if high is None else math.exp(high))


def handoff_seconds(measured: Measured, epochs: int) -> list[float]:
    """Return the hand-off's seconds per row of each pass, by stretches of the feed; empty without a hand-off."""
    return [seconds / epochs for seconds in measured.handoff or []]


def first_reading_seconds(measured: Measured, epochs: int) -> float:
    """Return the seconds per row of each pass for the first reading of rows that are kept; 0 if rows are not kept."""
    facts = measured.facts
    return 0.0 if facts.first_reading is None else facts.first_reading / (facts.rows * epochs)


class _Step:
    """The variants' seconds per row, by round. whole: the step with `handoff` and `first`.

    handoff: Spark's hand-off, per row of each pass. first: the first reading of rows that are kept, per row of each
    pass.
    """

    def __init__(self, measured: Measured, epochs: int) -> None:
        self.of = {name: steady(values) for name, values in measured.seconds.items()}
        self.stretches = handoff_seconds(measured, epochs)
        self.handoff = fmean(self.stretches) if self.stretches else 0.0
        self.first = first_reading_seconds(measured, epochs)
        self.whole = self.of["full"] + self.handoff + self.first
        reading, repeated = typical(self.of["reading"]), typical(self.of["repeated"])
        hidden = (reading + repeated - typical(self.of["full"])) / min(reading, repeated)
        self._apart = 1 - min(1.0, max(0.0, hidden))
        self._computing = self.of["compute"] if "no_sync" in self.of else self.of["no_copy"]

    def parts(self) -> list[Part]:
        of = self.of
        alone = of["reading_only"] if "reading_only" in of else of["reading"]
        rows = of["full"] - of["repeated"]
        parts = [self._part(READING, self._at_most(rows, self._without_reading()) - self.first, alone)]
        if "no_transform" in of:
            transformed = self._at_most(rows, of["no_transform"])
            parts.append(self._part(TRANSFORM, transformed, of["reading"], of["reading_only"]))
        parts.append(self._part(COPY, self._without_copy(), of["repeated"], of["no_copy"]))
        if "no_sync" in of:
            agreed = self._at_most(of["no_copy"] - of["compute"], of["no_sync"])
            parts.append(self._part(SYNCHRONISE, agreed, of["no_copy"], of["compute"]))
        parts.append(self._part(COMPUTE, self._at_most(self._computing, self._without_compute()), of["compute"]))
        if self.stretches:
            parts.append(self._handed_off())
        return parts

    def shares(self) -> list[Share]:
        """Return the time that the step saves as one thing after the other is left out, as shares.

        Noise may make the step slower. Then this thing takes nothing.
        """
        of = self.of
        steps = [of["full"], of["repeated"], of["no_copy"], self._computing, of["forward_backward"]]
        left = np.minimum.accumulate([typical(seconds) for seconds in steps])
        taken = np.append(left[:-1] - left[1:], left[-1])
        taken[0] += self.first
        names = ["rows", COPY, SYNCHRONISE, "optimizer", "forward and backward"]
        if self.stretches:
            names, taken = [*names, HAND_OFF], np.append(taken, self.handoff)
        return [Share(name, float(share)) for name, share in zip(names, taken / taken.sum(), strict=True)]

    def _part(self, name: str, without: Array, alone: Array, less: Array | None = None) -> Part:
        """Return a part. without: the step's seconds without the part.

        alone: the seconds of the part alone, or of the part and `less` together. less: the seconds to subtract from
        `alone`.
        """
        gained = gain(self.whole, without + self.handoff + self.first)
        seconds = typical(alone) - (0.0 if less is None else typical(less))
        low = None if less is None else gain(alone, less).low
        if seconds <= 0 or (low is not None and low <= 1):
            return Part(name=name, gain=gained, rows_per_second=None, reached=None)
        if less is None:
            ends = gain(alone, np.ones(len(alone)))
            return self._alone(name, gained, seconds, ends.low, ends.high)
        _, least, most = interval((steady(alone) - steady(less)).tolist())
        return self._alone(name, gained, seconds, least, most)

    def _alone(self, name: str, gained: Gain, seconds: float, least: float | None, most: float | None) -> Part:
        """Return a part with its rows/s. seconds: of the part alone. least, most: the interval of `seconds`."""
        rate, reached = 1 / seconds, seconds / typical(self.whole)
        if least is None or most is None or least <= 0:
            return Part(name=name, gain=gained, rows_per_second=rate, reached=reached)
        return Part(name=name, gain=gained, rows_per_second=rate, reached=reached, low=1 / most, high=1 / least)

    def _at_most(self, taken: Array, without: Array) -> Array:
        """Return the step's seconds without a part. taken: the seconds that the part takes. without: the measured
        seconds.

        The measured seconds are raised if the step is certainly faster than `taken` explains.
        """
        left, low, _ = interval((self.of["full"] - taken).tolist())
        return without * max(1.0, (left if low is None else low) / typical(without))

    # The step without a part. Times that were not measured follow from how much rows and training hide each other.

    def _without_reading(self) -> Array:
        of = self.of
        if "reading_only" not in of:
            return of["repeated"]  # without a transform, `repeated` leaves out nothing else
        if "no_reading" in of:
            return of["no_reading"]
        return self._together(max(0.0, typical(of["reading"]) - typical(of["reading_only"])), of["repeated"])

    def _without_copy(self) -> Array:
        of = self.of
        saved: Array = self._together(of["reading"], of["no_copy"]) / self._together(of["reading"], of["repeated"])
        return of["full"] * saved

    def _without_compute(self) -> Array:
        """The variant `no_compute` copies nothing either, so the seconds of copying are added."""
        of = self.of
        copying = max(0.0, typical(of["repeated"]) - typical(of["no_copy"]))
        agreeing = max(0.0, typical(of["no_copy"]) - typical(of["compute"])) if "no_sync" in of else 0.0
        more: Array = self._together(of["reading"], copying + agreeing) - self._together(of["reading"], agreeing)
        return of.get("no_compute", of["reading"]) + more

    def _together(self, rows: Array | float, training: Array | float) -> Array:
        """Return the seconds of a step from the seconds of its rows and of its training."""
        both: Array = np.maximum(rows, training) + self._apart * np.minimum(rows, training)
        return both

    def _handed_off(self) -> Part:
        """Return the hand-off. Stretches of the feed are no rounds, so both intervals' ends give its interval."""
        step = self.of["full"]
        seconds, low, high = interval(self.stretches)
        _, step_low, step_high = interval(step.tolist())
        ends: tuple[float | None, float | None] = None, None
        if low is not None and high is not None and step_low is not None and step_high is not None:
            ends = 1 + max(0.0, low) / step_high, 1 + high / max(step_low, typical(step) / 10)
        gained = Gain(1 + seconds / typical(step), *ends)
        if not seconds:
            return Part(name=HAND_OFF, gain=gained, rows_per_second=None, reached=None)
        return self._alone(HAND_OFF, gained, seconds, low, high)
