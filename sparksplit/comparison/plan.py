"""Plan the runs of a comparison: strategies x numbers of nodes x seeds, at equal passes.

The plan depends only on the configuration and on the files of the user's own strategies.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from sparksplit.base.config import Origin, digest, merged, parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.keys import keys_of
from sparksplit.base.user_functions import FunctionError, is_own, source_of
from sparksplit.comparison.compare_config import REFUSED, CompareConfig
from sparksplit.comparison.controls import alone, controls, has_outer
from sparksplit.comparison.tuning.space import Range, called, ranges
from sparksplit.strategies import COMPARED, STRATEGIES, Strategy, find
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.training.train_config import TrainConfig, Training, misfit, unknown

SINGLE = "single"
REFERENCES = 3
"""Largest number of references: runs of `single` on seeds of their own. The target and the metric's range come from
them."""
_REFERENCE_SEED = 1_000_000
"""Distance of the references' seeds from the compared seeds."""
_RAISED = 2
"""Equal passes may raise the epochs up to this multiple of the configured epochs, or of the largest number of nodes if
it is larger. More epochs are refused."""


@dataclass(frozen=True)
class Run:
    """One training run. key: the name of the run's record. name: the strategy, as reports call it.

    reference: whether the run is a reference, which nothing is compared with. tried: whether the run belongs to the
    hyperparameter search. ranges: the ranges of the tuned keys. tuned_as: (name, nodes, virtual) of the runs that find
    the tuned values.
    """

    key: str
    name: str
    config: TrainConfig
    reference: bool = False
    tried: bool = False
    ranges: Mapping[str, Range] = field(default_factory=dict)
    tuned_as: tuple[str, int, bool] | None = None

    def is_within(self, first: int, seeds: int) -> bool:
        """Whether the run belongs to a comparison of `seeds` seeds from `first` on. References and runs on virtual
        nodes always do."""
        return self.reference or self.config.virtual or self.config.seed < first + seeds

    @property
    def group(self) -> tuple[str, int, bool]:
        """(name, nodes, virtual), which is equal for all seeds."""
        return self.name, self.config.node_count, self.config.virtual

    @property
    def timing(self) -> dict[str, Any]:
        """The keys that change the run's times, except keys that have their default value; empty if no times of the run
        are compared."""
        is_timed = not (self.reference or self.tried or self.config.virtual)
        return self.config.timing if is_timed else {}

    @property
    def processes(self) -> int:
        """The number of TensorFlow processes that the run takes."""
        return self.config.processes

    @property
    def cluster(self) -> tuple[int, str | None]:
        """(processes, collective between them). Runs with equal values can take turns on one cluster."""
        return self.processes, self.config.collective if self.processes > 1 else None


def label(values: dict[str, Any], strategy: Strategy, whole: bool = False) -> str:
    """Return the name of a strategy in reports: its name and its settings, such as `local, H = 32, nesterov`.

    values: the strategy's keys. A user's own strategy is called by its function. The file is added if `whole`, or if
    the function has the name of one of sparksplit's strategies.
    """
    more = {key: value for key, value in values.items() if key != "strategy"}
    name = str(values["strategy"])
    function = name.rpartition(":")[2]
    parts = [name if whole or (is_own(name) and function in STRATEGIES) else function]
    sync = dict(more.pop("sync", None) or {})
    if "every" in sync:
        parts.append(f"H = {sync.pop('every')}")
    elif strategy.settings:
        parts.append(f"H = {SyncConfig().every}")
    if sync.get("outer", "none") != "none":
        parts.append(str(sync["outer"]))
    sync.pop("outer", None)
    if "after" in sync:
        parts.append(f"after {sync.pop('after')} updates")
    optimizer = dict(more.pop("optimizer", None) or {})
    parts.extend(f"{key} = {value}" for key, value in (*sync.items(), *more.items(), *optimizer.items()))
    return ", ".join(parts)


def epochs(asked: int, numbers: Sequence[int]) -> int:
    """The smallest number of epochs, at least `asked`, that all of `numbers` divide."""
    multiple = math.lcm(*numbers)
    return -(-asked // multiple) * multiple


def _equal_passes(config: CompareConfig) -> int:
    """Return the epochs of all runs if nodes share epochs. Raise ConfigError if equal passes need too many epochs."""
    numbers = sorted({*config.nodes, *config.virtual})

    def fits(some: Sequence[int]) -> bool:
        return epochs(config.epochs, some) <= _RAISED * max(config.epochs, *some)

    if fits(numbers):
        return epochs(config.epochs, numbers)
    total = epochs(config.epochs, numbers)
    subsets = (some for size in range(len(numbers) - 1, 0, -1) for some in combinations(numbers, size) if fits(some))
    kept = min(_of_one_size(subsets), key=lambda some: (epochs(config.epochs, some), some))
    left = ", ".join(str(number) for number in numbers if number not in kept)
    raise config.error(
        "nodes",
        f"all passes are equal only if every number of nodes divides the epochs, and {config.epochs} would become "
        f"{total}: leave out {left} (then {epochs(config.epochs, kept)} are run), or ask for epochs: {total}",
    )


def _of_one_size(subsets: Iterator[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """Yield the subsets that are as large as the first one."""
    size = 0
    for some in subsets:
        size = size or len(some)
        if len(some) < size:
            return
        yield some


def plan(config: CompareConfig) -> list[Run]:
    """Return all runs in the best order to run them: cluster by cluster, real nodes before virtual nodes.

    Read the files of the user's own strategies. Raise ConfigError that names the wrong strategy.
    """
    values = [_values(config, place) for place in range(len(config.strategies))]
    strategies = [_strategy(config, place, keys) for place, keys in enumerate(values)]
    by_name = {SINGLE: STRATEGIES[SINGLE], **dict(zip((keys["strategy"] for keys in values), strategies, strict=True))}
    splits_epochs = any(strategy.split.every_row for strategy in strategies)
    total = _equal_passes(config) if splits_epochs else config.epochs
    planned: dict[str, tuple[dict[str, Any], TrainConfig]] = {}
    firsts: dict[tuple[int, int], str] = {}
    alike: dict[str, str] = {}
    """Runs with the same result on any number of nodes, each with its run on the smallest number of nodes."""

    def add(said: dict[str, Any], run: TrainConfig, asked: bool = True) -> str:
        """Plan `run`. Return the digest of its configuration. Equal configurations are one run, with the shortest
        label.

        asked: whether to plan `run` even if no equal run is planned.
        """
        identity = digest(run.model_dump(mode="json"))
        shortest = min((said, planned.get(identity, (said, run))[0]), key=length)
        if asked or identity in planned:
            planned[identity] = shortest, run
        return identity

    def length(said: dict[str, Any]) -> int:
        return len(label(said, by_name[said["strategy"]]))

    for nodes, seed, place in _points(config):
        number = nodes["virtual"] if isinstance(nodes, dict) else nodes
        if strategies[place].alone and number > 1:
            continue
        if isinstance(nodes, dict) and strategies[place].any_nodes:
            continue  # virtual nodes would give the result of one node
        point = {"nodes": nodes, "seed": seed, "epochs": total}
        given = [values[place]] if number > 1 else _on_one_node(values[place], strategies[place])
        for said in given:
            identity = add(said, _config(config, place, {**said, **point}))
            first = firsts.setdefault((seed, place), identity)
        if strategies[place].any_nodes and len(given) == 1:
            alike[identity] = first
        is_controlled = number > 1 and 1 in config.nodes and not isinstance(nodes, dict)
        if is_controlled:
            run = planned[identity][1]
            for said in controls(values[place], strategies[place], run):
                add(said, _config(config, place, {**said, **point, "nodes": 1}))
        if number == 1 or is_controlled:  # a run that equals `single` gets this name
            base = {"strategy": SINGLE, **point, "nodes": 1}
            add({"strategy": SINGLE}, _config(config, place, base), asked=False)
    if not planned:
        asked = ", ".join(keys["strategy"] for keys in values)
        raise config.error("nodes", f"no strategy of {asked} runs on so many: add 1")
    tuned = {
        identity: _ranges(config, run, by_name[said["strategy"]], said["strategy"])
        for identity, (said, run) in planned.items()
    }
    said_of = {
        identity: called(said, tuned[identity], by_name[said["strategy"]].settings)
        for identity, (said, _) in planned.items()
    }
    names = _names(list(said_of.values()), by_name)
    name_of = {identity: names[digest(said)] for identity, said in said_of.items()}
    runs = {}
    for identity, (_, run) in planned.items():
        name, slug = name_of[identity]
        key = _key(slug, run.node_count, run.virtual, run.seed)
        runs[identity] = Run(key, name, run, ranges=tuned[identity])
    if config.tuning is not None:
        runs = {key: replace(run, tuned_as=runs[alike.get(key, key)].group) for key, run in runs.items()}
        _differ(config, list(runs.values()))
    return sorted([*runs.values(), *_references(config, list(runs.values()))], key=_turn)


def _ranges(config: CompareConfig, run: TrainConfig, strategy: Strategy, name: str) -> dict[str, Range]:
    """Return the ranges of the tuned keys of a strategy; none without a hyperparameter search. Raise ConfigError if no
    key can be tuned."""
    if config.tuning is None:
        return {}
    try:
        return ranges(config.tuning, run, strategy, config.optimizer.learning_rate)
    except ValueError as error:
        raise config.error("tune", f"{name}: {error}") from error


def _differ(config: CompareConfig, runs: Sequence[Run]) -> None:
    """Raise ConfigError if some runs differ only in tuned keys. The search would make them equal."""
    times = Counter(run.key for run in runs)
    twice = [run.name for run in runs if times[run.key] > 1]
    if twice:
        raise config.error("strategies", f"several are {twice[0]}, but for what is tuned: leave one of them")


def _references(config: CompareConfig, runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the references: runs of `single` on one node, with seeds that no other run has. There are none if the
    comparison has no run of `single` on one node."""
    base = next((run for run in runs if (run.name, run.config.nodes) == (SINGLE, 1)), None)
    for place in range(min(REFERENCES, config.seeds) if base is not None else 0):
        seed = config.seed + _REFERENCE_SEED + place
        assert base is not None
        reseeded = base.config.model_copy(update={"seed": seed})
        yield replace(base, key=_key("reference", 1, False, seed), config=reseeded, reference=True)


def _turn(run: Run) -> tuple[bool, int, bool, str]:
    """Return the sort key of a run: real nodes first, then fewer nodes.

    A user's own collective comes last, because the sums of the first collective are measured for the cost model.
    """
    collective = run.cluster[1] or ""
    return run.config.virtual, run.config.node_count, is_own(collective), collective


def _names(values: Sequence[dict[str, Any]], by_name: Mapping[str, Strategy]) -> dict[str, tuple[str, str]]:
    """Return (name in reports, part of a record's name) for each strategy, by the digest of its keys. Both are unique.

    Functions with equal names in two files are told apart by their files. Names that are still equal get a digest.
    """
    different = {digest(said): said for said in values}
    shared = _alike({said["strategy"]: said["strategy"].rpartition(":")[2] for said in values})
    names = {
        key: label(said, by_name[said["strategy"]], whole=said["strategy"] in shared) for key, said in different.items()
    }
    names |= {key: f"{names[key]} ({key[:8]})" for key in _alike(names)}
    slugs = {key: _slug(name) for key, name in names.items()}
    slugs |= {key: f"{slugs[key]}-{key[:8]}" for key in _alike(slugs)}
    return {key: (names[key], slugs[key]) for key in different}


def _alike(names: dict[str, str]) -> list[str]:
    """Return the keys whose name another key has too."""
    times = Counter(names.values())
    return [key for key, name in names.items() if times[name] > 1]


def _on_one_node(values: dict[str, Any], strategy: Strategy) -> list[dict[str, Any]]:
    """Return the keys of a strategy on one node: `single`, and the strategy itself if an outer optimiser makes it
    differ."""
    if strategy.alone:
        return [values]
    return [values, alone(values)] if has_outer(values, strategy) else [alone(values)]


def _points(config: CompareConfig) -> Iterator[tuple[int | dict[str, int], int, int]]:
    """Yield (nodes, seed, index of the strategy), seed by seed. So a comparison that ends early has complete seeds."""
    for count, numbers in ((config.looks[-1], config.nodes), (config.virtual_seeds, config.virtual)):
        for seed in range(config.seed, config.seed + count):
            for number in sorted(numbers):
                for place in range(len(config.strategies)):
                    yield ({"virtual": number} if numbers is config.virtual else number), seed, place


def _values(config: CompareConfig, place: int) -> dict[str, Any]:
    given = config.strategies[place]
    values = {"strategy": given} if isinstance(given, str) else dict(given)
    if not isinstance(values.get("strategy"), str):
        raise config.error(f"strategies.{place}", f"must name its strategy: one of {', '.join(COMPARED)}")
    for key in keys_of(TrainConfig, lambda mark: mark.shared):
        if key in values:
            problem = "is the same for all strategies; give it beside `strategies`"
            raise config.error(f"strategies.{place}.{key}", problem)
    for key, why in REFUSED.items():
        if key in values:
            raise config.error(f"strategies.{place}.{key}", why)
    name = values["strategy"]
    strategy = STRATEGIES.get(name)
    if strategy is None and not is_own(name):
        raise config.error(f"strategies.{place}", f"strategy: {unknown(name, COMPARED, 'a strategy')}")
    _config(config, place, {**values, "nodes": 1 if strategy is not None and strategy.alone else 2})  # checks the keys
    return values


def _strategy(config: CompareConfig, place: int, values: dict[str, Any]) -> Strategy:
    """Load the strategy. Raise ConfigError if it cannot be loaded, or if other keys do not fit it."""
    name = values["strategy"]
    try:
        strategy = find(name, source_of(name) if is_own(name) else None)
    except FunctionError as error:
        raise config.error(f"strategies.{place}.strategy", str(error)) from error
    if strategy.chooses:
        raise config.error(
            f"strategies.{place}", f"must not be {name}, which chooses its nodes by itself: write single and batch"
        )
    if problem := misfit(_config(config, place, {**values, "nodes": 1 if strategy.alone else 2}), strategy):
        raise config.error(f"strategies.{place}.strategy", problem)
    return strategy


def _config(config: CompareConfig, place: int, values: dict[str, Any]) -> TrainConfig:
    common = {
        name: value for name, value in config.model_dump(mode="json", exclude_unset=True).items()
        if name in Training.model_fields or name == "input_mode"
    }  # fmt: skip
    try:
        both = merged(common, {**values, "output": config.output})
        train = parse(TrainConfig, both, Origin(config.origin.file))
    except ConfigError as error:
        raise config.error(f"strategies.{place}", _without_file(str(error), config)) from error
    # Errors that are found later name the line of their key.
    places = config.origin.section(("strategies", str(place))).places
    train.origin.places = {
        **{key: at for key, at in config.origin.places.items() if key and key[0] in common},
        **{key: at for key, at in places.items() if key},
    }
    return train


def _without_file(text: str, config: CompareConfig) -> str:
    return text.removeprefix(f"{config.origin.file}: ")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _key(slug: str, nodes: int, virtual: bool, seed: int) -> str:
    return f"{slug}-n{nodes}{'-virtual' if virtual else ''}-s{seed}"
