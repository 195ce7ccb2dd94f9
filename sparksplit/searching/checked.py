"""A search that is checked: everything that the user can have got wrong is known before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparksplit.base.config import digest
from sparksplit.base.records import Json
from sparksplit.searching import space
from sparksplit.searching.search_config import SearchConfig
from sparksplit.searching.search_record import folder_of
from sparksplit.searching.space import trial_config
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.metric_facts import LOSS, deciding, higher_is_better, measured
from sparksplit.training.own_models import with_compiled


@dataclass(frozen=True)
class Checked:
    """A search and what its configuration names.

    metric, higher: the metric of the validation rows that decides, and whether higher values are better.
    executors: the most executors that a trial may need.
    hash, paths, keys: of the output, as for `Output`.
    models: keeps the user's own models, so that a file is read once.
    """

    config: SearchConfig
    metric: str
    higher: bool
    executors: int
    hash: str
    paths: Mapping[str, str]
    keys: Mapping[str, Any]
    models: list[Any] = field(repr=False, default_factory=list)


def checked(config: SearchConfig) -> Checked:
    """Return the checked search. Raise UsageError for the user's mistakes, also in values that trials may get.

    Each extreme value of each key is checked as `train` checks it. Combinations of values are checked by their types
    and ranges, as far as there are not too many.
    """
    section = config.search
    metric, higher = _goal(config)
    space.check_keys(config, metric)
    inputs = [_inputs(config, keys) for keys in space.singles(section.keys)]
    runs = [trial_config(config, keys, folder_of(config.output, 1)) for keys in space.corners(section.keys)]
    most = space.size(section.keys)
    if most is not None and section.trials > most:
        raise config.error(
            "search.trials", f"must be at most {most} (is {section.trials}): the keys have no more values"
        )
    what = {
        "keys": section.model_dump(mode="json")["keys"],
        "trials": section.trials,
        "metric": metric,
        "metric_better": "higher" if higher else "lower",
        "prune": section.prune,
    }
    return Checked(
        config,
        metric,
        higher,
        max(run.processes + run.feeders for run in (*(one.config for one in inputs), *runs)),
        digest({"command": "search", "run": inputs[0].hash(), "seed": config.seed, **what}),
        {**inputs[0].paths, **config.own_file},
        {**inputs[0].keys, **{f"search.{key}": value for key, value in what.items()}},
        [one.own for one in inputs],
    )


def _inputs(config: SearchConfig, keys: Mapping[str, Json]) -> RunInputs:
    """Return what a trial with these values trains from. Raise UsageError as `train` does."""
    run, _own = with_compiled(trial_config(config, keys, folder_of(config.output, 1)))
    return RunInputs.of(run, open_data(run))


def _goal(config: SearchConfig) -> tuple[str, bool]:
    """Return (the metric that decides, whether higher values are better). Raise ConfigError if there is none."""
    if config.comparison is not None:
        raise config.error("comparison", "is for train: a search decides by its own trials")
    section, manifest = config.search, open_data(config).manifest
    if not manifest.splits["validation"].rows:
        raise config.error(
            "data", f"{config.data} has no validation rows, and a search needs them; prepare it with `validation`"
        )
    names = measured(config.metrics, manifest)
    metric = deciding(section.metric, names)
    if metric not in (LOSS, *names):
        raise config.error(
            "search.metric", f"must be one of {', '.join((LOSS, *names))} (is {metric!r}), or be added to `metrics`"
        )
    higher, better = higher_is_better(metric), section.metric_better
    if higher is None and better is None:
        raise config.error(
            "search.metric_better",
            f"must be lower or higher: whether a higher {metric} is better cannot be told from its name",
        )
    if higher is not None and better is not None and higher != (better == "higher"):
        raise config.error("search.metric_better", f"is {better}, but the opposite is true of {metric}")
    return metric, better == "higher" if higher is None else higher
