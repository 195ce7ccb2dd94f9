"""What results.json holds about tuning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Values by dotted key, and what came of them on the validation rows at the end, as means over the seeds. metric,
    loss: None where a run diverged, or one of them was not a finite number."""

    values: dict[str, float]
    metric: float | None
    loss: float | None


@dataclass(frozen=True, kw_only=True)
class TunedStrategy:
    """What was tried for a strategy on so many nodes. ranges: from the lowest to the highest value, by key. chosen: the
    place of the best among `tries`; None where all diverged, so that the strategy has the values that were given.
    edges: the keys of which it has the lowest or the highest value that was tried. also: which others have these
    values, because they are the same on any number of nodes."""

    name: str
    nodes: int
    virtual: bool
    ranges: dict[str, list[float]]
    tries: list[Tried]
    chosen: int | None
    edges: list[str]
    also: list[str]


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What was tried, and what it cost. metric: on the validation rows. runs: all; diverged: those of them of which
    neither passes nor time are known. passes: over all other runs. node_seconds: of these the seconds from a run's
    start to its end, times its processes."""

    metric: str
    tries: int
    seeds: list[int]
    strategies: list[TunedStrategy]
    runs: int
    diverged: int
    passes: int
    node_seconds: float
