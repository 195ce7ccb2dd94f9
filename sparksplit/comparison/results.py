"""Make the content of results.json from the records of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparksplit.base.config import Config, merged
from sparksplit.base.records import JsonObject
from sparksplit.base.version import __version__
from sparksplit.comparison import calibration, scale
from sparksplit.comparison.analysis.analyse import analyse
from sparksplit.comparison.analysis.runs import AnyRun, finished, timed
from sparksplit.comparison.analysis.verdicts import level_at
from sparksplit.comparison.answer.content import NO_ANSWER
from sparksplit.comparison.answer.decide import answer
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.comparison_record import Measured
from sparksplit.comparison.content import FORMAT_VERSION, DataFacts, Deciding, Epochs, Results
from sparksplit.comparison.machine import machine
from sparksplit.comparison.plan import Run
from sparksplit.comparison.tuning.tuning_record import Tuning
from sparksplit.dataset.manifest import Manifest
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training import metric_facts, report
from sparksplit.training.train_config import TrainConfig


def results(
    config: CompareConfig,
    planned: Sequence[Run],
    data: PreparedDataSet,
    records: Sequence[AnyRun],
    references: Sequence[AnyRun],
    measured: Measured,
    created: str,
    config_hash: str,
    seeds: int,
    tuning: Tuning | None = None,
    earlier: Sequence[int] = (),
) -> Results:
    """Return the content of results.json.

    planned: all runs of the plan. records: the records of all compared runs, including diverged runs. references: the
    records of the reference runs. created: the time, in ISO 8601. config_hash: the output's hash. seeds: the number of
    seeds that were run. tuning: the hyperparameter search. earlier: the numbers of seeds of the finished comparisons
    that this comparison continues.
    """
    manifest = data.manifest
    level = level_at(config.looks, seeds)
    analysis = analyse(records, references, deciding(config, manifest), config.margin, config.target, level)
    trained = finished(analysis.runs)
    real, virtual = ([record for record in trained if record.virtual == which] for which in (False, True))
    settings = {run.group: settings_of(run.config, config) for run in planned if not run.reference}
    table = [replace(row, settings=settings.get((row.name, row.nodes, row.virtual), {})) for row in analysis.table]
    epochs = planned[0].config.epochs
    here, sums = measured.at(analysis.place), measured.sums(analysis.place)
    model = calibration.cost_model(analysis.table, timed(real, analysis.place), virtual, sums)
    whole = Results(
        format_version=FORMAT_VERSION,
        command="compare",
        sparksplit=__version__,
        created=created,
        config_hash=config_hash,
        config=config.model_dump(mode="json"),
        data=DataFacts(
            data.path,
            data.digest,
            {name: split.rows for name, split in manifest.splits.items()},
            manifest.dependent,
        ),
        model=config.model.build,
        metric=analysis.metric,
        epochs=Epochs(
            config.epochs,
            epochs,
            None if epochs == config.epochs else "every number of nodes must divide them",
        ),
        seeds=[config.seed + place for place in range(seeds)],
        looks=config.looks,
        nodes=config.nodes,
        target=analysis.target,
        grid=analysis.grid,
        place=analysis.place,
        machine=machine(here[0].gpus if here else []),
        versions=report.versions(),
        runs=real,
        virtual=virtual,
        diverged=[record for record in analysis.runs if record.diverged is not None],
        references=analysis.references,
        table=table,
        pairs=analysis.pairs,
        times=analysis.times,
        cost_model=model,
        scale=scale.scale(analysis.table, model),
        answer=NO_ANSWER,
        tuning=tuning,
        earlier=list(earlier),
        within=config.within,
    )
    return replace(whole, answer=answer(whole))


def settings_of(run: TrainConfig, config: CompareConfig) -> JsonObject:
    """Return the keys of `train` in which a run differs from the comparison's configuration, by dotted key.

    `strategy` and `nodes` are always included. `epochs` is included if the comparison raised it for equal passes.
    """
    settings = dict(_dotted(run.model_dump(mode="json", exclude={"seed", "output"})))
    defaults = {
        key: field.get_default(call_default_factory=True)
        for key, field in TrainConfig.model_fields.items()
        if not field.is_required()
    }
    plain = {
        key: value.model_dump(mode="json") if isinstance(value, Config) else value for key, value in defaults.items()
    }
    shared = dict(_dotted(merged(plain, config.model_dump(mode="json", exclude={"nodes"}))))
    always = ("strategy", "nodes", "nodes.virtual")
    # A null that replaces a mapping is a difference, although `shared` has only the keys within the mapping.
    return {key: value for key, value in settings.items() if key in always or key not in shared or value != shared[key]}


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings by dotted key. A mapping with dots in its keys, such as a label 1.5, is a value."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value and not any("." in name for name in value):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def deciding(config: CompareConfig, manifest: Manifest) -> Deciding:
    """Return the metric that decides, the split that it is computed on, and whether higher values are better.

    Raise ConfigError if no run measures the metric, or if `metric_better` is missing or wrong.
    """
    names = metric_facts.measured(config.metrics, manifest)
    if config.metric not in (None, metric_facts.LOSS, *names):
        known = ", ".join([metric_facts.LOSS, *names])
        raise config.error("metric", f"must be one of {known} (is {config.metric!r})")
    name, better = metric_facts.deciding(config.metric, names), config.metric_better
    higher = metric_facts.higher_is_better(name)
    if higher is None and better is None:
        raise config.error(
            "metric_better", f"must be lower or higher: whether a higher {name} is better cannot be told from its name"
        )
    if higher is not None and better is not None and higher != (better == "higher"):
        raise config.error("metric_better", f"is {better}, but a {'higher' if higher else 'lower'} {name} is better")
    split = "test" if manifest.splits["test"].rows else "validation"
    return Deciding(
        name=name,
        higher_is_better=better == "higher" if higher is None else higher,
        split=split,
        resolution=metric_facts.resolution(name, metric_facts.Labels.of(manifest, split, config.metric_weights)),
    )
