"""Settings by dotted key: apply them to a configuration, and make the comparison that decides between them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sparksplit.base.config import merged, nested, parse
from sparksplit.base.keys import keys_of
from sparksplit.base.records import Json
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig, Training

_SAFE = keys_of(TrainConfig, lambda mark: mark.safe)
_OF_A_STRATEGY = {"strategy", "batch_size", "window", *keys_of(TrainConfig, lambda mark: mark.within)}
"""The keys in which the entries of a comparison's `strategies` may differ."""


def with_settings(config: TrainConfig, settings: Mapping[str, Json]) -> TrainConfig:
    """Return `config` with `settings`. Raise ConfigError if they do not fit together."""
    return parse(TrainConfig, merged(config.model_dump(mode="json"), nested(settings)), config.origin)


def written(settings: Mapping[str, Json]) -> str:
    """Settings as the user would write them: readers=4, input_mode=tensorflow"""
    plain = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return ", ".join(f"{key}={value}" for key, value in plain.items())


def compare_command(config: TrainConfig, proposals: Sequence[Mapping[str, Json]]) -> str | None:
    """Return the `sparksplit compare` command for a shell that decides between `config` and each of `proposals`.

    Proposals that change a key in which strategies cannot differ are left out. None if no proposal is left.
    """
    others = [
        proposal for proposal in proposals if {key.partition(".")[0] for key in proposal} <= {*_OF_A_STRATEGY, *_SAFE}
    ]
    configs = [config, *(with_settings(config, proposal) for proposal in others)]
    entries = [_entry(each) for each in configs]
    if len(entries) < 2:
        return None
    shared: dict[str, Any] = {
        key: value for key, value in _said(config).items() if key in Training.model_fields and key not in _OF_A_STRATEGY
    }
    given = {**shared, "output": f"{config.output}-compared", "nodes": [config.node_count], "strategies": entries}
    words = ["sparksplit", "compare"]
    for key, value in given.items():
        words += ["--set", shlex.quote(f"{key}={json.dumps(value, ensure_ascii=False)}")]
    return " ".join(words)


def _entry(config: TrainConfig) -> dict[str, Any]:
    """Return the entry of `strategies` for `config`: keys without their default value, and keys in which strategies
    often differ."""
    said = {key: value for key, value in _said(config).items() if key in _OF_A_STRATEGY}
    strategy = STRATEGIES.get(config.strategy)
    if strategy is not None and strategy.settings:
        said["sync"] = {"every": config.sync.every, **said.get("sync", {})}
    return {"strategy": config.strategy, **said, "batch_size": config.batch_size}


def _said(config: TrainConfig) -> dict[str, Any]:
    """Return the keys that have no default, or another value than their default."""
    return config.model_dump(mode="json", exclude_defaults=True)
