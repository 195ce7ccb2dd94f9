"""A search that is checked: everything that the user can have got wrong is known before Spark starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hdfs_io.differences import differences, said
from sparksplit.base.config import digest
from sparksplit.base.errors import UsageError
from sparksplit.base.records import Json
from sparksplit.searching import space
from sparksplit.searching.search_config import SearchConfig
from sparksplit.searching.search_record import folder_of
from sparksplit.searching.space import trial_config
from sparksplit.spark.session import known_settings
from sparksplit.spark.settings.requirements import has_executors, raise_first, run_problems
from sparksplit.training import onnx_file
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.metric_facts import LOSS, deciding, higher_is_better, measured
from sparksplit.training.own_models import with_compiled
from sparksplit.training.tracking.tracker import tracking
from sparksplit.training.train_config import TrainConfig


@dataclass(frozen=True)
class Checked:
    """A search and what its configuration names.

    metric, higher: the metric of the validation rows that decides, and whether higher values are better.
    needed: the numbers of (processes, executors that feed them) that trials may have.
    hash, paths, keys: of the output, as for `Output`.
    models: keeps the user's own models, so that a file is read once.
    """

    config: SearchConfig
    metric: str
    higher: bool
    needed: frozenset[tuple[int, int]]
    hash: str
    paths: Mapping[str, str]
    keys: Mapping[str, Any]
    models: list[Any] = field(repr=False, default_factory=list)

    @property
    def executors(self) -> int:
        """The most executors that a trial may need."""
        return max(map(sum, self.needed))

    def check_unchanged(self) -> None:
        """Raise UsageError if the data or the user's files have changed since the search was checked. Reads them
        anew."""
        now = checked(self.config)
        if now.hash != self.hash:
            raise UsageError(
                f"{self.config.output}: the data or files have changed since the search began"
                f"{said(differences(self.keys, now.keys))}; restore them and repeat the command, or begin anew with "
                "--overwrite"
            )


def checked(config: SearchConfig) -> Checked:
    """Return the checked search. Raise UsageError for the user's mistakes, also in values that trials may get.

    Each extreme value of each key is checked as `train` checks it. Combinations of values are checked by their types
    and ranges: all of them, or all pairs if there are too many.
    """
    section = config.search
    if config.comparison is not None:
        raise config.error("comparison", "is for train: a search decides by its own trials")
    space.check_keys(config)
    inputs = [_inputs(config, keys) for keys in space.singles(section.keys)]
    metric, higher = _goal(config, inputs)
    space.check_loss(config, metric)
    runs = [trial_config(config, keys, folder_of(config.output, 1)) for keys in space.corners(section.keys)]
    _check_nodes(config, runs)
    onnx_file.check(config, inputs[0].data.description)
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
        frozenset((run.processes, run.feeders) for run in (*(one.config for one in inputs), *runs)),
        digest({"command": "search", "runs": [one.hash() for one in inputs], "seed": config.seed, **what}),
        {**_merged([one.paths for one in inputs]), **config.own_file},
        {
            **inputs[0].keys,
            **_merged([one.contents for one in inputs]),
            **{f"search.{key}": value for key, value in what.items()},
        },
        [one.own for one in inputs],
    )


def check_around(known: Checked) -> None:
    """Raise UsageError if Spark's settings or MLflow's store are in the way of a trial, before Spark starts."""
    tracking(known.config)
    settings = known_settings()
    if has_executors(settings):
        for nodes, feeders in sorted(known.needed):
            raise_first(run_problems(settings, nodes, feeders))


def _check_nodes(config: SearchConfig, runs: Sequence[TrainConfig]) -> None:
    """Raise ConfigError for numbers of nodes that change while a trial runs."""
    key = "search.keys.strategy" if "strategy" in config.search.keys else "strategy"
    if any(run.strategy == "auto" for run in runs):
        raise config.error(key, "must not be auto in a search: trials side by side would disturb its measurement")
    if (config.search.side_by_side or 1) > 1 and any(run.min_nodes is not None for run in runs):
        raise config.error(
            "min_nodes", "needs search.side_by_side: 1, because trials would take each other's executors"
        )


def _merged(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the different values of several mappings, by key. A key's further values have their number behind it."""
    found: dict[str, list[Any]] = {}
    for key, value in (item for one in each for item in one.items()):
        if value not in found.setdefault(key, []):
            found[key].append(value)
    return {
        f"{key} {number}" if number > 1 else key: value
        for key, values in found.items()
        for number, value in enumerate(values, start=1)
    }


def _inputs(config: SearchConfig, keys: Mapping[str, Json]) -> RunInputs:
    """Return what a trial with these values trains from. Raise UsageError as `train` does."""
    run, _own = with_compiled(trial_config(config, keys, folder_of(config.output, 1)))
    return RunInputs.of(run, open_data(run))


def _goal(config: SearchConfig, inputs: Sequence[RunInputs]) -> tuple[str, bool]:
    """Return (the metric that decides, whether higher values are better). Raise ConfigError if there is none.

    inputs: of trials, with the metrics that the user's own model was compiled with.
    """
    section, manifest = config.search, inputs[0].data.manifest
    if not manifest.splits["validation"].rows:
        raise config.error(
            "data", f"{config.data} has no validation rows, and a search needs them; prepare it with `validation`"
        )
    metric = deciding(section.metric, measured(inputs[0].config.metrics, manifest))
    for one in inputs:
        names = measured(one.config.metrics, manifest)
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
