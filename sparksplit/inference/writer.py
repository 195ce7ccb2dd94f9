"""Predictions as Parquet: the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io import filesystem
from sparksplit.dataset.description import LabelSpec
from sparksplit.dataset.lane_files import LABEL, ROW_ID
from sparksplit.inference.trained import Array
from sparksplit.prepare import bad_rows

SPLIT, PREDICTION, NAME, PROBABILITIES = "split", "prediction", "prediction_name", "probabilities"
TOP, TOP_NAMES, TOP_PROBABILITIES = "top_predictions", "top_names", "top_probabilities"
REPEATING = (SPLIT, PREDICTION, NAME, LABEL)
"""Columns with repetitions that a dictionary can use. Hashes and floats have none."""


@dataclass(frozen=True)
class Places:
    """Names of an output's parts. predictions: the folder of Parquet files; "" for the output itself."""

    predictions: str
    metrics: str
    bad_rows: str

    def folder(self, output: str) -> str:
        """Return the folder of Parquet files of `output`."""
        return filesystem.join(output, self.predictions) if self.predictions else output


WHOLE = Places("predictions", "metrics.json", bad_rows.FOLDER)
"""An output with a folder that holds only Parquet files, so that readers can use this folder."""
PARTITION = Places("", "_metrics.json", f"_{bad_rows.FOLDER}")
"""A table's partition. Readers of tables skip names that begin with `_`."""


def places_of(output: str) -> Places:
    """Return the places of the complete predictions in the folder `output`."""
    return WHOLE if filesystem.is_folder(WHOLE.folder(output)) else PARTITION


@dataclass(frozen=True)
class Predictions:
    """The predictions of a batch.

    prediction: int64 class indices [rows, ...], or a regression's numbers: float32 or float64 [rows, ...]
    probabilities: float64 [rows, ..., classes]; None for a regression
    logs: the logarithms of the probabilities, if rows have labels
    """

    prediction: Array
    probabilities: npt.NDArray[np.float64] | None
    logs: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Columns:
    """The columns of the predictions: row_id, prediction, a classifier's probabilities, and the columns below.

    Probabilities are left out if a row has several labels, because there would be places x classes of them.

    label: what the model predicts. split: whether the rows' split is a column. keep: columns of the input, perhaps
    `label`. top: number of classes to write; None: all classes.
    """

    label: LabelSpec | None
    split: bool
    keep: Sequence[str]
    top: int | None = None

    @property
    def named(self) -> bool:
        """Whether classes have names that say more than their indices."""
        classes = self.label.classes if self.label is not None else None
        return classes is not None and classes != [str(index) for index in range(len(classes))]

    @property
    def own(self) -> list[str]:
        """The columns that are not kept from the input. A kept column cannot have one of their names."""
        listed = [(ROW_ID, True), (SPLIT, self.split), (PREDICTION, True), (NAME, self.named)]
        classes = self.label is not None and self.label.classes is not None and not self.label.shape
        whole, top = classes and self.top is None, classes and self.top is not None
        more = [(PROBABILITIES, whole), (TOP, top), (TOP_NAMES, top and self.named), (TOP_PROBABILITIES, top)]
        return [name for name, there in [*listed, *more] if there]

    @property
    def in_order(self) -> Sequence[str]:
        """The names of the classes in the order of `probabilities`. Empty without this column, or without names."""
        if self.label is None or not self.named or PROBABILITIES not in self.own:
            return ()
        return self.label.classes or ()

    def table(
        self, row_ids: npt.NDArray[np.int64], split: str, kept: Mapping[str, pa.Array], found: Predictions
    ) -> pa.Table:
        """Return the rows of a batch as a table. row_ids: the unsigned ids as int64 of equal bits, [rows]."""
        rows = len(row_ids)
        columns = {ROW_ID: pa.array(row_ids)}
        if self.split:
            columns[SPLIT] = pa.array([split] * rows, type=pa.string())
        columns |= {name: kept[name] for name in self.keep}
        columns[PREDICTION] = nested(found.prediction)
        if found.probabilities is not None:
            if self.named:
                columns[NAME] = self._names(found.prediction)
            if found.probabilities.ndim == 2:
                columns |= self._probabilities(found.probabilities)
        return pa.table(columns)

    def _probabilities(self, probabilities: npt.NDArray[np.float64]) -> dict[str, pa.Array]:
        """Return the columns with the probabilities of all classes, or of the top classes.

        Equally probable classes stay in order, so that the first class agrees with `prediction`.
        """
        if self.top is None:
            return {PROBABILITIES: nested(probabilities.astype(np.float32))}
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, : self.top]
        names = {TOP_NAMES: self._names(order)} if self.named else {}
        values = np.take_along_axis(probabilities, order, axis=1).astype(np.float32)
        return {TOP: nested(order), **names, TOP_PROBABILITIES: nested(values)}

    def _names(self, classes: Array) -> pa.Array:
        """Return the names of class indices [rows, ...]."""
        assert self.label is not None
        names = pa.array(self.label.classes, type=pa.string()).take(pa.array(classes.ravel()))
        return _lists(names, len(classes)) if classes.ndim > 1 else names


def nested(values: Array) -> pa.Array:
    """Return numbers [rows] unchanged, and numbers [rows, ...] as one list per row."""
    return pa.array(values) if values.ndim == 1 else _lists(pa.array(values.ravel()), len(values))


def _lists(flat: pa.Array, rows: int) -> pa.Array:
    """Return `flat` as lists of equal length, one for each of `rows`."""
    each = len(flat) // max(rows, 1)
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(each)), flat)
