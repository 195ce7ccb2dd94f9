"""The values of the searched keys: put into a configuration, and counted."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparksplit.base.config import Origin, parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.keys import unhashed
from sparksplit.base.records import Json, JsonObject
from sparksplit.searching.search_config import Range, SearchConfig
from sparksplit.training.metric_facts import LOSS
from sparksplit.training.train_config import TrainConfig

Space = Mapping[str, Range | Sequence[Json]]
"""The values to try, by dotted key."""

_NOT_SEARCHED = {
    "data": "all trials must have the same rows",
    "output": "each trial has a folder of its own",
    "search": "it is the search itself",
    "metrics": "all trials must be measured alike",
    "metric_weights": "all trials must be measured alike",
    "comparison": "a comparison decides on keys itself",
    **dict.fromkeys(unhashed(TrainConfig) - {"data", "output", "comparison", "init"}, "it does not change the model"),
}
_DIGITS = 4
"""Significant digits of a number from a range, so that it is short in best.yaml."""
_MOST_CHECKED = 256
"""Most combinations of extreme values that are all checked before Spark starts."""


def check_keys(config: SearchConfig) -> None:
    """Raise ConfigError for a key that cannot be searched."""
    for key, values in config.search.keys.items():
        if (why := _NOT_SEARCHED.get(key.partition(".")[0])) is not None:
            raise error(config, key, f"cannot be searched: {why}")
        is_0_to_1 = isinstance(values, Range) and is_whole(values) and (values.low, values.high) == (0, 1)
        if is_0_to_1 and key.startswith("model.params."):
            raise error(
                config, key, "must be written with a decimal point, as {low: 0.0, high: 1.0}, or be a list, [0, 1]"
            )
        within = next((other for other in config.search.keys if key.startswith(f"{other}.")), None)
        if within is not None:
            raise error(config, key, f"belongs to {within}, which is searched too; leave out one of them")


def check_loss(config: SearchConfig, metric: str) -> None:
    """Raise ConfigError for a key that changes what the loss is, if the loss decides. metric: which decides."""
    for key in config.search.keys:
        if key.partition(".")[0] in ("loss", "reduction") and metric == LOSS:
            why = "the losses of the trials could not be compared; set search.metric"
            raise error(config, key, f"cannot be searched: {why}")


def error(config: SearchConfig, key: str, message: str) -> ConfigError:
    """Return a ConfigError about the values of a searched key."""
    return config.origin.error(("search", "keys", key), message)


def size(space: Space) -> int | None:
    """Return the number of combinations of values; None if a range of fractions has no end of them."""
    if any(isinstance(values, Range) and not is_whole(values) for values in space.values()):
        return None
    return math.prod(
        int(values.high - values.low) + 1 if isinstance(values, Range) else len(values) for values in space.values()
    )


def combinations(space: Space) -> Iterator[JsonObject]:
    """Yield all combinations of the values of a space of limited `size`."""
    every = [
        range(int(values.low), int(values.high) + 1) if isinstance(values, Range) else values
        for values in space.values()
    ]
    return (dict(zip(space, one, strict=True)) for one in itertools.product(*every))


def is_whole(values: Range) -> bool:
    """Return whether a range has only whole numbers."""
    return isinstance(values.low, int) and isinstance(values.high, int)


def rounded(values: Range, number: float) -> float:
    """Return a number of a range with few digits, within the range."""
    return min(max(float(f"{number:.{_DIGITS}g}"), float(values.low)), float(values.high))


def ends(space: Space) -> dict[str, list[Json]]:
    """Return the ends of ranges, and all choices, by key. A key that takes both ends takes all values between them."""
    return {
        key: [values.low, values.high] if isinstance(values, Range) else list(values) for key, values in space.items()
    }


def singles(space: Space) -> list[JsonObject]:
    """Return combinations of `ends` in which each value occurs. Each has the first values of all keys but one."""
    every = ends(space)
    first: JsonObject = {key: values[0] for key, values in every.items()}
    others: list[JsonObject] = [{**first, key: value} for key, values in every.items() for value in values[1:]]
    return [first, *others]


def corners(space: Space) -> list[JsonObject]:
    """Return combinations of `ends`: all of them, or if they are many, combinations in which each pair of values of two
    keys occurs."""
    every = ends(space)
    if math.prod(map(len, every.values())) <= _MOST_CHECKED:
        return [dict(zip(every, one, strict=True)) for one in itertools.product(*every.values())]
    first: JsonObject = {key: values[0] for key, values in every.items()}
    return [
        {**first, one: value, other: beside}
        for one, other in itertools.combinations(every, 2)
        for value, beside in itertools.product(every[one], every[other])
    ]


def base_values(config: SearchConfig) -> dict[str, Any]:
    """Return the values of the keys of `train` that the user has set."""
    return config.model_dump(mode="json", exclude={"search"}, exclude_unset=True)


def with_keys(values: Mapping[str, Any], keys: Mapping[str, Json]) -> dict[str, Any]:
    """Return `values` with the dotted `keys`. A value replaces the earlier value as a whole, also where it is a
    mapping."""
    changed = copy.deepcopy(dict(values))
    for key, value in keys.items():
        *sections, name = key.split(".")
        inner = changed
        for section in sections:
            if not isinstance(inner.get(section), dict):
                inner[section] = {}
            inner = inner[section]
        inner[name] = copy.deepcopy(value)
    return changed


def trial_config(config: SearchConfig, keys: Mapping[str, Json], output: str) -> TrainConfig:
    """Return the configuration of a trial, whose run is in `output`. Raise ConfigError if a key does not take its
    value."""
    origin = Origin(config.origin.file)
    origin.places = dict(config.origin.places)
    for key in keys:
        origin.places[tuple(key.split("."))] = config.origin.place(("search", "keys", key))
    # A worker thread has no active run of MLflow. So only the key decides, whatever thread trains.
    own = {"output": output, "mlflow": config.mlflow or False, "export": None}
    return parse(TrainConfig, {**with_keys(base_values(config), keys), **own}, origin)
