"""The values to try: ranges of a strategy's keys on a log scale, and the points of a quasi-random sequence in them.

A quasi-random sequence leaves no large empty areas, unlike random values (Bousquet et al. 2017, Critical
Hyper-Parameters: No Random, No Cry). A longer sequence begins with the points of a shorter one. So more tries extend
fewer tries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparksplit.base.config import merged, nested
from sparksplit.comparison.compare_config import TuneConfig
from sparksplit.comparison.numbers import compact
from sparksplit.strategies import STRATEGIES, Strategy
from sparksplit.training.train_config import TrainConfig

RATE = "optimizer.learning_rate"
AROUND = 10.0
"""The learning rate's range reaches from a strategy's own value, divided by this, to its own value times this."""
_WHOLE = frozenset(("ema_overwrite_frequency", "decay_steps", "first_decay_steps", "warmup_steps"))
"""The arguments of Keras's optimizers and schedules that take whole numbers."""
_FURTHER = 64
"""Points to draw for each try. Rounded values may be equal, so more points than tries are needed."""
_DIGITS = 3
"""Significant digits of a value. Reports show as many digits, so a copied value trains the same model."""

Values = Mapping[str, float]
"""Values by dotted key; whole numbers if the key takes whole numbers."""


@dataclass(frozen=True)
class Range:
    """Values from `low` to `high`, both above 0. whole: only whole numbers."""

    low: float
    high: float
    whole: bool = False

    def at(self, part: float) -> float:
        """The value that lies `part` of the way (0 to 1) from low to high, on a log scale."""
        value = math.exp(math.log(self.low) + part * (math.log(self.high) - math.log(self.low)))
        return round(value) if self.whole else float(f"{value:.{_DIGITS}g}")

    def __str__(self) -> str:
        return f"{compact(self.low)} to {compact(self.high)}"


def points(tries: int, dimensions: int) -> list[list[float]]:
    """Return the first `tries` points of Halton's sequence in the unit cube, without the origin.

    The first coordinate of the first point is 0.5, so a range around a value begins with this value.
    """
    from scipy.stats import qmc  # late, because the import takes a second

    sequence = qmc.Halton(dimensions, scramble=False)
    sequence.fast_forward(1)
    coordinates: list[list[float]] = sequence.random(tries).tolist()
    return coordinates


def tried(ranges: Mapping[str, Range], tries: int) -> list[dict[str, float]]:
    """Return the values to try: `tries` different combinations, or fewer if the ranges have too few."""
    combinations: list[dict[str, float]] = []
    for point in points(tries * _FURTHER, len(ranges)):
        values = {key: span.at(part) for (key, span), part in zip(ranges.items(), point, strict=True)}
        if values not in combinations:
            combinations.append(values)
        if len(combinations) == tries:
            break
    return combinations


def ranges(tuning: TuneConfig, run: TrainConfig, strategy: Strategy, rate: object) -> dict[str, Range]:
    """Return the ranges of a strategy's tuned keys, the learning rate first.

    run: one run of the strategy. rate: the comparison's learning rate. A given range of the learning rate is meant for
    the comparison's learning rate. A strategy with twice this learning rate has twice the range.

    Raise ValueError if the learning rate is a schedule, and no argument of the schedule has a range.
    """
    by_key: dict[str, Range] = {}
    own_rate = run.optimizer.learning_rate
    if isinstance(own_rate, float):
        low, high = tuning.keys.get(RATE, (0.0, 0.0))
        times = own_rate / rate if isinstance(rate, float) else 1.0
        by_key[RATE] = Range(low * times, high * times) if high else Range(own_rate / AROUND, own_rate * AROUND)
    values = run.model_dump(mode="json")
    for key, (low, high) in tuning.keys.items():
        if key != RATE and _has(run, strategy, key):
            by_key[key] = Range(low, high, _is_whole(key, values, (low, high)))
    if not any(key.startswith(RATE) for key in by_key):
        raise ValueError(
            f"{RATE} is a schedule: give the range of one of its arguments in tune.keys, such as "
            f"{RATE}.initial_learning_rate: [0.01, 1]"
        )
    return by_key


def _is_whole(key: str, values: Mapping[str, Any], ends: tuple[float, float]) -> bool:
    """Whether only whole numbers are tried.

    Keras's arguments may be written as whole numbers and still accept fractions, such as momentum: 0. For an optimizer
    outside Keras, the written value and its range decide.
    """
    value = value_at(values, key)
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if key.startswith("sync."):
        return is_int
    is_own = ">" in str(value_at(values, "optimizer.name"))  # a class of a package, registered with Keras
    return key.rpartition(".")[2] in _WHOLE or (is_own and is_int and all(float(end).is_integer() for end in ends))


def _has(run: TrainConfig, strategy: Strategy, key: str) -> bool:
    """Whether a strategy uses a key."""
    section, _, name = key.partition(".")
    if section == "sync":
        return strategy.settings and (not name.startswith("outer_") or run.sync.outer != "none")
    return not key.startswith(f"{RATE}.") or isinstance(run.optimizer.learning_rate, dict)


def value_at(values: Any, key: str) -> Any:
    """Return the value at a dotted key of nested mappings; None if there is none."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def learn_as_single(entries: Any) -> bool:
    """Whether all entries of `strategies` make exactly the updates of `single`. Then no learning rate favours one of
    them."""
    given = [entry if isinstance(entry, Mapping) else {"strategy": entry} for entry in entries]
    known = [STRATEGIES.get(str(values.get("strategy"))) for values in given]
    is_same = all(strategy is not None and strategy.any_nodes for strategy in known)
    return is_same and all(set(values) <= {"strategy", "collective"} for values in given)


def takes_rates(config: Mapping[str, Any]) -> bool:
    """Whether `tune: 8` can search a comparison with these keys: no learning rate is a schedule."""
    return not any(isinstance(value_at(values, RATE), Mapping) for values in (config, *config["strategies"]))


def called(said: dict[str, Any], ranges: Mapping[str, Range], every: bool) -> dict[str, Any]:
    """Return the keys of a strategy, with ranges in place of tuned values. every: whether the strategy's name always
    shows H."""
    names = [key for key in ranges if value_at(said, key) is not None or (every and key == "sync.every")]
    return merged(said, nested({key: str(ranges[key]) for key in names}))


def extremes(values: Sequence[Values], chosen: int) -> list[str]:
    """Return the keys whose chosen value is the lowest or the highest tried value."""
    return [
        key
        for key, value in values[chosen].items()
        if value in (min(each[key] for each in values), max(each[key] for each in values))
    ]
