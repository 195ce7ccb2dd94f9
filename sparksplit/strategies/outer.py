"""Outer optimisers: they turn the averaged change of the weights between two syncs into the change to apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DEFAULTS = {"none": (1.0, 0.0), "momentum": (1.0, 0.7), "nesterov": (0.7, 0.9)}
"""(learning rate, momentum) of each outer optimiser. momentum: SlowMo's slow learning rate of 1, and a slow momentum
from SlowMo's range. nesterov: DiLoCo's settings."""


class Outer:
    """Turns averaged changes d into the changes to apply, the same on every node.

    none: apply d (local SGD).
    momentum: v = m v + d, apply r v. SlowMo (Wang et al. 2019, algorithm 1), in the form for an inner learning rate
        that does not change between syncs.
    nesterov: v = m v + d, apply r (d + m v). DiLoCo (Douillard et al. 2023).

    rate, momentum: learning rate r and momentum m. None: the value in `DEFAULTS`.
    remembers: whether there are velocities v, which begin at 0. Without velocities, the averages do not change.
    """

    def __init__(self, name: str, rate: float | None = None, momentum: float | None = None) -> None:
        self._name = name
        default_rate, default_momentum = DEFAULTS[name]
        self._rate = default_rate if rate is None else rate
        self._momentum = default_momentum if momentum is None else momentum
        self.remembers = name != "none"

    def changes(self, averages: Sequence[Any], velocities: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return (changes to apply, new velocities). Both are like `averages`: arrays or tensors of floats.

        velocities: one for each average, or empty without velocities.
        """
        if not self.remembers:
            return list(averages), list(velocities)
        new = [self._momentum * velocity + average for velocity, average in zip(velocities, averages, strict=True)]
        if self._name == "nesterov":
            leads = [average + self._momentum * velocity for velocity, average in zip(new, averages, strict=True)]
        else:
            leads = new
        return [self._rate * lead for lead in leads], new
