"""When a run stops before its last epoch, and which weights it keeps. Only the values of the validations decide.

The rule is that of Keras's EarlyStopping: `patience` validations without an improvement end the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparksplit.training.metric_facts import LOSS, higher_is_better, measured
from sparksplit.training.progress_record import Watched
from sparksplit.training.run_record import Best, StoppedEarly

if TYPE_CHECKING:
    from sparksplit.dataset.manifest import Manifest
    from sparksplit.training.progress_record import Progress
    from sparksplit.training.train_config import EarlyStopConfig, TrainConfig


@dataclass(frozen=True)
class Watch:
    """The watched metric: a metric of the validation rows, or `loss`.

    higher: whether higher values are better.
    patience: validations without an improvement that end the run. None: the run never ends early.
    min_delta: an improvement must be better than the last improvement by more than this.
    """

    metric: str
    higher: bool
    patience: int | None = None
    min_delta: float = 0.0

    def after(self, watched: Watched | None, value: float, epoch: int, update: int) -> Watched:
        """Return the updated values after a validation gave `value`, at this epoch and update.

        A value that is not finite is no improvement. Of equal values, the first is the best. Small steps that are no
        improvements can still lead to a new best value.
        """
        watched = watched or Watched()
        if not math.isfinite(value):
            return replace(watched, waited=watched.waited + 1)
        if watched.best is None or self._is_better(value, watched.best):
            watched = replace(watched, best=value, epoch=epoch, update=update)
        if watched.reference is None or self._is_better(value, watched.reference, self.min_delta):
            return replace(watched, reference=value, waited=0)
        return replace(watched, waited=watched.waited + 1)

    def ends(self, watched: Watched | None) -> bool:
        """Return whether the run ends here."""
        return self.patience is not None and watched is not None and watched.waited >= self.patience

    def _is_better(self, value: float, than: float, by: float = 0.0) -> bool:
        return value > than + by if self.higher else value < than - by


def watch_of(config: TrainConfig, manifest: Manifest) -> Watch | None:
    """Return what a run watches; None for nothing.

    Raise ConfigError if there are no validation rows, if the metric is not measured, or if its better direction is
    unknown.
    """
    stop = config.early_stop
    if stop is None and not config.keeps_best:
        return None
    if not manifest.splits["validation"].rows:
        key = "keep_best" if stop is None else "early_stop"
        raise config.error(key, f"needs validation rows, and {config.data} has none; prepare it with `validation`")
    if stop is None:
        return Watch(LOSS, higher=False)
    known = [LOSS, *measured(config.metrics, manifest)]
    if stop.metric not in known:
        raise config.error(
            "early_stop.metric", f"must be one of {', '.join(known)} (is {stop.metric!r}), or be added to `metrics`"
        )
    return Watch(stop.metric, _higher(config, stop), stop.patience, stop.min_delta)


def stopped_early(watch: Watch | None, progress: Progress, epochs: int) -> StoppedEarly | None:
    """Return where a finished run stopped early; None if it ran to its end. epochs: epochs in the configuration."""
    watched, changed = progress.watched, progress.changed
    if changed is not None and changed.stopped is not None and progress.epochs < epochs:
        return StoppedEarly(progress.epochs, progress.update, None, None, changed.stopped)
    if watch is None or watched is None or not watch.ends(watched) or progress.epochs >= epochs:
        return None
    return StoppedEarly(progress.epochs, progress.update, watch.metric, watched.best)


def best_of(watch: Watch | None, progress: Progress, kept: bool) -> Best | None:
    """Return a finished run's best validation; None if there is none. kept: whether the run keeps that validation's
    weights."""
    watched = progress.watched
    if watch is None or watched is None or watched.best is None:
        return None
    return Best(watch.metric, watched.best, watched.epoch, watched.update, kept)


def _higher(config: TrainConfig, stop: EarlyStopConfig) -> bool:
    known = higher_is_better(stop.metric)
    if known is None and stop.mode is None:
        raise config.error(
            "early_stop.mode",
            f"must be min or max: whether a higher {stop.metric} is better cannot be told from its name",
        )
    if known is not None and stop.mode is not None and known != (stop.mode == "max"):
        better = "higher" if known else "lower"
        raise config.error("early_stop.mode", f"is {stop.mode}, but a {better} {stop.metric} is better")
    return stop.mode == "max" if known is None else known
