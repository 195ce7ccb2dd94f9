"""The configuration of `plan`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import pydantic

from sparksplit.base.config import Origin, merged, parse
from sparksplit.comparison.compare_config import DEFAULT_STRATEGIES
from sparksplit.comparison.costs import Network, ethernet
from sparksplit.comparison.plan import label
from sparksplit.strategies import STRATEGIES, Strategy, find
from sparksplit.training.train_config import TrainConfig, Training

_LINK = re.compile(r"(\d+(?:\.\d+)?)\s*([GM])bit(?:/s)?", re.IGNORECASE)
_OWN = ("strategy", "sync", "local_batch_size")


def _bandwidth(text: str) -> str:
    match = _LINK.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"must be a bandwidth such as 1Gbit or 100Mbit (is {text})")
    return text


class PlanConfig(TrainConfig):
    """All keys of `plan`: the keys of `train`, and what to plan for."""

    link: Annotated[str, pydantic.AfterValidator(_bandwidth)] | None = None
    """Bandwidth of the network between the hosts, such as 1Gbit or 100Mbit. null: measured between two executors. If
    both executors are on one host, 10Gbit is assumed."""
    most_nodes: pydantic.PositiveInt = 64
    """Largest number of nodes to plan for. Each node has a host or a GPU of its own."""
    strategies: list[str | dict[str, Any]] = pydantic.Field(default_factory=lambda: list(DEFAULT_STRATEGIES))
    """Strategies to plan for: names, or mappings of training keys such as {strategy: local, sync: {every: 32}}. The
    configuration's own `strategy` is always planned for."""

    @property
    def planned_link(self) -> Network | None:
        """The network of `link`; None without `link`."""
        if self.link is None:
            return None
        match = _LINK.fullmatch(self.link.strip())
        assert match is not None
        return ethernet(float(match[1]) * (1.0 if match[2].upper() == "G" else 1e-3))


def candidates(config: PlanConfig) -> Iterator[tuple[str, Strategy, TrainConfig]]:
    """Yield (name, strategy, configuration on 2 nodes) for each strategy on several nodes, the configuration's own
    first. Raise ConfigError for a strategy that does not exist or does not fit."""
    own = {"strategy": config.strategy, **config.model_dump(mode="json", include={*_OWN[1:]}, exclude_unset=True)}
    listed = [{"strategy": one} if isinstance(one, str) else dict(one) for one in config.strategies]
    seen = set()
    for place, keys in enumerate([own, *listed]):
        at = "strategy" if place == 0 else f"strategies.{place - 1}"
        if not isinstance(keys.get("strategy"), str):
            raise config.error(at, f"must name its strategy: one of {', '.join(STRATEGIES)}")
        name = str(keys["strategy"])
        if name == "single" or (name == own["strategy"] and place and name in seen and len(keys) == 1):
            continue
        run = on_nodes(config, keys, 2)
        strategy = find(name)
        called = label(keys, strategy)
        if not strategy.alone and called not in seen:
            seen |= {called, name}
            yield called, strategy, run


def on_nodes(config: PlanConfig, keys: dict[str, Any], nodes: int) -> TrainConfig:
    """Return the configuration of a run of `train` with the keys of a strategy, on `nodes` nodes."""
    common = {
        name: value for name, value in config.model_dump(mode="json", exclude_unset=True).items()
        if name in Training.model_fields or name in ("input_mode", "collective", "init", "output")
    }  # fmt: skip
    return parse(TrainConfig, merged(common, {**keys, "nodes": nodes}), Origin(config.origin.file))
