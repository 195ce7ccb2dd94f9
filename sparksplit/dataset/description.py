"""The fitted preprocessing: the numbers that turn stored values into the model's input, the same everywhere.

Stored tensors stay raw, in their smallest exact dtype. Nodes apply these numbers inside their TensorFlow graph, and
`predict` applies them to raw rows, both in the float type that `arithmetic` names and in this order: fill missing
values, subtract the offset, multiply. Only then do values become the model's float type: in float32 many seconds of one
day, counted from 1970, are the same number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pydantic

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.dataset.feature_spec import Feature

F64 = npt.NDArray[np.float64]
FILE = "preprocessing.json"
FORMAT_VERSION = 3
NAMES = {"label_name", "keep"}
"""What of a `Description` is no part of a data set's content, and of what is fitted."""
WEIGHT = "weight"
"""The tensor (float32, one number a row) that says what each row counts in the loss and in metrics; the model does not
get it."""
TOKENS = ("characters", "words")
"""Kinds of labels that are a text's tokens, one at each position of the input."""
UNKNOWN = "<unknown>"
"""The name of class 0 of a vocabulary, every token that is not in it; and of the last class, every label that no
training row had, where `unseen_labels: unknown` asks for one."""
Model = TypeVar("Model", bound=pydantic.BaseModel)


class Frozen(pydantic.BaseModel):
    """Base class of what is kept in JSON files."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class TensorSpec(Frozen):
    """One input tensor of a row: row-major, little-endian in its binary column."""

    name: str
    dtype: str
    """A NumPy dtype: uint8, int16, float32, ..."""
    shape: list[int]
    columns: list[str] | None = None
    """Names of the values, in their order, where the source had a column for each: what is predicted later is put into
    this order; in windows over time, of the values of one of their rows. None where values have no names."""

    @pydantic.model_serializer(mode="wrap")
    def _without_defaults(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `columns`, `offset` and `scale` where there are none: so files say what they said before there were
        any."""
        values: dict[str, Any] = dump(self)
        defaults = {
            key: type(self).model_fields[key].default for key in ("columns", "offset", "scale") if key in values
        }
        return {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype, little-endian."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def values(self) -> int:
        """Numbers in one row."""
        return math.prod(self.shape)

    @property
    def features(self) -> int:
        """Values with statistics of their own, if each feature has some: all, or the columns of windows."""
        return self.values if self.columns is None else len(self.columns)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.values * self.numpy_dtype.itemsize


class LabelSpec(TensorSpec):
    """What is to be predicted: a class (its index in `classes`; dtype int64) or a number (dtype float32, or float64
    where that loses whole digits; see `labels.rounded`), or, with a shape, a class or a number for each of its places,
    in a binary column like a tensor's."""

    name: str = "label"
    shape: list[int] = []
    classes: list[str] | None = None
    """Names of the classes in the order of their indices: the sorted distinct labels of the training split, or the
    vocabulary of a text."""
    kind: str = "integer"
    """How raw labels are read: integer, text or number; characters or words where they are the tokens of a text."""
    unknown: bool = False
    """Whether the last class, `<unknown>`, stands for every label that no training row had."""
    offset: float | list[float] = 0.0
    scale: float | list[float] = 1.0
    """Of numbers: a model is trained to give (label - offset) * scale; each is one number, or one for each value."""

    @property
    def parsed(self) -> LabelSpec:
        """The label as its rows are parsed: numbers are float64 there."""
        return self.model_copy(update={"dtype": "float64"}) if self.kind == "number" else self

    @property
    def is_scaled(self) -> bool:
        """Whether a model is trained to give something else than the stored labels."""
        offset, scale = self.numbers()
        return bool(offset.any()) or bool((scale != 1).any())

    def numbers(self) -> tuple[F64, F64]:
        """(offset, scale): float64, of shape [] or the label's, to broadcast over a batch."""
        return _array(self.offset, self.shape), _array(self.scale, self.shape)


class Windows(Frozen):
    """How rows over time became windows: features [window, columns], of the rows that a prediction knows, and the label
    [horizon], of the rows that follow them."""

    window: int
    horizon: int
    by: list[str]
    """The columns that tell series apart."""
    order: str
    """The column that orders the rows of a series."""
    label: str
    """The column whose next values are predicted; its past is among the features."""
    step: int
    """The longest way from a row to the next, in microseconds or in the units of `order`; 0: not known yet."""
    time: bool
    """Whether `order` holds times, so that `step` is in microseconds."""

    @property
    def reach(self) -> int:
        """How far a label reaches back from its last row, at most."""
        return (self.horizon - 1) * self.step


class TensorPreprocessing(Frozen):
    """x_model = (x - offset) * scale; each is one number for the tensor, or one for each of its values, or, in windows
    over time, one for each column."""

    offset: float | list[float] = 0.0
    scale: float | list[float] = 1.0
    impute: float | list[float] | None = None
    """Replaces missing values (NaN); None where the data has none."""


class FittedPreprocessing(Frozen):
    """The fitted numbers of every tensor, by its name; a tensor that is not listed stays as it is."""

    tensors: dict[str, TensorPreprocessing] = {}

    def arrays(self, name: str, shape: Sequence[int]) -> tuple[F64, F64, F64 | None]:
        """(offset, scale, impute) of the tensor: float64, of shape [] or `shape`, to broadcast over a batch."""
        fitted = self.tensors.get(name, TensorPreprocessing())
        offset, scale = _array(fitted.offset, shape), _array(fitted.scale, shape)
        return offset, scale, None if fitted.impute is None else _array(fitted.impute, shape)

    def apply(self, name: str, array: npt.NDArray[Any], floats: str = "float32") -> npt.NDArray[Any]:
        """The model's input from stored values, of `array`'s shape [rows, *shape]. floats: the model's float type"""
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
    """The float type to subtract and multiply stored values in: the model's (`floats`: float32 or float64) where
    float32 holds every value exactly, as it does bytes and pixels, and where there is nothing to do; otherwise float64,
    so that values that are close to each other and far from 0 stay apart."""
    plain = dtype.itemsize <= 2 or (not offset.any() and bool((scale == 1).all()))
    return np.dtype(floats if plain else np.float64)


def is_wide(dtype: np.dtype[Any]) -> bool:
    """Whether even float64 cannot hold every value (nanoseconds since 1970, say): the offset must then be subtracted
    from the upper and the lower 32 bits separately, which float64 can hold, before they are put together."""
    return dtype.kind in "iu" and dtype.itemsize > 4


def high_and_low(offset: F64) -> tuple[F64, F64]:
    """`offset` as high * 2^32 + low, exactly: high a whole number, low from 0 to below 2^32."""
    high = np.floor(offset * 2.0**-32)
    return high, offset - high * 2.0**32


class Description(Frozen):
    """What a model needs to know about a data set: its tensors, its label, its preprocessing.

    Kept as preprocessing.json beside the data and beside every model trained on it, so that either stands alone.
    """

    format_version: int = FORMAT_VERSION
    tensors: list[TensorSpec]
    label: LabelSpec | None
    preprocessing: FittedPreprocessing
    features: list[Feature] = []
    """What the tensors hold, where it is more than plain numbers: one for each raw column, in the model's order."""
    windows: Windows | None = None
    """Where rows are windows over time."""
    exif: bool | None = None
    """Whether images were turned as their EXIF orientation says; None where rows are no images."""
    label_name: str | None = None
    """The label's raw column; None where it has no name of the user's."""
    keep: list[str] = []
    """The raw columns that are kept."""

    @pydantic.model_serializer(mode="wrap")
    def _without_defaults(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the keys from `features` on where there are none: files, and digests of data sets, say what they said
        before there were any."""
        values: dict[str, Any] = dump(self)
        left_out: dict[str, Any] = {"features": [], "windows": None, "exif": None, "label_name": None, "keep": []}
        return {key: value for key, value in values.items() if key not in left_out or value != left_out[key]}

    @property
    def model_tensors(self) -> list[TensorSpec]:
        """The tensors that a model is given."""
        return [tensor for tensor in self.tensors if tensor.name != WEIGHT]

    def write(self, folder: str) -> None:
        """Write preprocessing.json into `folder`."""
        filesystem.write_json(filesystem.join(folder, FILE), self.model_dump())

    @classmethod
    def read(cls, folder: str) -> Description:
        """Read preprocessing.json from `folder`. Raises InputError where it is missing or damaged."""
        return read_model(cls, filesystem.join(folder, FILE))


def read_model(kind: type[Model], path: str) -> Model:
    """Read `kind` from a JSON file. Raises InputError where it is missing, damaged or of an unknown version."""
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
    # With fewer numbers than values there is one for each column of a window.
    return array.reshape(tuple(shape)) if array.size == math.prod(shape) else np.broadcast_to(array, shape).copy()
