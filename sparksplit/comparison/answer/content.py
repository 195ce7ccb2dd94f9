"""The types of the answer in results.json. `words` writes the sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sparksplit.base.records import JsonObject, Record
from sparksplit.comparison.content_table import Pair, Row, TimePair

Decision = Literal["use", "stay", "undecided", "nothing to compare"]
About = Literal["speed", "quality", "faults"]


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The gain of the choice over `single`, from the seeds that both have."""

    speed: TimePair
    """The speed-up."""
    quality: Pair
    """The difference of the metric."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """An undecided difference. The estimates assume that means and standard deviations stay as they are.

    Without `seeds`, `rows` and `more_than`, it is unknown what would decide the difference.
    """

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The strategy's number of nodes."""
    against: str
    """The strategy on one node that `name` is compared with."""
    about: About
    """What is undecided: the speed, the metric, or (faults) all, because a run of the row cannot be compared."""
    seeds: int | None = None
    """The number of seeds that would decide the difference."""
    rows: int | None = None
    """The number of rows of the split that decides that would decide the difference with as many seeds."""
    seconds: float | None = None
    """Seconds of all runs with `seeds` seeds, without the hyperparameter search."""
    more_than: int | None = None
    """A number of seeds that is too few to decide the difference. A larger number is not looked for."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A condition of the answer that a reader must know."""

    kind: Literal[
        "no single", "no other", "one seed", "seeds alone", "diverged", "unmet", "other place", "learns better",
        "untuned", "edge", "no test rows", "slow network",
    ]  # fmt: skip
    """no single: the comparison lacks `single` on one node. no other: it has nothing else on real nodes. one seed: no
    interval is known. seeds alone: the rows depend on each other, so intervals count the seeds, and not the choice of
    rows. diverged: some runs of the row diverged. unmet: some runs of the row missed the target. other place: the row
    was not timed where most runs were timed. learns better: the row is decided to learn better than `single`, and
    better than the choice by the means. untuned: no learning rate was tuned, and each strategy may need its own. edge:
    the row's best tried value is the lowest or the highest tried value. no test rows: the validation rows decide. slow
    network: the row sends fewer bytes than `batch` and learns as well."""
    name: str | None = None
    """The row's strategy."""
    nodes: int | None = None
    """The row's number of nodes."""
    number: float | None = None
    """diverged, unmet: the number of runs. learns better: the difference of the metric. untuned: estimated seconds of
    this comparison with a search of 8 learning rates. slow network: how many times fewer bytes."""
    of: int | None = None
    """diverged, unmet: the number of all runs."""
    key: str | None = None
    """edge: the tuned key. seeds alone: why the rows depend on each other, as `dependent` of the data says."""


@dataclass(frozen=True, kw_only=True)
class Next:
    """The command that would make the answer surer: the command of this comparison with other keys."""

    settings: JsonObject
    """The keys, by dotted key."""
    seeds: list[int]
    """The numbers of seeds after which the command can stop, the last one at the latest."""
    seconds: list[float]
    """For each of `seeds`: estimated seconds of the further runs, one after the other."""


@dataclass(frozen=True, kw_only=True)
class Answer(Record):
    """The answer of a comparison. All rows and differences are those of the table, on real nodes."""

    decision: Decision
    """use: the choice, on several nodes. stay: on one node. undecided: the choice is the fastest so far by the means.
    nothing to compare: the table lacks `single`, or has no other row."""
    choice: Row | None = None
    """The recommended row; None if no row can be chosen."""
    gain: Gain | None = None
    """The gain of the choice over `single`; None if there is no choice, or if the choice is `single`."""
    until: Row | None = None
    """With the decision undecided: the row to use for now. It is a row on one node that is decided to be better, or
    `single`. None if a run of `single` diverged."""
    runners_up: list[Row] = field(default_factory=list)
    """At most one other row, and then `single`, unless it is the choice.

    use: the quickest row on one node that may be recommended too and is quicker than the choice. stay: the fastest row
    on several nodes, however it learns. Otherwise: the next fastest row that learns as well by the means.
    """
    open: list[Question] = field(default_factory=list)
    """The undecided differences that could change the choice, the most promising first."""
    notes: list[Note] = field(default_factory=list)
    """The conditions that a reader must know, the most important first."""
    next: Next | None = None
    """The command that would make the answer surer; None if more seeds would not."""


NO_ANSWER = Answer(decision="nothing to compare")
"""The placeholder in results until their answer is made."""
