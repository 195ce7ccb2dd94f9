"""Outer optimisers: what is made of the averaged change of the weights between two syncs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DEFAULTS = {"none": (1.0, 0.0), "momentum": (1.0, 0.7), "nesterov": (0.7, 0.9)}
"""(learning rate, momentum). momentum: SlowMo's slow learning rate of 1 and a slow momentum from its range. nesterov:
DiLoCo's settings."""


class Outer:
    """Turns averaged changes into the changes to apply; the same on every node.

    none: leaves them as they are (local SGD). momentum: v = m v + d, change r v: SlowMo (Wang et al. 2019, algorithm
    1), in the form where the inner learning rate does not change between syncs. nesterov: v = m v + d, change r (d + m
    v): DiLoCo (Douillard et al. 2023). rate, momentum: None takes those in `DEFAULTS`.

    remembers: whether there are velocities v, which begin at 0; otherwise it leaves the averages as they are.
    """

    def __init__(self, name: str, rate: float | None = None, momentum: float | None = None) -> None:
        self._name = name
        default_rate, default_momentum = DEFAULTS[name]
        self._rate = default_rate if rate is None else rate
        self._momentum = default_momentum if momentum is None else momentum
        self.remembers = name != "none"

    def changes(self, averages: Sequence[Any], velocities: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """(The changes to apply, the new velocities), like the averages: arrays or tensors of floats. velocities: one
        for each average, or none."""
        if not self.remembers:
            return list(averages), list(velocities)
        new = [self._momentum * velocity + average for velocity, average in zip(velocities, averages, strict=True)]
        if self._name == "nesterov":
            leads = [average + self._momentum * velocity for velocity, average in zip(new, averages, strict=True)]
        else:
            leads = new
        return [self._rate * lead for lead in leads], new
