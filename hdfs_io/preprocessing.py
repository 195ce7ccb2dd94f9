"""The fitted preprocessing: the numbers that turn stored values into the model's input, the same everywhere.

Stored tensors stay raw, in their smallest exact dtype. Nodes apply these numbers inside their TensorFlow graph, and
`predict` to raw rows; both in float32 and in this order: fill missing values, subtract the offset, multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pydantic

from hdfs_io import filesystem
from sparksplit.errors import InputError

F32 = npt.NDArray[np.float32]
FILE = "preprocessing.json"
FORMAT_VERSION = 1
TOKENS = ("characters", "words")
"""Kinds of labels that are a text's tokens, one at each position of the input."""
UNKNOWN = "<unknown>"
"""The name of class 0 of a vocabulary: every token that is not in it."""
Model = TypeVar("Model", bound=pydantic.BaseModel)


class Frozen(pydantic.BaseModel):
    """Base of what is kept in JSON files."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class TensorSpec(Frozen):
    """One input tensor of a row: row-major, little-endian in its binary column."""

    name: str
    dtype: str
    """A NumPy dtype: uint8, int16, float32, ..."""
    shape: list[int]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype, little-endian."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def values(self) -> int:
        """Numbers in one row."""
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.values * self.numpy_dtype.itemsize


class LabelSpec(TensorSpec):
    """What is to be predicted: a class (its index in `classes`; dtype int64) or a number (dtype float32), or, with a
    shape, a class or a number for each of its places, in a binary column like a tensor's."""

    name: str = "label"
    shape: list[int] = []
    classes: list[str] | None = None
    """Names of the classes in the order of their indices: the sorted distinct labels of the training split, or the
    vocabulary of a text."""
    kind: str = "integer"
    """How raw labels read: integer, text or number; characters or words where they are the tokens of a text."""


class TensorPreprocessing(Frozen):
    """x_model = (float32(x) - offset) * scale; each number one for the tensor, or one for each of its values."""

    offset: float | list[float] = 0.0
    scale: float | list[float] = 1.0
    impute: float | list[float] | None = None
    """Takes the place of missing values (NaN); None where the data has none."""


class FittedPreprocessing(Frozen):
    """The fitted numbers of every tensor, by its name; a tensor that is not named stays as it is."""

    tensors: dict[str, TensorPreprocessing] = {}

    def arrays(self, name: str, shape: Sequence[int]) -> tuple[F32, F32, F32 | None]:
        """(offset, scale, impute) of the tensor: float32, of shape [] or `shape`, to broadcast over a batch."""
        fitted = self.tensors.get(name, TensorPreprocessing())
        offset, scale = _array(fitted.offset, shape), _array(fitted.scale, shape)
        return offset, scale, None if fitted.impute is None else _array(fitted.impute, shape)

    def apply(self, name: str, array: npt.NDArray[Any]) -> F32:
        """The model's input from stored values: float32 of `array`'s shape [rows, *shape]."""
        offset, scale, impute = self.arrays(name, array.shape[1:])
        values = array.astype(np.float32)
        if impute is not None:
            values = np.where(np.isnan(values), impute, values)
        return np.asarray((values - offset) * scale, dtype=np.float32)


class Description(Frozen):
    """What a model needs to know of a data set: its tensors, its label, its preprocessing.

    Kept as preprocessing.json beside the data and beside every model trained on it, so that either stands alone.
    """

    format_version: int = FORMAT_VERSION
    tensors: list[TensorSpec]
    label: LabelSpec | None
    preprocessing: FittedPreprocessing

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
        raise InputError(f"{path}: format version {version!r} is not known; this sparksplit reads {FORMAT_VERSION}")
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None


def _array(numbers: float | list[float], shape: Sequence[int]) -> F32:
    array = np.asarray(numbers, dtype=np.float32)
    return array.reshape(tuple(shape)) if array.ndim else array
