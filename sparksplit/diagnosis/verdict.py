"""What limits a training step, from what its variants take. Pure functions.

A part's *gain* is how many times as fast the step would be if that part alone cost nothing: it is measured, by leaving
the part out. So it is right whether parts come one after the other or at the same time: what is read while the device
computes costs nothing, until it takes longer than that. And it saves no more than what the part takes of the step: a
step that computes nothing may also wait less for other nodes, and that time belongs to synchronising.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from sparksplit.comparison.intervals import interval
from sparksplit.comparison.numbers import percent
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
"""What a step is made of. Reading includes putting mini-batches together; the hand-off is once in a run."""

LEAST = 1.1
"""A part is called the limit where its gain is certainly above this, and above this times the next part's. The second
is for parts that cost alike, of which noise puts one first: of 1,000 made-up pipelines of such parts 3 got a name from
5 rounds that differ by 5 %, 16 where they differ by 10 %. Parts that cost 1.5 to 4 times as much as all others together
were named in 100 and 99.9 %, none of them wrongly."""

_BESIDE = 1.5


@dataclass(frozen=True)
class Gain:
    """How many times as fast: the mean over the rounds, and its 95 % interval, None with fewer than two rounds."""

    mean: float
    low: float | None
    high: float | None

    @property
    def is_certain(self) -> bool:
        """Whether it is certainly faster: all of the interval is above 1."""
        return self.low is not None and self.low > 1

    @property
    def is_loss(self) -> bool:
        """Whether it is certainly slower. Of a part that is left out, that says that the part costs nothing: what it
        takes is less than what another way costs to measure it."""
        return self.high is not None and self.high < 1


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of PARTS. gain: of the step (with the part of the hand-off that falls to it), without this part.
    rows_per_second: over all nodes, if there were nothing but this part; reached: the step's share of that. Both are
    None where the part costs too little to be told from nothing. low, high: the 95 % interval of rows_per_second, None
    with fewer than two rounds, or where it has no upper end.
    """

    name: str
    gain: Gain
    rows_per_second: float | None
    reached: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Share:
    """What one thing takes of the step. name: rows (waiting for them), copy, synchronise, forward and backward,
    optimizer, or hand-off (its part for one pass)."""

    name: str
    share: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """limit: one of PARTS; None where no single part is. sentence: what limits the step. parts: those that the run has,
    in the order of PARTS. shares: they add up to 1."""

    limit: str | None
    sentence: str
    rows_per_second: float
    parts: list[Part]
    shares: list[Share]


def verdict(measured: Measured, epochs: int) -> Verdict:
    """What limits the run. epochs: how many; the hand-off is dealt to them."""
    step = _Step(measured, epochs)
    parts, shares = step.parts(), step.shares()
    share_of = {share.name: share.share for share in shares}
    limit = limit_of(parts, share_of)
    return Verdict(
        limit=limit,
        sentence=_sentence(limit, parts, share_of, step),
        rows_per_second=1 / typical(step.whole),
        parts=parts,
        shares=shares,
    )


def limit_of(parts: Sequence[Part], share_of: Mapping[str, float]) -> str | None:
    """The part that certainly brings the most where it costs nothing; None where none certainly does, or where the
    shares speak for another part."""
    first, *others = sorted(parts, key=lambda part: -part.gain.mean)
    next_best = max((part.gain.mean for part in others), default=1.0)
    low = first.gain.low
    if low is None or low <= LEAST * max(1.0, next_best):
        return None
    return None if _larger(parts, share_of) else first.name


def _larger(parts: Sequence[Part], share_of: Mapping[str, float]) -> Part | None:
    """The part of training that takes more of the step than the one that brings the most, where that is training's too
    and the other one is not hidden: they follow one another, so it should bring more."""
    first, *others = sorted(parts, key=lambda part: -part.gain.mean)
    training = {name: share_of[name] for name in (COPY, SYNCHRONISE)}
    training[COMPUTE] = share_of["optimizer"] + share_of["forward and backward"]
    if first.name not in training:
        return None
    larger = [
        part
        for part in others
        if part.name in training and part.gain.mean > LEAST and training[part.name] > training[first.name]
    ]
    return max(larger, key=lambda part: training[part.name], default=None)


def steady(seconds: Seconds) -> Array:
    """The seconds of all rounds, of which those beside the median by more than half count as beside it by half: where
    the host stopped for a moment, say. In made-up pipelines in which one measurement of twenty took three times as
    long, 99.9 % of the limits were named from 5 rounds that differ by 5 %, instead of 88 %."""
    values = np.asarray(seconds, float)
    middle = float(np.median(values))
    clipped: Array = np.clip(values, middle / _BESIDE, middle * _BESIDE)
    return clipped


def typical(seconds: Seconds) -> float:
    """The geometric mean of the steady seconds; ratios of it are means of ratios."""
    return float(np.exp(np.mean(np.log(steady(seconds)))))


def gain(before: Seconds, after: Seconds) -> Gain:
    """How many times as fast, from seconds in pairs: the geometric mean of their ratios, and its interval."""
    mean, low, high = interval(np.log(steady(before) / steady(after)).tolist())
    return Gain(math.exp(mean), None if low is None else math.exp(low), None if high is None else math.exp(high))


def handoff_seconds(measured: Measured, epochs: int) -> list[float]:
    """Seconds per row of each pass that the hand-off costs, by stretches of the feed; empty without one."""
    return [seconds / epochs for seconds in measured.handoff or []]


def first_reading_seconds(measured: Measured, epochs: int) -> float:
    """Seconds per row of each pass that the first reading of rows costs which are kept then."""
    facts = measured.facts
    return 0.0 if facts.first_reading is None else facts.first_reading / (facts.rows * epochs)


class _Step:
    """The variants' seconds per row, by round. handoff, first: what falls to a row of each pass of Spark's hand-off,
    and of the first reading of rows that are kept; whole: the step with both."""

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
        found = [self._part(READING, self._at_most(rows, self._without_reading()) - self.first, alone)]
        if "no_transform" in of:
            transformed = self._at_most(rows, of["no_transform"])
            found.append(self._part(TRANSFORM, transformed, of["reading"], of["reading_only"]))
        found.append(self._part(COPY, self._without_copy(), of["repeated"], of["no_copy"]))
        if "no_sync" in of:
            agreed = self._at_most(of["no_copy"] - of["compute"], of["no_sync"])
            found.append(self._part(SYNCHRONISE, agreed, of["no_copy"], of["compute"]))
        found.append(self._part(COMPUTE, self._at_most(self._computing, self._without_compute()), of["compute"]))
        if self.stretches:
            found.append(self._handed_off())
        return found

    def shares(self) -> list[Share]:
        """What a step becomes faster by, where one thing after the other is left out. Noise may make it slower: then
        that thing takes nothing."""
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
        """without: the step's seconds without the part. alone: the part's own, with what `less` takes too."""
        own = gain(self.whole, without + self.handoff + self.first)
        seconds = typical(alone) - (0.0 if less is None else typical(less))
        low = None if less is None else gain(alone, less).low
        if seconds <= 0 or (low is not None and low <= 1):
            return Part(name=name, gain=own, rows_per_second=None, reached=None)
        if less is None:
            ends = gain(alone, np.ones(len(alone)))
            return self._alone(name, own, seconds, ends.low, ends.high)
        _, least, most = interval((steady(alone) - steady(less)).tolist())
        return self._alone(name, own, seconds, least, most)

    def _alone(self, name: str, own: Gain, seconds: float, least: float | None, most: float | None) -> Part:
        """seconds: of the part alone; least, most: their interval."""
        rate, reached = 1 / seconds, seconds / typical(self.whole)
        if least is None or most is None or least <= 0:
            return Part(name=name, gain=own, rows_per_second=rate, reached=reached)
        return Part(name=name, gain=own, rows_per_second=rate, reached=reached, low=1 / most, high=1 / least)

    def _at_most(self, taken: Array, without: Array) -> Array:
        """The step's seconds without a part, of which `taken` is what the part takes: longer where the step is
        certainly faster than what it takes explains."""
        left, low, _ = interval((self.of["full"] - taken).tolist())
        return without * max(1.0, (left if low is None else low) / typical(without))

    # A step without a part. What was not measured follows from how much of rows and training hide each other.

    def _without_reading(self) -> Array:
        of = self.of
        if "reading_only" not in of:
            return of["repeated"]  # which leaves out nothing else
        if "no_reading" in of:
            return of["no_reading"]
        return self._together(max(0.0, typical(of["reading"]) - typical(of["reading_only"])), of["repeated"])

    def _without_copy(self) -> Array:
        of = self.of
        saved: Array = self._together(of["reading"], of["no_copy"]) / self._together(of["reading"], of["repeated"])
        return of["full"] * saved

    def _without_compute(self) -> Array:
        """What is measured copies nothing either."""
        of = self.of
        copying = max(0.0, typical(of["repeated"]) - typical(of["no_copy"]))
        agreeing = max(0.0, typical(of["no_copy"]) - typical(of["compute"])) if "no_sync" in of else 0.0
        more: Array = self._together(of["reading"], copying + agreeing) - self._together(of["reading"], agreeing)
        return of.get("no_compute", of["reading"]) + more

    def _together(self, rows: Array | float, training: Array | float) -> Array:
        """Of a step whose rows and whose training take that long."""
        both: Array = np.maximum(rows, training) + self._apart * np.minimum(rows, training)
        return both

    def _handed_off(self) -> Part:
        """Stretches of the feed are no rounds: its interval is from the ends of both."""
        step = self.of["full"]
        seconds, low, high = interval(self.stretches)
        _, step_low, step_high = interval(step.tolist())
        ends: tuple[float | None, float | None] = None, None
        if low is not None and high is not None and step_low is not None and step_high is not None:
            ends = 1 + max(0.0, low) / step_high, 1 + high / max(step_low, typical(step) / 10)
        own = Gain(1 + seconds / typical(step), *ends)
        if not seconds:
            return Part(name=HAND_OFF, gain=own, rows_per_second=None, reached=None)
        return self._alone(HAND_OFF, own, seconds, low, high)


def _sentence(limit: str | None, parts: list[Part], shares: dict[str, float], step: _Step) -> str:
    if limit is None:
        return _undecided(parts, shares)
    by_name = {part.name: part for part in parts}
    whole = typical(step.whole)
    of = "of the step" if step.handoff + step.first < 0.01 * whole else "of the run"
    waiting = f"nodes wait {percent(shares['rows'])} {of} for rows"
    if step.first > shares["rows"] * whole / 2:
        waiting += ", more than half of that in the first pass, after which rows are kept"
    computing = percent(shares["forward and backward"] + shares["optimizer"])
    others = [part for part in parts if part.name != COMPUTE]
    only = "only " if all(part.gain.mean < LEAST for part in others) else ""
    texts = {
        READING: waiting,
        TRANSFORM: f"{waiting}; without the transform it would be {_times(by_name[limit])}",
        COPY: f"{percent(shares[COPY])} {of} is copying rows to the device",
        SYNCHRONISE: f"{percent(shares[SYNCHRONISE])} {of} is synchronising",
        COMPUTE: f"{computing} {of} is the model's own arithmetic; {only}more nodes or a faster device would help, or "
        "a larger mini-batch, which changes the weights",
        HAND_OFF: f"{percent(shares.get(HAND_OFF))} {of} is Spark handing over the rows",
    }
    return f"{limit}: {texts[limit]}"


def _undecided(parts: list[Part], shares: dict[str, float]) -> str:
    first, *others = sorted(parts, key=lambda part: -part.gain.mean)
    low, high = first.gain.low, first.gain.high
    if low is None or high is None:
        return "no single part can be named from fewer than two rounds"
    full = [part.name for part in parts if part.reached is not None and part.reached > 0.8]
    together = f"{' and '.join(full)} take about as long, at the same time" if len(full) > 1 else ""
    if low <= 1:
        return f"no single part: {together or 'of none it is certain that the step would be faster without it'}"
    if low > LEAST * max(1.0, *(part.gain.mean for part in others)):
        more = _larger(parts, shares)
        assert more is not None
        return (
            f"no single part: without {first.name} the step would be {_times(first)}, without {more.name}, which takes "
            f"more of it, {_times(more)}"
        )
    if low > LEAST:
        second = others[0]
        if not second.gain.is_certain:
            return (
                f"no single part: without {first.name} the step would be {_times(first)} ({low:.2f} to {high:.2f}), "
                f"but how much {second.name} costs is not certain"
            )
        return (
            f"no single part: {first.name} and {second.name} cost about as much (without the one the step would be "
            f"{_times(first)}, without the other {_times(second)})"
        )
    text = (
        f"no single part: {first.name} costs the most, and without it the step would be {_times(first)} "
        f"({low:.2f} to {high:.2f})"
    )
    return f"{text}; {together}" if together else text


def _times(part: Part) -> str:
    return f"{part.gain.mean:.2f} times as fast"
