"""The types of the answer in diagnosis.json: what limits the work, what to set, and what that brings. `words` writes
the sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sparksplit.base.records import Json

Decision = Literal["set", "compare", "nothing"]
Unclear = Literal["one round", "uncertain", "together", "alike", "small"]


@dataclass(frozen=True)
class Gain:
    """How many times as fast: the mean over the rounds, and its 95 % confidence interval. low and high are None with
    fewer than two rounds."""

    mean: float
    low: float | None
    high: float | None

    @property
    def is_certain(self) -> bool:
        """Whether the step is certainly faster: the whole interval is above 1."""
        return self.low is not None and self.low > 1

    @property
    def is_loss(self) -> bool:
        """Whether the step is certainly slower.

        A loss without a part means that the part costs nothing: measuring without the part costs more than the part.
        """
        return self.high is not None and self.high < 1


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one part of the work costs."""

    name: str
    """A part of the step, or in a preparation a kind of trouble."""
    share: float | None
    """The share of the time; None if unknown."""
    gain: Gain | None = None
    """How many times as fast the run would be without it; None if unknown."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What limits the work."""

    name: str | None
    """The part or the trouble that limits the work; None if there is no single one."""
    costs: list[Cost]
    """The cost of `name`. Without a name: the costs of the parts that come closest, the largest gain first."""
    unclear: Unclear | None = None
    """Why there is no name. one round: two rounds are needed. uncertain: of no part it is certain that it costs
    anything. together: the parts take about as long at the same time. alike: the gains of the parts are alike, or one
    of them is not certain. small: the part gains too little."""
    alone: bool = False
    """Whether nothing else would gain a tenth: only more or faster devices help."""
    places: list[str] = field(default_factory=list)
    """The parts of a preparation that have the trouble."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Settings that may help."""

    settings: dict[str, Json]
    """The settings: values by dotted key."""
    why: str
    """The reason in a few words."""
    gain: Gain | None
    """How many times as fast the run is with them; None if unknown."""
    helps: bool
    """Whether the whole interval of `gain` is above 1. In a preparation, a gain without an interval helps from 1.1 on.
    A computed gain helps above 1."""
    failed: str | None = None
    """Why the settings could not be tried."""
    computed: bool = False
    """Whether `gain` was not measured with the settings, but computed from the time of one checkpoint. It then has no
    interval."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a diagnosis. Every statement refers to the record's details."""

    decision: Decision
    """set: settings that keep the result are shown to help. compare: only settings that change what a model learns are
    shown to help. nothing: no settings are shown to help."""
    limit: Limit
    """What limits the work."""
    keeping: list[Advice]
    """The settings that keep the result and may help, the largest gain first. Those that help are the ones to set."""
    changing: list[Advice]
    """The settings that change what a model learns and may help, the largest gain first."""
    rounds: int
    """The number of rounds of the measurement that the gains come from. In a preparation, 0 if nothing was tried."""
    next: str | None = None
    """The shell command that decides between the settings in `changing`; None if there is nothing to decide."""
    notes: list[str] = field(default_factory=list)
    """Further advice that was not tried, and settings that could not be tried."""


def answer(
    limit: Limit,
    keeping: list[Advice],
    rounds: int,
    notes: list[str],
    changing: Sequence[Advice] = (),
    next: str | None = None,
) -> Answer:
    """Return the answer from its parts, in any order."""
    kept, changed = (sorted(some, key=lambda one: -one.gain.mean if one.gain else 0.0) for some in (keeping, changing))
    helps = [any(advice.helps for advice in some) for some in (kept, changed)]
    decision: Decision = "set" if helps[0] else "compare" if helps[1] else "nothing"
    return Answer(decision=decision, limit=limit, keeping=kept, changing=changed, rounds=rounds, next=next, notes=notes)
