"""Settings by dotted key: apply them to a configuration, and make the comparison that decides between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sparksplit.base.config import merged, nested, parse
from sparksplit.base.keys import keys_of
from sparksplit.base.records import Json
from sparksplit.base.yaml_edits import set_words
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig, Training

_SAFE = keys_of(TrainConfig, lambda mark: mark.safe)
_WITHIN = keys_of(TrainConfig, lambda mark: mark.within)
_SHARED = (*Training.model_fields, "input_mode")
"""The keys that a comparison can have beside its `strategies`."""
_EITHER = ("batch_size", "window")
"""The keys of `_SHARED` in which the entries of `strategies` may differ."""


def with_settings(config: TrainConfig, settings: Mapping[str, Json]) -> TrainConfig:
    """Return `config` with `settings`. Raise ConfigError if they do not fit together."""
    return parse(TrainConfig, merged(config.model_dump(mode="json"), nested(settings)), config.origin)


def written(settings: Mapping[str, Json]) -> str:
    """Settings as the user would write them: readers=4, input_mode=tensorflow"""
    plain = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return ", ".join(f"{key}={value}" for key, value in plain.items())


def compare_command(config: TrainConfig, proposals: Sequence[Mapping[str, Json]]) -> str | None:
    """Return the `sparksplit compare` command for a shell that decides between `config` and each of `proposals`.

    `single` on one node is always part of the comparison, because `compare` judges all strategies against it.
    Proposals that change a key in which strategies cannot differ are left out. None if no proposal is left, and for a
    run with `init`, which that `single` cannot have.
    """
    may_differ = {"strategy", *_EITHER, *_WITHIN, *_SAFE}
    others = [proposal for proposal in proposals if {key.partition(".")[0] for key in proposal} <= may_differ]
    if not others or config.init is not None:
        return None
    entries = [_entry(each, config) for each in (config, *(with_settings(config, proposal) for proposal in others))]
    if config.strategy != "single":
        entries.insert(0, {"strategy": "single"})
    given: dict[str, Any] = {
        **{key: value for key, value in _said(config).items() if key in _SHARED},
        "output": f"{config.output}-compared",
        "nodes": sorted({1, config.node_count}),
        "strategies": entries,
    }
    return f"sparksplit compare {set_words(given)}"


def _entry(config: TrainConfig, shared: TrainConfig) -> dict[str, Any]:
    """Return the entry of `strategies` for `config`. shared: the configuration that gives the keys beside
    `strategies`."""
    said = {key: value for key, value in _said(config).items() if key in _WITHIN}
    strategy = STRATEGIES.get(config.strategy)
    if strategy is not None and strategy.settings:
        said["sync"] = {"every": config.sync.every, **said.get("sync", {})}
    different = {key: value for key in _EITHER if (value := getattr(config, key)) != getattr(shared, key)}
    # A comparison has no strategy that chooses its nodes. On all nodes, such a strategy is `batch`.
    name = "batch" if strategy is not None and strategy.chooses else config.strategy
    return {"strategy": name, **said, **different}


def _said(config: TrainConfig) -> dict[str, Any]:
    """Return the keys that have no default, or another value than their default."""
    return config.model_dump(mode="json", exclude_defaults=True)
