"""The callbacks of a call of `sparksplit.train`: checked, and made ready for the nodes."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparksplit.base.config import digest
from sparksplit.base.errors import ConfigError
from sparksplit.training.callbacks.keras_own import mapped
from sparksplit.training.callbacks.own import STATES, identity, is_changing, keras_name
from sparksplit.training.callbacks.sent import Sent
from sparksplit.training.metric_facts import LOSS, higher_is_better, measured

if TYPE_CHECKING:
    from sparksplit.dataset.manifest import Manifest
    from sparksplit.training.progress_record import EpochRecord
    from sparksplit.training.train_config import TrainConfig


@dataclass(frozen=True)
class Ready:
    """Callbacks that fit their run.

    sent: for node 0. identity: a digest of the callbacks that change training; None if none does.
    """

    sent: Sent
    identity: str | None


@dataclass(frozen=True)
class Given:
    """The callbacks that node 0 runs, each with its name, and the History objects to fill after the run."""

    runs: Sequence[tuple[str, Any]] = ()
    histories: Sequence[Any] = ()

    @classmethod
    def of(cls, callbacks: Sequence[Any], values: Mapping[str, Any], output: str) -> tuple[Given, dict[str, Any]]:
        """Return the callbacks, and the configuration's keys that do what others of Keras's own do.

        values: the user's own values, by the configuration's top keys. output: the run's folder.
        Raise ConfigError for a callback that a run cannot do exactly.
        """
        if not isinstance(callbacks, list | tuple):
            raise ConfigError(f"callbacks: must be a list of callbacks (is {type(callbacks).__name__})")
        found = mapped(callbacks, values, output)
        return cls(found.runs, found.histories), found.keys

    def ready(self, config: TrainConfig, manifest: Manifest) -> Ready | None:
        """Return the callbacks for a run; None without callbacks for node 0. Raise ConfigError if one does not fit."""
        if not self.runs:
            return None
        fitted = [(name, _fitted(name, callback, config, manifest)) for name, callback in self.runs]
        changing, of_changing = [is_changing(callback) for _, callback in fitted], []
        for (name, callback), changes in zip(fitted, changing, strict=True):
            if changes:
                try:
                    of_changing.append(identity(callback))
                except ValueError as error:
                    raise ConfigError(
                        f"{name}: changes training, so it is part of the run's identity, but {error}"
                    ) from error
        return Ready(Sent.of(fitted, changing), digest(of_changing) if of_changing else None)

    def fill(self, history: Sequence[EpochRecord]) -> None:
        """Give the rounds of a finished run to Keras's History objects."""
        for each in self.histories:
            each.epoch, each.history = [record.epoch - 1 for record in history], {}
            for record in history:
                for name, value in logs_of(record).items():
                    each.history.setdefault(name, []).append(value)


def logs_of(record: EpochRecord) -> dict[str, float]:
    """Return a round's loss and metrics as Keras names them: loss, accuracy, val_loss, val_accuracy. A value that is
    not finite is NaN."""
    values = {**record.train, **{f"val_{name}": value for name, value in (record.validation or {}).items()}}
    return {name: math.nan if value is None else value for name, value in values.items()}


def _fitted(name: str, callback: Any, config: TrainConfig, manifest: Manifest) -> Any:
    """Return a callback for the run. Of Keras's own that set the learning rate, check that the run can do it."""
    if keras_name(callback) not in STATES:
        return callback
    if isinstance(config.optimizer.learning_rate, dict):
        raise config.error("optimizer.learning_rate", f"must be a number with {name}, which sets the learning rate")
    if keras_name(callback) != "ReduceLROnPlateau":
        return callback
    names = [LOSS, *measured(config.metrics, manifest)]
    held = [f"val_{each}" for each in names] if manifest.splits["validation"].rows else []
    if callback.monitor not in (known := [*names, *held]):
        without = "" if held else "; the data set has no validation rows"
        raise ConfigError(f"{name}: monitor must be one of {', '.join(known)} (is {callback.monitor!r}){without}")
    fitted = copy.copy(callback)
    # Keras's own `fit` leaves a sign in min_delta, and an operation that expects it. Keras makes both anew.
    fitted.min_delta, fitted.monitor_op = abs(callback.min_delta), None
    if callback.mode == "auto":
        # Keras derives the mode from the metrics of a compiled model.
        higher = higher_is_better(callback.monitor.removeprefix("val_"))
        if higher is None:
            raise ConfigError(f"{name}: mode must be min or max: the name {callback.monitor!r} does not decide it")
        fitted.mode = "max" if higher else "min"
    return fitted
