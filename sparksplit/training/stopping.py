"""When a run stops before its last epoch, and which weights it keeps: decided from the validations' values alone.

The rule is that of Keras's EarlyStopping: so many validations without an improvement end the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparksplit.training.metrics import LOSS, higher_is_better, measured
from sparksplit.training.progress_record import Watched
from sparksplit.training.record import Best, StoppedEarly

if TYPE_CHECKING:
    from sparksplit.dataset.manifest import Manifest
    from sparksplit.training.config import EarlyStopConfig, TrainConfig
    from sparksplit.training.progress_record import Progress


@dataclass(frozen=True)
class Watch:
    """What is watched: a metric of the validation rows, or `loss`.

    higher: whether higher values are better. patience: validations without an improvement that end the run; None: it
    never ends early. min_delta: an improvement is better than the last one by more than this.
    """

    metric: str
    higher: bool
    patience: int | None = None
    min_delta: float = 0.0

    def after(self, watched: Watched | None, value: float, epoch: int, update: int) -> Watched:
        """What has been seen once a validation gave `value`, after that epoch and update.

        A value that is not finite is no improvement. Of equal values the first is the best. The best is the very best:
        small steps, none of which counts as an improvement, can lead to it.
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
        """Whether the run ends here."""
        return self.patience is not None and watched is not None and watched.waited >= self.patience

    def _is_better(self, value: float, than: float, by: float = 0.0) -> bool:
        return value > than + by if self.higher else value < than - by


def watch_of(config: TrainConfig, manifest: Manifest) -> Watch | None:
    """What a run watches; None for nothing.

    Raises ConfigError if there are no validation rows, no such metric, or no telling which of its values are better.
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
    """Where a finished run stopped; None if it ran to its end. epochs: how many were asked for."""
    watched = progress.watched
    if watch is None or watched is None or not watch.ends(watched) or progress.epochs >= epochs:
        return None
    return StoppedEarly(progress.epochs, progress.update, watch.metric, watched.best)


def best_of(watch: Watch | None, progress: Progress, kept: bool) -> Best | None:
    """A finished run's best validation; None if there is none. kept: whether the run keeps the weights that it had."""
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
