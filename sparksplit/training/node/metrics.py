"""Keras metrics over all nodes: each node updates them with its own rows, and they are summed when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.collectives import Collective

Array = npt.NDArray[Any]


class Metrics:
    """metrics: fresh keras metrics by name."""

    def __init__(self, metrics: Mapping[str, Any]) -> None:
        self._metrics = metrics

    def update(self, labels: Any, outputs: Any, weights: Any = None) -> None:
        """Take in what the model made of some rows; also works inside a graph. weights: what each counts; None: 1."""
        weighted = {} if weights is None else {"sample_weight": weights}
        for metric in self._metrics.values():
            metric.update_state(labels, outputs, **weighted)

    def reset(self) -> None:
        """Forget all rows."""
        for metric in self._metrics.values():
            metric.reset_state()

    def variables(self) -> list[Any]:
        """What `update` changes; all of them exist after its first call."""
        return [variable for metric in self._metrics.values() for variable in metric.variables]

    def results(self, collective: Collective) -> dict[str, float]:
        """The values over all nodes' rows since the last reset; then resets. Every node must call it."""
        variables = self.variables()
        for variable, value in zip(variables, self._summed(collective), strict=True):
            variable.assign(value)
        results = {name: float(np.mean(metric.result())) for name, metric in self._metrics.items()}
        self.reset()
        return results

    def sums(self, collective: Collective) -> dict[str, Array]:
        """The state, summed over all nodes, for a checkpoint. Every node must call it."""
        return {f"m{place:04d}": np.array(value) for place, value in enumerate(self._summed(collective))}

    def restore(self, sums: Mapping[str, Array]) -> None:
        """Go on from what `sums` returned."""
        for place, variable in enumerate(self.variables()):
            variable.assign(sums[f"m{place:04d}"])

    def _summed(self, collective: Collective) -> list[Array]:
        return collective.sum([np.asarray(variable.numpy()) for variable in self.variables()])
