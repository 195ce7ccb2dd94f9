"""The answer in results.json, as types. Sentences are made of it by `words`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sparksplit.base.records import JsonObject, Record
from sparksplit.comparison.content_table import Pair, TimePair

Decision = Literal["use", "stay", "undecided", "nothing to compare"]


@dataclass(frozen=True, kw_only=True)
class Option:
    """A row of the table, as something to choose."""

    name: str
    """The row's strategy, as reports call it."""
    nodes: int
    """The row's number of nodes."""
    settings: JsonObject
    """The keys of `train` that make the row, by dotted key. Keys that all rows share are left out."""
    seconds: float | None
    """The row's seconds: to the target or in all, as the answer's `goal` says."""
    metric: float | None
    """The row's mean of the metric that decides."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What the choice gains over `single`."""

    speed: TimePair | None
    """The speed-up; None where the two rows have no times of the same seed."""
    quality: Pair | None
    """The difference of the metric; None where the two rows have no runs of the same seed."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A difference that is not decided, and what would decide it if means and spread stay as they are."""

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The strategy's number of nodes."""
    against: str
    """The strategy on one node that it is compared with."""
    about: Literal["speed", "quality"]
    """Whether the speed or the metric is undecided."""
    seeds: int | None = None
    """How many seeds would decide it."""
    rows: int | None = None
    """How many rows of the split that decides would decide it, with as many seeds."""
    seconds: float | None = None
    """How long all runs take with `seeds` seeds, tuning aside."""
    obstacle: Literal["one seed", "no pair", "same with every seed", "too small"] | None = None
    """Why neither number can be told: there is one seed; too few seeds have a value for both; all seeds differ by the
    same; or the difference is too small beside its spread."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A condition of the answer that a reader must know."""

    kind: Literal[
        "untuned", "one seed", "diverged", "learns better", "other place", "edge", "no test rows", "slow network",
        "missing", "unmet",
    ]  # fmt: skip
    """untuned: no learning rate was tuned, and the strategies may want different ones. one seed: no interval is known.
    diverged: some runs of the row diverged. learns better: the row is decided to learn better than `single`, and its
    mean is better than the choice's. other place: the row was not timed where most runs were. edge: the row's best
    tried value is the lowest or the highest tried. no test rows: the validation rows decide. slow network: the row
    sends fewer bytes than `batch` and learns as well. missing: what a comparison lacks. unmet: the row missed the
    target."""
    name: str | None = None
    """The row's strategy."""
    nodes: int | None = None
    """The row's number of nodes."""
    number: float | None = None
    """diverged, unmet: the number of runs. slow network: how many times fewer bytes. learns better: the difference of
    the metric."""
    of: int | None = None
    """The number of all runs."""
    key: str | None = None
    """edge: the tuned key. missing: the key of `compare` that lacks an entry."""


@dataclass(frozen=True, kw_only=True)
class Next:
    """The next command: the same one with these keys."""

    settings: JsonObject
    """The keys, by dotted key."""
    seconds: float | None
    """How long its runs take, without those that are there already, by the runs so far; None where that is not
    known."""


@dataclass(frozen=True, kw_only=True)
class Answer(Record):
    """What a comparison says to do. Every statement refers to rows and differences of the table."""

    decision: Decision
    """use: the choice, on several nodes. stay: on one node. undecided: the choice is the fastest so far by the means.
    nothing to compare: the table lacks `single`, or several nodes."""
    goal: str
    """What seconds count: "to the target" or "in all"."""
    target: float | None
    """The metric's value on the validation rows that is to be reached; None where no run was validated."""
    metric: str
    """The name of the metric that decides."""
    split: str
    """The split whose rows the metric is computed on: test or validation."""
    seeds: int
    """The number of seeds that were run."""
    wrong_of_100: int = 5
    """A bound on how many of 100 such answers are wrong. It grows by 5 with each finished comparison of several seeds
    that this one went on from."""
    choice: Option | None
    """What to use; None where no row can be chosen."""
    gain: Gain | None
    """What the choice gains over `single`; None where it is `single`, or there is none."""
    runners_up: list[Option] = field(default_factory=list)
    """The next fastest rows that learn as well by the means, and `single` as the last.

    With the decision stay, the fastest row on several nodes comes first, however it learns.
    """
    open: list[Question] = field(default_factory=list)
    """What is not decided and could change the choice, the most promising first."""
    notes: list[Note] = field(default_factory=list)
    """What a reader must know, the most important first."""
    next: Next | None = None
    """The command that would make the answer surer; None where none is known."""


NO_ANSWER = Answer(
    decision="nothing to compare", goal="in all", target=None, metric="", split="", seeds=0, choice=None, gain=None
)
"""Stands in results until their answer is made of them."""
