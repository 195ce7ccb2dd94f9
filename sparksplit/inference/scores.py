"""Scores of predictions as sums. Executors count the sums, and the driver adds them up: no averages of averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.base import measures

Number = int | float
"""A number of rows, or the sum of their weights"""
MOST_CONFUSED = 100
"""Largest number of classes for a confusion matrix"""


@dataclass
class ClassScores:
    """A classifier's scores by class: labels, predictions and correct predictions. For few classes, also a confusion
    matrix.

    If a row has several labels, all fields except `rows` count labels. If rows have weights, these fields add up the
    weights.
    """

    rows: int = 0
    log_loss: float = 0.0
    """Sum of -log(probability of the label's class)"""
    labelled: list[Number] = field(default_factory=list)
    predicted: list[Number] = field(default_factory=list)
    right: list[Number] = field(default_factory=list)
    confusion: list[Number] = field(default_factory=list)
    """The confusion matrix, flat, by label and then by prediction; only for up to MOST_CONFUSED classes"""
    negatives: list[Number] = field(default_factory=list)
    positives: list[Number] = field(default_factory=list)
    """For two classes: histograms of the second class's log-odds, with `measures.BINS` bins.

    `negatives` counts rows of the first class, and `positives` counts rows of the second class
    """

    def update(
        self,
        label: npt.NDArray[np.int64],
        prediction: npt.NDArray[np.int64],
        logs: npt.NDArray[np.float64],
        weight: npt.NDArray[Any] | None = None,
    ) -> None:
        """Add rows.

        label, prediction: class indices [rows, ...]. logs: logarithms of the classes' probabilities, [rows, ...,
        classes]. weight: weight of each row, [rows]; None: each row has weight 1.
        """
        classes = logs.shape[-1]
        self.rows += len(label)
        each = None if weight is None else np.repeat(weight.astype(np.float64), math.prod(label.shape[1:]))
        label, prediction = label.ravel(), prediction.ravel()
        logs = logs.reshape(-1, classes)
        losses = -logs[np.arange(len(label)), label]
        self.log_loss = math.fsum((self.log_loss, *(losses if each is None else losses * each)))
        all_of, right = slice(None), label == prediction
        counted: list[tuple[list[Number], npt.NDArray[np.int64], Any, int]] = [
            (self.labelled, label, all_of, classes),
            (self.predicted, prediction, all_of, classes),
            (self.right, label, right, classes),
        ]
        if classes <= MOST_CONFUSED:
            counted.append((self.confusion, label * classes + prediction, all_of, classes**2))
        if classes == 2:
            bins = measures.bins_of(logs[:, 1] - logs[:, 0])
            counted += [(counts, bins, label == index, measures.BINS) for index, counts in enumerate(self._histograms)]
        for counts, places, chosen, size in counted:
            weights = None if each is None else each[chosen]
            counts[:] = _added(counts, np.bincount(places[chosen], weights, minlength=size).tolist())

    def add(self, other: ClassScores) -> None:
        """Add the sums of `other`."""
        self.rows += other.rows
        self.log_loss += other.log_loss
        for counts, more in zip(self._counts, other._counts, strict=True):
            counts[:] = _added(counts, more)

    def summary(self) -> dict[str, float]:
        """Return rows, accuracy, log_loss, precision, recall and f1.

        For two classes, also return auc, and auc_error, the largest possible error of auc.
        """
        labels = sum(self.labelled) or math.nan
        summary = {"rows": self.rows, "accuracy": sum(self.right) / labels, "log_loss": self.log_loss / labels}
        summary |= measures.of_classes(self.right, self.labelled, self.predicted)
        if self.positives:
            summary |= zip(("auc", "auc_error"), measures.auc(self.negatives, self.positives), strict=True)
        return summary

    def by_class(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each class: its name, the rows of this class, the rows predicted to have it, and the correct rows.

        Rows count by their weights.
        """
        columns = zip(names, self.labelled, self.predicted, self.right, strict=True)
        return [dict(zip(("class", "rows", "predicted", "correct"), column, strict=True)) for column in columns]

    def confusion_matrix(self) -> list[list[Number]] | None:
        """Return the confusion matrix by label and then by prediction; None if there are too many classes."""
        classes = len(self.labelled)
        return [self.confusion[at : at + classes] for at in range(0, classes**2, classes)] if self.confusion else None

    @property
    def _histograms(self) -> tuple[list[Number], list[Number]]:
        return self.negatives, self.positives

    @property
    def _counts(self) -> tuple[list[Number], ...]:
        return self.labelled, self.predicted, self.right, self.confusion, *self._histograms


@dataclass
class NumberScores:
    """A regression's scores for each number of a row's label: sums of errors, and the labels' mean and deviations."""

    rows: int = 0
    weight: float = 0.0
    """Sum of the weights of all rows"""
    absolute: list[float] = field(default_factory=list)
    squared: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    deviations: list[float] = field(default_factory=list)
    """Sums of the squared distances of the labels from their mean"""

    def update(
        self, label: npt.NDArray[Any], prediction: npt.NDArray[Any], weight: npt.NDArray[Any] | None = None
    ) -> None:
        """Add rows.

        label, prediction: numbers [rows, ...]. weight: weight of each row, [rows]; None: each row has weight 1.
        """
        each = (np.ones(len(label)) if weight is None else weight.astype(np.float64))[:, None]
        self.rows += len(label)
        if not each.any():
            return
        label = label.reshape(len(label), -1).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            errors = prediction.reshape(label.shape).astype(np.float64) - label
            mean = (each * label).sum(axis=0) / each.sum()
            # Clip, so that the mean of a constant is the constant despite rounding, and its deviations are 0.
            counted = label[each[:, 0] > 0]
            mean = np.clip(mean, counted.min(axis=0), counted.max(axis=0))
            deviations = (each * np.square(label - mean)).sum(axis=0)
            self.absolute = _summed(self.absolute, each * np.abs(errors))
            self.squared = _summed(self.squared, each * np.square(errors))
        self._spread(float(each.sum()), mean, deviations)

    def add(self, other: NumberScores) -> None:
        """Add the sums of `other`."""
        self.rows += other.rows
        if other.weight:
            self.absolute = _summed(self.absolute, np.array([other.absolute]))
            self.squared = _summed(self.squared, np.array([other.squared]))
            self._spread(other.weight, np.array(other.mean), np.array(other.deviations))

    def _spread(self, weight: float, mean: npt.NDArray[np.float64], deviations: npt.NDArray[np.float64]) -> None:
        """Add rows of this weight, mean and deviations.

        Source: Chan, Golub, LeVeque: Updating Formulae and a Pairwise Algorithm (1979).
        """
        total = self.weight + weight
        known = np.array(self.mean or np.zeros_like(mean))
        within = np.array(self.deviations or np.zeros_like(mean)) + deviations
        self.deviations = (within + (mean - known) ** 2 * (self.weight * weight / total)).tolist()
        self.mean = (known + (mean - known) * (weight / total)).tolist()
        self.weight = total

    def summary(self) -> dict[str, float]:
        """Return rows, mean_absolute_error, mean_squared_error and root_mean_squared_error over all numbers, and r2.

        r2 is the mean of the numbers' r2.
        """
        count = self.weight * len(self.squared) or math.nan
        squared = math.fsum(self.squared) / count
        return {
            "rows": self.rows,
            "mean_absolute_error": math.fsum(self.absolute) / count,
            "mean_squared_error": squared,
            "root_mean_squared_error": math.sqrt(squared),
            "r2": measures.r2(self.squared, self.deviations),
        }

    def by_number(self) -> list[dict[str, float]]:
        """Return the summary of each number of a row's label, without `rows`."""
        columns = zip(self.absolute, self.squared, self.mean, self.deviations, strict=True)
        alone = [NumberScores(self.rows, self.weight, *([value] for value in column)).summary() for column in columns]
        return [{name: value for name, value in each.items() if name != "rows"} for each in alone]


Scores = ClassScores | NumberScores


def to_json(scores: Scores) -> dict[str, Any]:
    """Return the sums as JSON values, without loss."""
    return asdict(scores)


def from_json(values: dict[str, Any]) -> Scores:
    """Return the scores from values of `to_json`."""
    return ClassScores(**values) if "log_loss" in values else NumberScores(**values)


def _summed(sums: Sequence[float], more: npt.NDArray[np.float64]) -> list[float]:
    """Return `sums` plus the sums of the columns of `more`. `sums` may be empty."""
    columns = more.T.tolist()
    return [math.fsum((so_far, *column)) for so_far, column in zip(sums or [0.0] * len(columns), columns, strict=True)]


def _added(counts: Sequence[Number], more: Sequence[Number]) -> list[Number]:
    if not counts or not more:
        return list(counts or more)
    added: list[Number] = np.add(counts, more).tolist()
    return added
