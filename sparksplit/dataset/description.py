"""The fitted preprocessing: the numbers that turn stored values into the model's input, the same everywhere.

Stored tensors stay raw, in their smallest exact dtype. Nodes apply the fitted numbers inside their TensorFlow graph,
and `predict` applies them to raw rows. Both compute in the float type that `arithmetic` returns, in this order: fill
missing values, subtract the offset, multiply by the scale.

The result is converted to the model's float type only at the end. Otherwise, for example, float32 would merge many
seconds of one day, counted from 1970.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import pydantic

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.base.later_keys import LaterKeys
from sparksplit.dataset.feature_spec import Feature

F64 = npt.NDArray[np.float64]
FILE = "preprocessing.json"
FORMAT_VERSION = 3
NAMES = {"label_name", "keep"}
"""Keys of a `Description` that are neither content of a data set nor fitted."""
READING = {*NAMES, "nulls"}
"""Keys of a `Description` that only say how raw rows were read. They are no content of a data set."""
COLUMN_NAMES = {"columns", "column"}
"""Keys of a `TensorSpec` that only name raw columns. They are no content of a data set."""
WEIGHT = "weight"
"""The tensor (float32, one number per row) of the rows' weights in the loss and metrics. The model does not get it."""
TOKENS = ("characters", "words")
"""Kinds of labels that are a text's tokens, one at each position of the input."""
UNKNOWN = "<unknown>"
"""Name of class 0 of a vocabulary: every token that is not in the vocabulary. With `unseen_labels: unknown`, also the
name of the last class: every label that no training row has.
"""
Model = TypeVar("Model", bound=pydantic.BaseModel)


class Frozen(pydantic.BaseModel):
    """Base class of objects that are stored in JSON files."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class TensorSpec(LaterKeys, Frozen):
    """One input tensor of a row: row-major, little-endian in its binary column."""

    later: ClassVar[tuple[str, ...]] = ("columns", "column")

    name: str
    dtype: str
    """A NumPy dtype: uint8, int16, float32, ..."""
    shape: list[int]
    columns: list[str] | None = None
    """Names of the values, in order, if the source had a column for each. Rows for predictions are put into this order.
    In windows over time, the names of the values of one row. None if values have no names.
    """
    column: str | None = None
    """Name of the only column, if it holds all values as an array or a vector. Otherwise None."""

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype, little-endian."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def values(self) -> int:
        """Number of values in one row."""
        return math.prod(self.shape)

    @property
    def features(self) -> int:
        """Number of values with their own statistics, if statistics are by feature: all values, or the columns of
        windows.
        """
        return self.values if self.columns is None else len(self.columns)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.values * self.numpy_dtype.itemsize


class LabelSpec(TensorSpec):
    """The value to predict: a class or a number. With a shape: one class or number for each place, in a binary column
    like a tensor's.

    A class is its index in `classes` (dtype int64). A number has dtype float32, or float64 if float32 changes a label
    by 0.5 or more; see `labels.rounded`.
    """

    later = (*TensorSpec.later, "offset", "scale")

    name: str = "label"
    shape: list[int] = []
    classes: list[str] | None = None
    """Names of the classes in the order of their indices: the sorted distinct labels of the training split, or the
    vocabulary of a text.
    """
    kind: str = "integer"
    """How raw labels are read: integer, text or number; characters or words if they are tokens of a text."""
    unknown: bool = False
    """Whether the last class, `<unknown>`, stands for every label that no training row has."""
    offset: float | list[float] = 0.0
    scale: float | list[float] = 1.0
    """For numbers: a model learns to predict (label - offset) * scale. Each is one number, or one for each value."""

    @property
    def parsed(self) -> LabelSpec:
        """The label in parsed rows: numbers are float64 there."""
        return self.model_copy(update={"dtype": "float64"}) if self.kind == "number" else self

    @property
    def is_scaled(self) -> bool:
        """Whether the model's target differs from the stored labels."""
        offset, scale = self.numbers()
        return bool(offset.any()) or bool((scale != 1).any())

    def numbers(self) -> tuple[F64, F64]:
        """Return (offset, scale): float64, of shape [] or the label's shape, to broadcast over a batch."""
        return _array(self.offset, self.shape), _array(self.scale, self.shape)


class Windows(Frozen):
    """How rows over time became windows: features [window, columns] of the known rows, and the label [horizon] of the
    rows that follow.
    """

    window: int
    horizon: int
    by: list[str]
    """The columns that identify a series."""
    order: str
    """The column that orders the rows of a series."""
    label: str
    """The column whose next values are predicted. Its past values are among the features."""
    step: int
    """Largest step between two rows, in microseconds or in units of `order`; 0: not known yet."""
    time: bool
    """Whether `order` holds times, so that `step` is in microseconds."""

    @property
    def reach(self) -> int:
        """Largest distance from a label's last row back to its first."""
        return (self.horizon - 1) * self.step


class TensorPreprocessing(Frozen):
    """x_model = (x - offset) * scale. Each is one number for the tensor, or one for each value, or one for each column
    in windows over time.
    """

    offset: float | list[float] = 0.0
    scale: float | list[float] = 1.0
    impute: float | list[float] | None = None
    """Replaces missing values (NaN); None if the data has no missing values."""


class FittedPreprocessing(Frozen):
    """The fitted numbers of every tensor, by name. A tensor that is not listed stays unchanged."""

    tensors: dict[str, TensorPreprocessing] = {}

    def arrays(self, name: str, shape: Sequence[int]) -> tuple[F64, F64, F64 | None]:
        """Return (offset, scale, impute) of the tensor: float64, of shape [] or `shape`, to broadcast over a batch."""
        fitted = self.tensors.get(name, TensorPreprocessing())
        offset, scale = _array(fitted.offset, shape), _array(fitted.scale, shape)
        return offset, scale, None if fitted.impute is None else _array(fitted.impute, shape)

    def apply(self, name: str, array: npt.NDArray[Any], floats: str = "float32") -> npt.NDArray[Any]:
        """Return the model's input from stored values, in `array`'s shape [rows, *shape]. floats: the model's float
        type
        """
        offset, scale, impute = self.arrays(name, array.shape[1:])
        kind = arithmetic(array.dtype, offset, scale, floats)
        if is_wide(array.dtype) and offset.any():
            (high, low), word = high_and_low(offset), array.dtype.type(2**32 - 1)
            values = (array >> array.dtype.type(32)).astype(kind) - high
            values = values * 2.0**32 + ((array & word).astype(kind) - low)
        else:
            values = array.astype(kind)
            if impute is not None:
                values = np.where(np.isnan(values), impute.astype(kind), values)
            values = values - offset.astype(kind)
        return np.asarray(values * scale.astype(kind), dtype=floats)


def arithmetic(dtype: np.dtype[Any], offset: F64, scale: F64, floats: str) -> np.dtype[Any]:
    """Return the float type in which stored values are shifted and multiplied.

    It is the model's type (`floats`: float32 or float64) if float32 holds every value exactly, as for bytes and pixels,
    or if there is nothing to do. Otherwise it is float64, which keeps apart values that are close to each other and far
    from 0.
    """
    plain = dtype.itemsize <= 2 or (not offset.any() and bool((scale == 1).all()))
    return np.dtype(floats if plain else np.float64)


def is_wide(dtype: np.dtype[Any]) -> bool:
    """Whether even float64 cannot hold every value, such as nanoseconds since 1970.

    The offset must then be subtracted from the upper and the lower 32 bits separately, which float64 can hold, before
    both are combined.
    """
    return dtype.kind in "iu" and dtype.itemsize > 4


def high_and_low(offset: F64) -> tuple[F64, F64]:
    """Split `offset` exactly into high * 2^32 + low: high is a whole number, low is from 0 to below 2^32."""
    high = np.floor(offset * 2.0**-32)
    return high, offset - high * 2.0**32


class Description(LaterKeys, Frozen):
    """A data set's description for a model: tensors, label and preprocessing.

    It is stored as preprocessing.json beside the data, and beside every model trained on the data, so that each can be
    used alone.
    """

    later = ("features", "windows", "exif", "label_name", "keep", "nulls")

    format_version: int = FORMAT_VERSION
    tensors: list[TensorSpec]
    label: LabelSpec | None
    preprocessing: FittedPreprocessing
    features: list[Feature] = []
    """Contents of the tensors, if they are more than plain numbers: one entry for each raw column, in the model's
    order.
    """
    windows: Windows | None = None
    """Set if rows are windows over time."""
    exif: bool | None = None
    """Whether images were turned as their EXIF orientation says; None if rows are not images."""
    label_name: str | None = None
    """The label's raw column; None if the user gave it no name."""
    keep: list[str] = []
    """The raw columns that are kept."""
    nulls: list[str] | None = None
    """Texts that stood for a missing value in the raw files; None: the default of their format."""

    @property
    def model_tensors(self) -> list[TensorSpec]:
        """The tensors that a model gets."""
        return [tensor for tensor in self.tensors if tensor.name != WEIGHT]

    def write(self, folder: str) -> None:
        """Write preprocessing.json into `folder`."""
        filesystem.write_json(filesystem.join(folder, FILE), self.model_dump())

    @classmethod
    def read(cls, folder: str) -> Description:
        """Read preprocessing.json from `folder`. Raise InputError if missing, damaged or of an unknown version."""
        return read_model(cls, filesystem.join(folder, FILE))


def read_model(kind: type[Model], path: str) -> Model:
    """Read `kind` from a JSON file. Raise InputError if the file is missing, damaged or of an unknown version."""
    values = filesystem.read_json(path)
    version = values.get("format_version") if isinstance(values, dict) else None
    if version != FORMAT_VERSION:
        known = f"this version of sparksplit reads {FORMAT_VERSION}. Make it again, or use the version that made it"
        raise InputError(f"{path}: unknown format version {version!r}; {known}")
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None


def _array(numbers: float | list[float], shape: Sequence[int]) -> F64:
    array = np.asarray(numbers, dtype=np.float64)
    if not array.ndim:
        return array
    # Fewer numbers than values: one number for each column of a window.
    return array.reshape(tuple(shape)) if array.size == math.prod(shape) else np.broadcast_to(array, shape).copy()
