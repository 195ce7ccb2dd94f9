"""Which trials end early: the median rule of Optuna's MedianPruner.

A trial gets its bars, one for each epoch, when it begins. So its decisions do not depend on the trials beside it, and a
resumed trial makes the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from sparksplit.searching.search_record import Trial

NAME = "search.prune"
"""The name of the callback in a run's record."""
_FIRST = 5
"""Complete trials before the first bar, as in Optuna."""


def bars(trials: Sequence[Trial]) -> dict[int, float]:
    """Return for each epoch the median of the complete trials; empty while there are too few of them."""
    complete = [trial.by_epoch for trial in trials if trial.state == "complete"]
    if len(complete) < _FIRST:
        return {}
    epochs = sorted({epoch for one in complete for epoch in one})
    values = {epoch: [value for one in complete if (value := one.get(epoch)) is not None] for epoch in epochs}
    return {epoch: median(some) for epoch, some in values.items() if some}


class Prune:
    """A callback of node 0 that ends the run at the end of an epoch if its best validation so far is worse than the
    epoch's bar.

    It has the methods of a `keras.callbacks.Callback` that changes training, without Keras, which the driver need not
    import.

    metric: a metric of the validation rows. higher: whether higher values are better. bars: by epoch, counted from 1.
    """

    def __init__(self, metric: str, higher: bool, bars: Mapping[int, float]) -> None:
        self.metric, self.higher = metric, higher
        self.bars = {str(epoch): bar for epoch, bar in bars.items()}
        self._model: Any = None
        self._best: float | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Do nothing: no parameter is needed."""

    def set_model(self, model: Any) -> None:
        """Take the model, whose `stop_training` ends the run."""
        self._model = model

    def on_train_begin(self, logs: Mapping[str, float]) -> None:
        """Begin without a value."""
        self._best = None

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Do nothing."""

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """End the run if it is worse than the bar. epoch: counted from 0."""
        value = logs[f"val_{self.metric}"]
        if not math.isnan(value):
            better = max if self.higher else min
            self._best = value if self._best is None else better(self._best, value)
        bar = self.bars.get(str(epoch + 1))
        if bar is not None and self._is_worse(bar):
            self._model.stop_training = True

    def on_train_end(self, logs: Mapping[str, float]) -> None:
        """Do nothing."""

    def get_state(self) -> dict[str, float | None]:
        """Return the state for a checkpoint."""
        return {"best": self._best}

    def set_state(self, state: Mapping[str, float | None]) -> None:
        """Take the state of a checkpoint."""
        self._best = state["best"]

    def _is_worse(self, bar: float) -> bool:
        if self._best is None:
            return True
        return self._best < bar if self.higher else self._best > bar
