"""Keras metrics over all nodes. Each node updates them with its own rows, and they are summed when they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.collectives import Collective

Array = npt.NDArray[Any]
_MOST_BYTES = 16 << 20
"""Largest size of all nodes' states in a checkpoint, in bytes."""


class Metrics:
    """Keras metrics of a run. metrics: new Keras metrics by name."""

    def __init__(self, metrics: Mapping[str, Any]) -> None:
        self._metrics = metrics

    def update(self, labels: Any, outputs: Any, weights: Any = None) -> None:
        """Take in the model's outputs for some rows. This also works inside a graph. weights: the weight of each row;
        None: 1."""
        weighted = {} if weights is None else {"sample_weight": weights}
        for metric in self._metrics.values():
            metric.update_state(labels, outputs, **weighted)

    def reset(self) -> None:
        """Forget all rows."""
        for metric in self._metrics.values():
            metric.reset_state()

    def variables(self) -> list[Any]:
        """Return the variables that `update` changes. All of them exist after its first call."""
        return [variable for metric in self._metrics.values() for variable in metric.variables]

    def results(self, collective: Collective) -> dict[str, float]:
        """Return the values over all nodes' rows since the last reset, then reset. Every node must call this."""
        variables = self.variables()
        for variable, value in zip(variables, self._summed(collective), strict=True):
            variable.assign(value)
        results = {name: float(np.mean(metric.result())) for name, metric in self._metrics.items()}
        self.reset()
        return results

    def states(self) -> dict[str, list[Array]]:
        """Return, by metric, the sums over this node's rows since the last reset."""
        return {
            name: [np.array(variable.numpy()) for variable in metric.variables]
            for name, metric in self._metrics.items()
        }

    def value_of(self, name: str, state: Sequence[Array]) -> float:
        """Return the metric's value if its sums are `state`. Reset all metrics afterwards."""
        metric = self._metrics[name]
        for variable, value in zip(metric.variables, state, strict=True):
            variable.assign(value)
        return float(np.mean(metric.result()))

    def sums(self, collective: Collective) -> dict[str, Array]:
        """Return each node's state, [nodes, ...], for a checkpoint. Every node must call this.

        If these states would be large, return their sum over all nodes. The sum goes on in one node, so the last digits
        of the same run would then differ.
        """
        arrays = [np.asarray(variable.numpy()) for variable in self.variables()]
        if collective.size * sum(array.nbytes for array in arrays) > _MOST_BYTES:
            states = self._summed(collective)
        else:
            by_rank = [np.zeros((collective.size, *array.shape), array.dtype) for array in arrays]
            for each, array in zip(by_rank, arrays, strict=True):
                each[collective.rank] = array
            states = collective.sum(by_rank)
        return {f"m{place:04d}": np.array(value) for place, value in enumerate(states)}

    def restore(self, sums: Mapping[str, Array], collective: Collective) -> None:
        """Go on from the result of `sums`. With another number of nodes, rank 0 takes the counts of all nodes."""
        rank, size = collective.rank, collective.size
        for place, variable in enumerate(self.variables()):
            state = sums[f"m{place:04d}"]
            if state.ndim > len(variable.shape) and len(state) == size:
                variable.assign(state[rank])
            elif rank == 0:
                variable.assign(state.sum(axis=0, dtype=state.dtype) if state.ndim > len(variable.shape) else state)

    def _summed(self, collective: Collective) -> list[Array]:
        return collective.sum([np.asarray(variable.numpy()) for variable in self.variables()])
