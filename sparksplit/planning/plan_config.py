"""The configuration of `plan`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic

from sparksplit.base.config import Origin, merged, parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.user_functions import FunctionError, is_own, source_of
from sparksplit.comparison.compare_config import DEFAULT_STRATEGIES
from sparksplit.comparison.costs import Network, ethernet
from sparksplit.comparison.plan import label
from sparksplit.strategies import COMPARED, Strategy, find
from sparksplit.training.train_config import TrainConfig, Training, misfit

_LINK = re.compile(r"(\d+(?:\.\d+)?)\s*([GM])bit(?:/s)?", re.IGNORECASE)
_OWN = ("strategy", "sync", "local_batch_size")
_MEASURED = {*_OWN, "batch_size", "optimizer.learning_rate"}
"""Keys of a mapping in `strategies` that change no step but its rows. Only the configuration's own step is measured."""


def _bandwidth(text: str) -> str:
    match = _LINK.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"must be a bandwidth such as 1Gbit or 100Mbit (is {text})")
    return text


class PlanConfig(TrainConfig):
    """All keys of `plan`: the keys of `train`, and what to plan for."""

    link: Annotated[str, pydantic.AfterValidator(_bandwidth)] | None = None
    """Bandwidth of the network between the hosts, such as 1Gbit or 100Mbit. If two executors are on two hosts, only a
    slower network than theirs can be planned for. null: measured between two executors. If both executors are on one
    host, 10Gbit is assumed."""
    most_nodes: pydantic.PositiveInt = 64
    """Largest number of nodes to plan for. Each node has a host or a GPU of its own."""
    strategies: list[str | dict[str, Any]] = pydantic.Field(default_factory=lambda: list(DEFAULT_STRATEGIES))
    """Strategies to plan for: names, or mappings such as {strategy: local, sync: {every: 32}}. A mapping may also have
    `local_batch_size`, `batch_size` and `optimizer.learning_rate`. Other keys change a step or the epochs, and are
    refused. `batch` and the configuration's own `strategy` are always planned for."""

    branch_seconds: pydantic.NonNegativeFloat = 10
    """Seconds of training on one node, to find the largest mini-batch that learns as much from the same rows. With more
    seconds, it is found later in training. 0: it is not looked for."""

    @property
    def planned_link(self) -> Network | None:
        """The network of `link`; None without `link`."""
        if self.link is None:
            return None
        match = _LINK.fullmatch(self.link.strip())
        assert match is not None
        return ethernet(float(match[1]) * (1.0 if match[2].upper() == "G" else 1e-3))


@dataclass(frozen=True)
class Candidate:
    """A strategy to plan for. name: as reports call it. config: a run of `train` with it, on any number of nodes.

    is_plain: whether it has no key besides `strategy`, so that it learns as the configuration does.
    """

    name: str
    strategy: Strategy
    config: TrainConfig
    is_plain: bool


def candidates(config: PlanConfig) -> list[Candidate]:
    """Return the strategies on several nodes, `batch` first, then the configuration's own. Of the strategies that are
    planned for by default, those that do not fit the configuration are left out.

    Raise ConfigError for a listed strategy that does not exist or does not fit, and for keys that would not count.
    """
    own = {"strategy": config.strategy, **config.model_dump(mode="json", include={*_OWN[1:]}, exclude_unset=True)}
    is_default = "strategies" not in config.model_fields_set
    listed = [("strategy", {"strategy": "batch"}), ("strategy", own)]
    for place, one in enumerate(config.strategies):
        listed.append((f"strategies.{place}", {"strategy": one} if isinstance(one, str) else dict(one)))
    found: dict[str, Candidate] = {}
    for number, (key, keys) in enumerate(listed):
        if not isinstance(keys.get("strategy"), str):
            raise config.error(key, f"must name its strategy: one of {', '.join(COMPARED)}")
        if "nodes" in keys:
            raise config.error(key, "must not have `nodes`: plan tries all numbers of nodes up to `most_nodes`")
        if others := _not_measured(keys):
            raise config.error(
                key, f"must not have `{others[0]}`: all strategies are planned for with the configuration's own value"
            )
        try:
            candidate = _candidate(config, key, keys)
        except ConfigError:
            if number != 1 and (is_default or number == 0):
                continue
            raise
        if not (candidate.strategy.alone or candidate.strategy.chooses):
            found.setdefault(candidate.name, candidate)
        elif number > 1 and not candidate.is_plain:
            raise config.error(
                key, f"{keys['strategy']} is planned for as configured; set its keys beside `strategies`"
            )
    return [*found.values()]


def _not_measured(keys: dict[str, Any]) -> list[str]:
    """Return the keys of `train` that a mapping must not have. `parse` refuses keys that do not exist."""
    optimizer = keys.get("optimizer")
    of_optimizer = [f"optimizer.{key}" for key in optimizer] if isinstance(optimizer, dict) else []
    named = [key for key in keys if key in TrainConfig.model_fields and key != "optimizer"]
    return [key for key in (*named, *of_optimizer) if key not in _MEASURED]


def _candidate(config: PlanConfig, key: str, keys: dict[str, Any]) -> Candidate:
    name = str(keys["strategy"])
    try:
        run = on_nodes(config, keys, 1 if name == "single" else 2)
    except ConfigError as error:
        raise config.error(key, str(error).removeprefix(f"{config.origin.file}: ")) from error
    try:
        strategy = find(name, source_of(name) if is_own(name) else None)
    except FunctionError as error:
        raise config.error(key, str(error)) from error
    if problem := misfit(run, strategy):
        raise config.error(key, problem)
    return Candidate(label(keys, strategy), strategy, run, keys.keys() == {"strategy"})


def on_nodes(config: PlanConfig, keys: dict[str, Any], nodes: int) -> TrainConfig:
    """Return the configuration of a run of `train` with the keys of a strategy, on `nodes` nodes."""
    common = {
        name: value for name, value in config.model_dump(mode="json", exclude_unset=True).items()
        if name in Training.model_fields or name in ("collective", "init", "output")
    }  # fmt: skip
    return parse(TrainConfig, merged(common, {**keys, "nodes": nodes}), Origin(config.origin.file))
