"""search.json: the trials of a search, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from hdfs_io import filesystem
from sparksplit.base.records import JsonObject, Record

SEARCH, BEST, TRIALS = "search.json", "best.yaml", "trials"

State = Literal["running", "complete", "pruned", "failed"]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial, and what has come of it."""

    number: int
    """The trial's number, counted from 1."""
    keys: JsonObject
    """The values of the searched keys."""
    state: State
    """running: not finished; the next call of the search goes on with it. complete: trained to its end. pruned: ended
    early, because it was worse than the median trial. failed: the loss was no longer finite, a node ran out of memory,
    or a node refused the values."""
    value: float | None = None
    """The metric of the validation rows, with the weights that the run kept; None if there is none."""
    epochs: Mapping[str, float | None] = field(default_factory=dict)
    """The metric of the validation rows by the epoch after which it was measured."""
    seconds: float | None = None
    """Seconds of the trial's run; None if it has not finished."""
    error: str | None = None
    """Why the trial failed; None if it did not fail."""
    bars: Mapping[str, float] = field(default_factory=dict)
    """By epoch, the value that the trial had to reach to go on."""

    @property
    def by_epoch(self) -> dict[int, float | None]:
        """`epochs` with whole numbers as keys."""
        return {int(epoch): value for epoch, value in self.epochs.items()}


@dataclass(frozen=True, kw_only=True)
class SearchRecord(Record):
    """The content of search.json."""

    WHAT: ClassVar[str] = "the record of a search"

    metric: str
    """The metric of the validation rows that decides."""
    higher: bool
    """Whether higher values of the metric are better."""
    wanted: int
    """Number of trials of the whole search."""
    trials: Sequence[Trial] = ()
    """The trials so far, by number."""

    @property
    def best(self) -> Trial | None:
        """The best complete trial, the first of equal ones; None if no trial has a value."""
        return next((trial for trial in self.ranked if trial.state == "complete" and trial.value is not None), None)

    @property
    def ranked(self) -> list[Trial]:
        """The trials, the best first. Trials that have not run to their end come last."""
        sign = -1 if self.higher else 1
        has_ended = {"complete": 0, "pruned": 1}
        return sorted(
            self.trials,
            key=lambda trial: (
                has_ended.get(trial.state, 2), trial.value is None, sign * (trial.value or 0.0), trial.number
            ),
        )  # fmt: skip

    @property
    def finished(self) -> list[Trial]:
        """The trials that have ended."""
        return [trial for trial in self.trials if trial.state != "running"]

    def having(self, trial: Trial) -> Self:
        """Return the record with a new trial, or with a trial in its new state."""
        others = [other for other in self.trials if other.number != trial.number]
        return replace(self, trials=sorted([*others, trial], key=lambda one: one.number))

    def to_json(self) -> JsonObject:
        """Return the JSON object, with the number of the best trial."""
        best = self.best
        return {**super().to_json(), "best": None if best is None else best.number}

    @classmethod
    def read(cls, folder: str) -> Self:
        """Return the record in a search's folder. Raise InputError if search.json is missing or damaged."""
        path = filesystem.join(folder, SEARCH)
        return cls.parse(filesystem.read_bytes(path), path)


def folder_of(folder: str, number: int) -> str:
    """Return the folder of a trial's run, within a search's folder."""
    return filesystem.join(folder, TRIALS, f"{number:04d}")
