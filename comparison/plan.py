"""Which runs a comparison has: ways x node counts x seeds, at equal passes; pure functions of the configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from comparison.config import CompareConfig
from sparksplit.config import Source, parse
from sparksplit.errors import ConfigError
from training.config import SyncConfig, TrainConfig, Training
from training.ways import WAYS

SINGLE = "single"


@dataclass(frozen=True)
class Run:
    """One training run. key: its record's name. way: how reports call it."""

    key: str
    way: str
    config: TrainConfig

    @property
    def processes(self) -> int:
        """TensorFlow processes that it takes."""
        return self.config.processes


def label(values: dict[str, Any]) -> str:
    """What a way is called: its name, and whatever is said beside it, such as `local, H = 32, nesterov`."""
    more = {key: value for key, value in values.items() if key != "split"}
    parts = [str(values["split"]).rpartition(":")[2]]
    sync = dict(more.pop("sync", None) or {})
    if "every" in sync:
        parts.append(f"H = {sync.pop('every')}")
    elif values["split"] == "local":
        parts.append(f"H = {SyncConfig().every}")
    if sync.get("outer", "none") != "none":
        parts.append(str(sync["outer"]))
    sync.pop("outer", None)
    if "after" in sync:
        parts.append(f"after {sync.pop('after')} updates")
    parts.extend(f"{key} = {value}" for key, value in (*sync.items(), *more.items()))
    return ", ".join(parts)


def epochs(asked: int, numbers: Sequence[int]) -> int:
    """The least number of epochs from `asked` on that all of `numbers` divide."""
    multiple = math.lcm(*numbers)
    return -(-asked // multiple) * multiple


def plan(config: CompareConfig) -> list[Run]:
    """All runs, in the order in which they are best run: by processes, the real ones before the virtual ones.

    Raises ConfigError that names the way that is wrong.
    """
    ways = [_values(config, place) for place in range(len(config.ways))]
    splits_epochs = any(WAYS[values["split"]].split.every_row for values in ways if values["split"] in WAYS)
    total = epochs(config.epochs, [*config.nodes, *config.virtual]) if splits_epochs else config.epochs
    runs: dict[str, Run] = {}
    for nodes, seed, place in _points(config):
        values = ways[place]
        number = nodes["virtual"] if isinstance(nodes, dict) else nodes
        alone = values["split"] == SINGLE or number == 1
        if values["split"] == SINGLE and number > 1:
            continue
        if isinstance(nodes, dict) and values["split"] == "batch":
            continue  # is `single`, whatever the number of nodes
        own = _alone(values) if alone else {**values, "nodes": nodes}
        name = label({key: value for key, value in own.items() if key != "nodes"})
        key = _key(name, number, isinstance(nodes, dict), seed)
        runs.setdefault(key, Run(key, name, _config(config, place, {**own, "seed": seed, "epochs": total})))
    return sorted(runs.values(), key=lambda run: (run.config.virtual, run.config.node_count))


def _alone(values: dict[str, Any]) -> dict[str, Any]:
    """What a way is on one node: `single`, with what is said of other things than the nodes' agreement."""
    rest = {key: value for key, value in values.items() if key not in ("split", "sync", "local_batch_size")}
    return {"split": SINGLE, **rest, "nodes": 1}


def _points(config: CompareConfig) -> Iterator[tuple[int | dict[str, int], int, int]]:
    """(nodes, seed, place of the way). Seeds first: a comparison that is ended early still has whole ones."""
    for count, numbers in ((config.seeds, config.nodes), (config.virtual_seeds, config.virtual)):
        for seed in range(config.seed, config.seed + count):
            for number in sorted(numbers):
                for place in range(len(config.ways)):
                    yield ({"virtual": number} if numbers is config.virtual else number), seed, place


def _values(config: CompareConfig, place: int) -> dict[str, Any]:
    given = config.ways[place]
    values = {"split": given} if isinstance(given, str) else dict(given)
    if not isinstance(values.get("split"), str):
        raise config.error(f"ways.{place}", f"must name its split: one of {', '.join(WAYS)}")
    for key in ("data", "output", "nodes", "seed", "epochs", "input_mode"):
        if key in values:
            raise config.error(f"ways.{place}.{key}", "is the same for all ways; give it beside `ways`")
    _config(config, place, {**values, "nodes": 1 if values["split"] == SINGLE else 2})  # is it right?
    return values


def _config(config: CompareConfig, place: int, values: dict[str, Any]) -> TrainConfig:
    common = {
        name: value for name, value in config.model_dump(mode="json", exclude_unset=True).items()
        if name in Training.model_fields
    }  # fmt: skip
    try:
        merged = _merged(common, {**values, "output": config.output})
        return parse(TrainConfig, merged, Source(config.source.file))
    except ConfigError as error:
        raise config.error(f"ways.{place}", _without_file(str(error), config)) from error


def _merged(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in values.items():
        inner = both.get(key)
        both[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


def _without_file(text: str, config: CompareConfig) -> str:
    return text.removeprefix(f"{config.source.file}: ")


def _key(name: str, nodes: int, virtual: bool, seed: int) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{slug}-n{nodes}{'-virtual' if virtual else ''}-s{seed}"
