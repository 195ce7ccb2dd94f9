"""What the records of all runs say together: the content of results.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparksplit.base.version import __version__
from sparksplit.comparison import answer, calibration, scale
from sparksplit.comparison.analysis.analyse import analyse
from sparksplit.comparison.analysis.runs import AnyRun, finished, timed
from sparksplit.comparison.analysis.verdicts import level_at
from sparksplit.comparison.config import CompareConfig
from sparksplit.comparison.content import FORMAT_VERSION, Answer, DataFacts, Deciding, Epochs, Results
from sparksplit.comparison.machine import machine
from sparksplit.comparison.record import Measured
from sparksplit.comparison.tuning.record import Tuning
from sparksplit.dataset.manifest import Manifest
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training import metrics, report
from sparksplit.training.config import TrainConfig


def results(
    config: CompareConfig,
    run: TrainConfig,
    data: PreparedDataSet,
    records: Sequence[AnyRun],
    references: Sequence[AnyRun],
    measured: Measured,
    created: str,
    config_hash: str,
    seeds: int,
    tuning: Tuning | None = None,
) -> Results:
    """The content of results.json.

    run: any run's configuration. records: those of all runs that are compared, including diverged ones; references:
    those of the others. created: when, in ISO 8601. config_hash: the output's. seeds: how
    many were run. tuning: what the runs' own values come from.
    """
    manifest = data.manifest
    level = level_at(config.looks, seeds)
    found = analyse(records, references, deciding(config, manifest), config.margin, config.target, level)
    trained = finished(found.runs)
    real, virtual = ([record for record in trained if record.virtual == which] for which in (False, True))
    model = calibration.cost_model(found.table, timed(real, found.place), virtual, measured)
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
        metric=found.metric,
        epochs=Epochs(
            config.epochs,
            run.epochs,
            None if run.epochs == config.epochs else "every number of nodes must divide them",
        ),
        seeds=[config.seed + place for place in range(seeds)],
        looks=config.looks,
        nodes=config.nodes,
        target=found.target,
        grid=found.grid,
        place=found.place,
        machine=machine(measured.gpus or []),
        versions=report.versions(),
        runs=real,
        virtual=virtual,
        diverged=[record for record in found.runs if record.diverged is not None],
        references=found.references,
        table=found.table,
        pairs=found.pairs,
        times=found.times,
        frontier=found.frontier,
        cost_model=model,
        scale=scale.scale(found.table, model),
        answer=Answer([], "", ""),
        tuning=tuning,
    )
    return replace(whole, answer=answer.answer(whole))


def deciding(config: CompareConfig, manifest: Manifest) -> Deciding:
    """What decides, on which rows, and which of its values are better.

    Raises ConfigError if no run measures it, or if its direction cannot be told or is given wrongly.
    """
    names = metrics.measured(config.metrics, manifest)
    if config.metric not in (None, metrics.LOSS, *names):
        known = ", ".join([metrics.LOSS, *names])
        raise config.error("metric", f"must be one of {known} (is {config.metric!r})")
    name, better = metrics.deciding(config.metric, names), config.metric_better
    higher = metrics.higher_is_better(name)
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
        resolution=metrics.resolution(name, metrics.Labels.of(manifest, split)),
    )
