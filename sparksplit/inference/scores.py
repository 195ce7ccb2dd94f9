"""How good predictions are: sums that executors count and the driver adds up, never averages of averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

_EPSILON = 1e-7
"""Keras's own: a probability of 0 costs -log(1e-7)."""


@dataclass
class ClassScores:
    """A classifier's. Instead of a confusion matrix, counts by class: what is there, what was predicted, what was
    right.

    Where a row has several labels, everything but `rows` counts labels.
    """

    rows: int = 0
    log_loss: float = 0.0
    """Sum of -log(probability of the label's class)"""
    labelled: list[int] = field(default_factory=list)
    predicted: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    def update(
        self, label: npt.NDArray[np.int64], prediction: npt.NDArray[np.int64], probabilities: npt.NDArray[np.float64]
    ) -> None:
        """Add rows. label, prediction: class indices [rows, ...]; probabilities [rows, ..., classes]"""
        classes = probabilities.shape[-1]
        self.rows += len(label)
        label, prediction = label.ravel(), prediction.ravel()
        own = probabilities.reshape(-1, classes)[np.arange(len(label)), label]
        self.log_loss = math.fsum((self.log_loss, *-np.log(np.clip(own, _EPSILON, 1 - _EPSILON))))
        for counts, found in (
            (self.labelled, label),
            (self.predicted, prediction),
            (self.right, label[label == prediction]),
        ):
            counts[:] = _added(counts, np.bincount(found, minlength=classes).tolist())

    def add(self, other: ClassScores) -> None:
        """Add another's sums."""
        self.rows += other.rows
        self.log_loss += other.log_loss
        self.labelled = _added(self.labelled, other.labelled)
        self.predicted = _added(self.predicted, other.predicted)
        self.right = _added(self.right, other.right)

    def summary(self) -> dict[str, float]:
        """rows, accuracy and log_loss."""
        labels = sum(self.labelled)
        return {"rows": self.rows, "accuracy": sum(self.right) / labels, "log_loss": self.log_loss / labels}

    def by_class(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """For each class: its name, how many rows have it, how many were predicted to, and how many both."""
        columns = zip(names, self.labelled, self.predicted, self.right, strict=True)
        return [dict(zip(("class", "rows", "predicted", "correct"), column, strict=True)) for column in columns]


@dataclass
class NumberScores:
    """A regression's."""

    rows: int = 0
    absolute: float = 0.0
    squared: float = 0.0

    def update(self, label: npt.NDArray[Any], prediction: npt.NDArray[Any]) -> None:
        """Add rows: labels and predictions [rows]."""
        errors = prediction.astype(np.float64) - label.astype(np.float64)
        self.rows += len(label)
        self.absolute = math.fsum((self.absolute, *np.abs(errors)))
        self.squared = math.fsum((self.squared, *np.square(errors)))

    def add(self, other: NumberScores) -> None:
        """Add another's sums."""
        self.rows += other.rows
        self.absolute += other.absolute
        self.squared += other.squared

    def summary(self) -> dict[str, float]:
        """rows, mean_absolute_error and mean_squared_error."""
        return {
            "rows": self.rows,
            "mean_absolute_error": self.absolute / self.rows,
            "mean_squared_error": self.squared / self.rows,
        }


Scores = ClassScores | NumberScores


def to_json(scores: Scores) -> dict[str, Any]:
    """The sums, JSON-able and without loss."""
    return asdict(scores)


def from_json(values: dict[str, Any]) -> Scores:
    """The inverse of `to_json`."""
    return ClassScores(**values) if "log_loss" in values else NumberScores(**values)


def _added(counts: Sequence[int], more: Sequence[int]) -> list[int]:
    if not counts or not more:
        return list(counts or more)
    return [count + other for count, other in zip(counts, more, strict=True)]
