"""Label statistics of a split: rows and weights of each class, and the means of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.dataset.description import WEIGHT, LabelSpec, TensorSpec
from sparksplit.dataset.statistics import Moments

F64 = npt.NDArray[np.float64]


class LabelSums:
    """Sums over rows that can be added up.

    label, tensors: of the data set. Rows of a label with one place are not counted here, because they are counted
    before they are written.
    """

    def __init__(self, label: LabelSpec | None, tensors: Sequence[TensorSpec] = ()) -> None:
        classes = None if label is None or label.classes is None else len(label.classes)
        has_weights = any(tensor.name == WEIGHT for tensor in tensors)
        self._values = 1 if label is None else label.values
        counted = label is not None and label.shape
        self.counts = np.zeros(classes, np.int64) if classes is not None and counted else None
        """Places of each class; None if the label has one place."""
        self.weights = np.zeros(classes) if classes is not None and has_weights else None
        """Sum of the weights of each class's places; None if rows have no weights."""
        self._numbers = Moments(self._values) if label is not None and classes is None else None

    def update(self, label: npt.NDArray[Any], weight: npt.NDArray[Any] | None) -> None:
        """Add rows. label: [rows, *shape]; weight: [rows]."""
        flat = label.reshape(-1)
        if self.counts is not None:
            self.counts += np.bincount(flat, minlength=len(self.counts))
        if self.weights is not None and weight is not None:
            each = np.repeat(weight.astype(np.float64), self._values)
            self.weights += np.bincount(flat, each, minlength=len(self.weights))
        if self._numbers is not None:
            self._numbers.update(label)

    def add(self, state: dict[str, Any]) -> None:
        """Add the rows in `state`, a result of `to_json`."""
        if self.counts is not None:
            self.counts += np.asarray(state["counts"], np.int64)
        if self.weights is not None:
            self.weights += np.asarray(state["weights"], np.float64)
        if self._numbers is not None:
            self._numbers.merge(Moments.from_json(state["numbers"]))

    def to_json(self) -> dict[str, Any]:
        """Return the sums as JSON, to send them from an executor to the driver."""
        arrays = {"counts": self.counts, "weights": self.weights}
        sums: dict[str, Any] = {name: array.tolist() for name, array in arrays.items() if array is not None}
        return sums if self._numbers is None else {**sums, "numbers": self._numbers.to_json()}

    def facts(self) -> dict[str, Any]:
        """Return the manifest's `label_weights` and `label_means`."""
        entries: dict[str, Any] = {"label_weights": None, "label_means": None}
        if self.weights is not None:
            entries["label_weights"] = _rounded(self.weights, self.weights.max(initial=0.0))
        if self._numbers is not None:
            numbers = self._numbers
            widest = np.maximum(np.abs(numbers.min), np.abs(numbers.max)) if numbers.count.any() else numbers.mean
            entries["label_means"] = _rounded(numbers.mean, widest)
        return entries


def _rounded(values: F64, sizes: Any) -> list[float]:
    """Round to 40 binary digits of `sizes`, so that the values do not depend on how rows are spread over files. Values
    that are not finite become 0.
    """
    with np.errstate(all="ignore"):
        units = np.ldexp(1.0, np.maximum(np.frexp(sizes)[1] - 40, -1000))
        multiples = np.round(values / units) * units
    rounded: list[float] = np.where(np.isfinite(multiples), multiples, 0.0).tolist()
    return rounded
