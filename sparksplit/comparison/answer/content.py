"""The types of the answer in results.json. `words` writes the sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sparksplit.base.records import JsonObject, Record
from sparksplit.comparison.content_table import Pair, TimePair

Decision = Literal["use", "stay", "undecided", "nothing to compare"]
Kind = Literal[
    "missing", "one seed", "seeds alone", "diverged", "learns better", "untuned", "edge", "no test rows", "other place",
    "unmet", "slow network",
]  # fmt: skip
"""The kinds of notes, the most important first."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A row of the table that can be chosen."""

    name: str
    """The row's strategy, as reports call it."""
    nodes: int
    """The row's number of nodes."""
    settings: JsonObject
    """The keys of `train` that make the row, by dotted key. Keys with the value of the comparison's configuration are
    left out."""
    seconds: float | None
    """The row's seconds: to the target or in all, as the answer's `goal` says."""
    metric: float | None
    """The row's mean of the metric that decides."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The gain of the choice over `single`."""

    speed: TimePair | None
    """The speed-up; None where the two rows have no times of the same seed."""
    quality: Pair | None
    """The difference of the metric; None where the two rows have no runs of the same seed."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """An undecided difference. The estimates assume that means and standard deviations stay as they are."""

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The strategy's number of nodes."""
    against: str
    """The strategy on one node that `name` is compared with."""
    about: Literal["speed", "quality"]
    """Whether the speed or the metric is undecided."""
    seeds: int | None = None
    """The number of seeds that would decide the difference."""
    rows: int | None = None
    """The number of rows (of the answer's `split`) that would decide the difference with as many seeds."""
    seconds: float | None = None
    """Seconds of all runs with `seeds` seeds, without the hyperparameter search."""
    obstacle: Literal["one seed", "no pair", "same with every seed", "too small", "incomplete"] | None = None
    """The reason why `seeds` and `rows` cannot be estimated. one seed: only one seed was run; `seeds` is then a number
    to begin with. no pair: too few seeds have a value for both strategies. same with every seed: all seeds differ by an
    equal amount. too small: the difference is too small for its standard deviation. incomplete: a run of the strategy
    diverged, missed the target or was not timed where most runs were, so the strategy cannot win; a note says which."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A condition of the answer that a reader must know."""

    kind: Kind
    """untuned: no learning rate was tuned, and each strategy may need its own. one seed: no interval is known.
    diverged: some runs of the row diverged. learns better: the row is decided to learn better than `single`, and its
    mean is better than the choice's mean. other place: the row was not timed where most runs were timed. edge: the
    row's best tried value is the lowest or the highest tried value. no test rows: the validation rows decide. slow
    network: the row sends fewer bytes than `batch` and learns as well. missing: the comparison lacks an entry in `key`.
    unmet: some runs of the row missed the target. seeds alone: the rows depend on each other, so intervals count the
    seeds, and not the choice of rows."""
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
    """edge: the tuned key. missing: the key of `compare` that lacks an entry. seeds alone: why the rows depend on each
    other, as `dependent` of the data says."""


@dataclass(frozen=True, kw_only=True)
class Next:
    """The next command: the command of this comparison with other keys."""

    settings: JsonObject
    """The keys, by dotted key."""
    seconds: float | None
    """Estimated seconds of all runs that the next command makes, one after the other; None if unknown."""
    first_seeds: int | None = None
    """The fewest seeds after which the command can stop. None if it has only one number of seeds."""
    first_seconds: float | None = None
    """Like `seconds`, if the command stops after `first_seeds` seeds."""


@dataclass(frozen=True, kw_only=True)
class Answer(Record):
    """The answer of a comparison. Every statement refers to rows and differences of the table."""

    decision: Decision
    """use: the choice, on several nodes. stay: on one node. undecided: the choice is the fastest so far by the means.
    nothing to compare: the table lacks `single`, or has no other row on real nodes."""
    goal: str
    """The seconds that count: "to the target" or "in all"."""
    target: float | None
    """The value of the metric to reach on the validation rows; None if no run was validated."""
    metric: str
    """The name of the metric that decides."""
    split: str
    """The split whose rows the metric is computed on: test or validation."""
    seeds: int
    """The number of seeds that were run."""
    wrong_of_100: int = 5
    """An upper bound on how many of 100 answers claim a difference that is not there, and on how many call values the
    same that differ by more than the margin: 5, plus 5 for each earlier comparison of several seeds that this
    comparison continues."""
    margin: float = 0.0
    """Differences of the metric within the margin count as none, in the metric's unit."""
    choice: Option | None
    """The recommended row; None if no row can be chosen."""
    gain: Gain | None
    """The gain of the choice over `single`; None if there is no choice, or if the choice is `single`."""
    until: Option | None = None
    """With the decision undecided: the row to use for now. It is a row on one node that is decided to be better, or
    `single`. None if a run of `single` diverged."""
    runners_up: list[Option] = field(default_factory=list)
    """The next fastest rows that learn as well by the means, and `single` as the last.

    With the decision stay, the fastest row on several nodes comes first, however it learns.
    """
    open: list[Question] = field(default_factory=list)
    """The undecided differences that could change the choice, the most promising first."""
    notes: list[Note] = field(default_factory=list)
    """The conditions that a reader must know, the most important first."""
    next: Next | None = None
    """The command that would make the answer surer; None if no command is known."""


NO_ANSWER = Answer(
    decision="nothing to compare", goal="in all", target=None, metric="", split="", seeds=0, choice=None, gain=None
)
"""The placeholder in results until their answer is made."""
