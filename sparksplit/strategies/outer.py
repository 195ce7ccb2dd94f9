"""Outer optimisers: what is made of the averaged change of the weights between two syncs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DEFAULTS = {"none": (1.0, 0.0), "momentum": (1.0, 0.7), "nesterov": (0.7, 0.9)}
"""(learning rate, momentum). momentum: SlowMo's slow learning rate of 1 and a slow momentum from its range. nesterov:
DiLoCo's settings."""


class Outer:
    """Turns averaged changes into the changes to apply; the same on every node.

    none: leaves them as they are (local SGD). momentum: v = m v + d, change r v: SlowMo (Wang et al. 2019, algorithm
    1), in the form where the inner learning rate does not change between syncs. nesterov: v = m v + d, change r (d + m
    v): DiLoCo (Douillard et al. 2023). rate, momentum: None takes those in `DEFAULTS`.
    """

    def __init__(self, name: str, rate: float | None = None, momentum: float | None = None) -> None:
        self._name = name
        default_rate, default_momentum = DEFAULTS[name]
        self._rate = default_rate if rate is None else rate
        self._momentum = default_momentum if momentum is None else momentum
        self._velocity: list[Array] = []

    def changes(self, averages: Sequence[Array]) -> list[Array]:
        """The changes to apply, with the averages' shapes and dtypes."""
        if self._name == "none":
            return list(averages)
        if not self._velocity:
            self._velocity = [np.zeros_like(average) for average in averages]
        changes = []
        for place, average in enumerate(averages):
            velocity = self._velocity[place] = self._momentum * self._velocity[place] + average
            lead = average + self._momentum * velocity if self._name == "nesterov" else velocity
            changes.append((self._rate * lead).astype(average.dtype))
        return changes

    def state(self) -> dict[str, Array]:
        """For a checkpoint."""
        return {f"u{place:04d}": velocity for place, velocity in enumerate(self._velocity)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `state` returned, which may be among other arrays."""
        self._velocity = [np.array(arrays[name]) for name in sorted(arrays) if name[0] == "u"]
