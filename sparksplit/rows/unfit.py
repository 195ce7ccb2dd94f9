"""Rows that a model cannot train on: labels without a model output, and values that are not finite numbers.

A label that is not a class is an error at once. Some Keras losses accept any number. Other losses fail with a
TensorFlow error or, on a GPU, give NaN. A value that is not a finite number is only noted, because a model may handle
it. The error names the value once the loss or the weights are not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import Description, LabelSpec
from sparksplit.dataset.row_ids import signed

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.uint64]
Place = Callable[[int], str]
"""Returns where the row with a row_id (as an unsigned number) is, for people."""


def by_id(row_id: int) -> str:
    """Return the name of a row if only its row_id is known."""
    return f"the row with row_id {signed(np.array([row_id], np.uint64))[0]}"


@dataclass(frozen=True)
class Fit:
    """Which rows are accepted.

    ignored: a label that the loss leaves out.
    missing: tensors in which NaN is a missing value, which the preprocessing fills.
    """

    ignored: int | None = None
    missing: Collection[str] = ()

    @classmethod
    def of(cls, description: Description, loss: str | dict[str, Any] | None) -> Fit:
        """Return the rule for a data set's rows, with the loss of the configuration."""
        if description.features:
            missing = {tensor.name for tensor in description.tensors}
        else:
            fitted = description.preprocessing.tensors
            missing = {name for name, numbers in fitted.items() if numbers.impute is not None}
        return cls(loss.get("ignore_class") if isinstance(loss, dict) else None, missing)

    def check_labels(self, labels: Array | None, spec: LabelSpec | None, row_ids: Ids, place: Place) -> None:
        """Raise InputError, with the row, if labels [rows, ...] are not indices of the classes of `spec`. `ignored` is
        accepted."""
        if labels is None or spec is None or spec.classes is None or not labels.size:
            return
        classes = len(spec.classes)
        if labels.dtype.kind in "iub" and labels.min() >= 0 and labels.max() < classes:
            return
        wrong = ~((labels >= 0) & (labels < classes))  # NaN, too
        if self.ignored is not None:
            wrong &= labels != self.ignored
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise InputError(
                f"{place(int(row_ids[at[0]]))}: has the label {labels[at]}; "
                f"with {classes} classes it must be from 0 to {classes - 1}"
            )

    def suspect(self, columns: Mapping[str, Array], row_ids: Ids, place: Place) -> str | None:
        """Return the first value that is not a finite number, and its row; None if all values are finite.

        columns: arrays [rows, ...] by name. Columns in `missing` are skipped.
        """
        for name, values in columns.items():
            if values.dtype.kind != "f" or name in self.missing:
                continue
            # A sum is much faster than a look at each value. If the sum is not finite, look at each value.
            with np.errstate(over="ignore", invalid="ignore"):
                if np.isfinite(values.sum()):
                    continue
            flat = values.reshape(len(values), -1)
            wrong = ~np.isfinite(flat)
            if wrong.any():
                row, at = (int(index) for index in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
                what = f"{name} {'holds' if values.ndim > 1 else 'is'} {flat[row, at]}"
                return f"{place(int(row_ids[row]))}: {what}"
        return None
