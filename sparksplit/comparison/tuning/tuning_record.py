"""The types of the hyperparameter search in results.json."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Tried values by dotted key, with their metric and loss on the validation rows at the end of the runs.

    metric, loss: means over the seeds; None if a run diverged, or if a value is not finite.
    """

    values: dict[str, float]
    metric: float | None
    loss: float | None


@dataclass(frozen=True, kw_only=True)
class TunedStrategy:
    """The tries of a strategy on a number of nodes.

    ranges: the lowest and the highest value, by key. chosen: the index of the best of `tries`. If all tries diverged,
    `chosen` is None, and the strategy keeps its configured values. edges: the keys whose best value is the lowest or
    the highest tried value. also: further strategies with these values, because their result is equal on any number of
    nodes.
    """

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
    """The hyperparameter search and its cost.

    metric: the metric that decides, on the validation rows. tries: the number of tries for each strategy. runs: the
    number of all runs. diverged: the number of diverged runs, whose passes and times are unknown. passes: the passes of
    all other runs. node_seconds: the seconds of all other runs from start to end, times their processes.
    """

    metric: str
    tries: int
    seeds: list[int]
    strategies: list[TunedStrategy]
    runs: int
    diverged: int
    passes: int
    node_seconds: float
