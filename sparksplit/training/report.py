"""Messages about a run for people, and the content of run.json."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from sparksplit.base.errors import Diverged, InputError, SparksplitError
from sparksplit.base.version import __version__
from sparksplit.rows.ledger import Entry
from sparksplit.training import stopping
from sparksplit.training.choice import Choice
from sparksplit.training.progress_record import CurvePoint, EpochRecord, Values
from sparksplit.training.run_record import RUN, Attempt, RunData, RunInit, RunLedger, RunMetrics, RunRecord, RunSync
from sparksplit.training.spent import of_run

if TYPE_CHECKING:
    from sparksplit.dataset.prepared import PreparedDataSet
    from sparksplit.strategies import Strategy
    from sparksplit.training.messages import NodeResult
    from sparksplit.training.train_config import TrainConfig


def diverged(epoch: int, step: int, loss: object, suspect: str | None) -> SparksplitError:
    """Return the error for a loss that is no longer finite. epoch and step count from 1.

    loss: its value, or a text instead.
    suspect: the row at fault, if a row holds a value that is not a number.
    """
    problem = f"epoch {epoch}, step {step}: the loss is {loss}; a smaller optimizer.learning_rate may help"
    return InputError(f"{suspect}, and so {problem}") if suspect else Diverged(problem)


def finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return `values` in a form for JSON: None for values that are not finite numbers, such as a metric of a class
    without rows.

    These values do not end a run. `undefined` finds them again.
    """
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def undefined(values: Mapping[str, float | None]) -> list[str]:
    """Return the names of the values that `finite` has turned into None."""
    return [name for name, value in values.items() if value is None]


def written(values: Mapping[str, float | None], between: str = ", ") -> str:
    """Return the values as text for people, such as: loss 0.5000, accuracy 0.8333"""
    return between.join(f"{name} {'not finite' if value is None else f'{value:.4f}'}" for name, value in values.items())


def begins_with(init: RunInit) -> str:
    """Return a message on which layers begin with which weights."""
    fresh = f"; with new weights: {_few(init.fresh)}" if init.fresh else ""
    return f"init: begins with the weights of {init.file}: {_few(init.layers)}{fresh}"


def copies(collective: str, count: int) -> str:
    """Return a message on what sums outside GPUs cost nodes that compute on GPUs. count: bytes of the trained
    variables."""
    return (
        f"collective: {collective}: up to {count:,} bytes are copied from each GPU to its host, and back, at each "
        "exchange; `collective: tensorflow` sums on the GPUs, with NCCL. Neither has been tested on GPUs"
    )


def _few(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more ({RUN} has all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def by_rows(history: Sequence[EpochRecord]) -> dict[str, list[tuple[int, Values]]]:
    """Return {train, validation: (epoch, values) by round}, without splits that were not measured."""
    measured = {
        "train": [(record.epoch, record.train) for record in history],
        "validation": [(record.epoch, record.validation) for record in history if record.validation is not None],
    }
    return {name: rounds for name, rounds in measured.items() if rounds}


def metrics_by_name(history: Sequence[EpochRecord]) -> dict[str, dict[str, list[float | None]]]:
    """Return {train, validation: {name: values by round}} for run.json; None for a value that is not finite."""
    return {
        name: {key: [values[key] for _, values in rounds] for key in rounds[0][1]}
        for name, rounds in by_rows(history).items()
    }


def learning_curve(history: Sequence[EpochRecord]) -> list[CurvePoint]:
    """Return the loss and the metrics after each round, by passes, updates, steps and seconds of training since the run
    began."""
    curve: list[CurvePoint] = []
    seconds = 0.0
    for record in history:
        seconds += record.seconds.train
        curve.append(
            CurvePoint(
                passes=record.epoch,
                updates=record.updates,
                steps=record.steps,
                seconds=round(seconds, 4),
                train=record.train,
                validation=record.validation,
            )
        )
    return curve


def versions() -> dict[str, str]:
    """Return the versions of everything that a result depends on."""
    names = ("tensorflow", "keras", "numpy", "pyspark", "pyarrow", "tensorflowonspark")
    return {"sparksplit": __version__, **{name: version(name) for name in names}}


def summary(run: RunRecord, output: str) -> Iterator[str]:
    """Yield lines for the terminal at the end of a run."""
    exact = "exact" if run.ledger.exact else "NOT exact"
    epochs = f"{run.stopped_early.epoch} of {run.epochs}" if run.stopped_early is not None else str(run.epochs)
    steps = f" ({run.steps} steps)" if run.steps != run.updates else ""
    yield (
        f"{run.strategy} on {run.nodes} node{'s' if run.nodes > 1 else ''}: {epochs} epochs "
        f"({run.passes} passes), {run.updates} updates{steps}, {run.ledger.rows} rows seen, ledger {exact}"
    )
    yield from _ended(run)
    if run.loss_scale is not None and run.loss_scale.left_out:
        yield f"{run.loss_scale.left_out} of {run.steps} steps were skipped, because gradients overflowed in float16"
    yield f"{run.rows_per_second:,.0f} rows/s, {run.seconds.total:.1f} s in all" + (
        f", {run.sync_bytes_per_node / 1e6:,.1f} MB sent per node" if run.nodes > 1 else ""
    )
    kept = _round_of_the_model(run)
    for name, metrics in (("train", run.metrics.train), ("validation", run.metrics.validation)):
        if metrics is not None:
            yield f"{name:<11}" + written({key: values[kept] for key, values in metrics.items()})
    if run.metrics.test:
        yield f"{'test':<11}" + written(run.metrics.test)
    yield f"model: {filesystem.join(output, 'model.keras')} and {filesystem.join(output, 'saved_model')}"


def _round_of_the_model(run: RunRecord) -> int:
    """Return the index of the round whose weights the model has: the last, or the first with the best validation."""
    best, validation = run.best, run.metrics.validation
    if best is None or not best.kept or validation is None:
        return -1
    return validation[best.metric].index(best.value)


def _ended(run: RunRecord) -> Iterator[str]:
    """Yield why a run ended before its last epoch, and which weights it has kept."""
    stopped, best = run.stopped_early, run.best
    if stopped is not None:
        where = f"stopped early after epoch {stopped.epoch} of {run.epochs}"
        ended = f"validation {stopped.metric} no longer improved" if stopped.callback is None else stopped.callback
        yield f"{where}: {ended}"
    if best is not None:
        weights = "; the model has the weights of this epoch" if best.kept else "; the model has the last weights"
        yield f"best validation: {written({best.metric: best.value})} after epoch {best.epoch}{weights}"


@dataclass(frozen=True)
class Circumstances:
    """The facts about a run that the driver knows and the nodes' results lack."""

    run_id: str
    """The run's identifier."""
    config_hash: str
    """The hash of the configuration."""
    restarts: int
    """Automatic restarts after a failure, over all commands."""
    application_id: str
    """The id of the Spark application."""
    total: float
    """Seconds of the whole run."""
    launched: float = 0.0
    """Seconds of the last attempt until its nodes' processes ran."""
    attempts: list[Attempt] | None = None
    """All attempts, over all commands; None for a run of `compare`."""
    callbacks: list[str] | None = None
    """The names of the callbacks that node 0 ran; None without callbacks."""
    own_model: str | None = None
    """The identity of the user's own model, as in RunRecord."""
    choice: Choice | None = None
    """The number of nodes that `strategy: auto` has chosen."""
    ran: str | None = None
    """Where the nodes' processes ran, as in RunRecord."""


def record(
    config: TrainConfig,
    strategy: Strategy,
    data: PreparedDataSet,
    results: Sequence[NodeResult],
    trained_on: Entry,
    around: Circumstances,
) -> RunRecord:
    """Return the run.json of a training run.

    results: the nodes' results, by rank. All but the first may be in brief.
    trained_on: the ledger entry of the rows of a pass, which each epoch in the ledger must have.
    """
    first = results[0]
    progress, seen = first.progress, first.seen
    history, seconds = progress.history, [each.seconds.train for each in progress.history]
    watch = stopping.watch_of(config, data.manifest)

    return RunRecord(
        run_id=around.run_id,
        config_hash=around.config_hash,
        command="train",
        data=RunData(data.path, data.digest, data.paths if len(data.paths) > 1 else None),
        config=config.model_dump(mode="json"),
        strategy=config.strategy,
        sync=RunSync(
            every=first.sync_every,
            outer=config.sync.outer if strategy.settings and config.sync.outer != "none" else None,
            after=config.sync.after,
        ),
        nodes=config.node_count if config.virtual else len(results),
        virtual=config.virtual,
        input_mode=config.input_mode,
        rows=trained_on.rows,
        batch_size=config.batch_size,
        epochs=config.epochs,
        passes=first.passes,
        updates=progress.update,
        steps=progress.step,
        syncs=progress.syncs,
        sync_bytes_per_node=progress.sync_bytes,
        ledger=RunLedger(seen.total.rows, str(seen.total.checksum), seen.exact(trained_on)),
        seconds=of_run([result.seconds for result in results], around.launched, around.total),
        rows_per_second=round(sum(each.rows for each in history) / max(1e-9, sum(seconds)), 1),
        metrics=RunMetrics(**metrics_by_name(history), test=first.test or {}),
        resumed=progress.resumed,
        weights=first.weights,
        hosts=[result.host for result in results],
        versions=versions(),
        restarts=around.restarts,
        application_id=around.application_id,
        attempts=around.attempts,
        stopped_early=stopping.stopped_early(watch, progress, config.epochs),
        best=stopping.best_of(watch, progress, config.keeps_best),
        init=first.init,
        loss_scale=first.loss_scale,
        threads=first.threads,
        collective=first.collective,
        choice=around.choice,
        ran=around.ran,
        callbacks=around.callbacks,
        own_model=around.own_model,
    )
