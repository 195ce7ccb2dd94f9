"""Keras's arguments of `fit` as the arrays of a prepared data set. Only NumPy: no Keras, no Spark, no files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import ConfigError
from sparksplit.dataset.arrays import SplitArrays
from sparksplit.dataset.description import WEIGHT

Array = npt.NDArray[Any]
Rows = Mapping[str, Array]
_Part = tuple[Rows, Array, Array | None]
"""Inputs, labels and weights of some rows."""
SPARSE = "sparse_categorical_crossentropy"
_ONE_HOT = ("categorical_crossentropy", "categorical_focal_crossentropy")
_BINARY = ("binary_crossentropy", "binary_focal_crossentropy")


@dataclass(frozen=True)
class Target:
    """What the model computes: decides whether labels are classes or numbers.

    loss: Keras's name of the compiled loss. shape: shape of one row's output. inputs: names of the model's inputs.
    input_shapes: shape of one row of each input, with None for any size; empty if unknown.
    """

    loss: str
    shape: tuple[int | None, ...]
    inputs: Sequence[str]
    input_shapes: Sequence[tuple[int | None, ...]] = ()

    @property
    def classes(self) -> int | None:
        """Number of classes if the loss takes class numbers. None if it takes numbers, such as one-hot rows."""
        units = self.shape[-1] if self.shape else 1
        return units if self.loss == SPARSE else 2 if self.loss in _BINARY and units == 1 else None


@dataclass(frozen=True)
class FitRows:
    """The arguments of `dataset.arrays.from_arrays`.

    splits: the arrays of `train` and, if there are validation rows, of `validation`. classes: number of classes; None
    if labels are numbers, such as one-hot rows.
    """

    splits: dict[str, SplitArrays]
    classes: int | None


def fit_rows(
    x: Any,
    y: Any,
    target: Target,
    *,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
) -> FitRows:
    """Return the rows of a call of `fit`. The arguments mean what they mean to Keras.

    x: an array [rows, ...] or a pandas frame of numbers; a mapping by input, or a list in the order of the model's
        inputs, if the model has several.
    y: labels [rows, ...]: whole numbers for classes, or one-hot rows, or numbers.
    sample_weight: weights [rows].
    class_weight: weight of a training row, by its class.
    validation_split: the share of the rows, from the end, that becomes the validation rows.
    validation_data: (x, y) or (x, y, sample_weight). It replaces `validation_split`, as in Keras.

    Raise ConfigError for arrays that do not fit together, missing values, and what several nodes cannot take.
    """
    if class_weight is not None and sample_weight is not None:
        raise ConfigError("class_weight and sample_weight: give one of them; multiply them into sample_weight for both")
    train_inputs = _inputs("x", x, target)
    if y is None:
        raise ConfigError("y: is missing; give the labels, an array with one entry per row of x")
    train: _Part = train_inputs, _array("y", y), _weights("sample_weight", sample_weight)
    count = _count("", *train)
    validation: _Part | None = None
    if validation_data is not None:
        given = validation_data if isinstance(validation_data, tuple | list) else ()
        if len(given) not in (2, 3):
            raise ConfigError("validation_data: must be (x, y) or (x, y, sample_weight)")
        validation = (
            _inputs("validation_data: x", given[0], target),
            _array("validation_data: y", given[1]),
            _weights("validation_data: sample_weight", given[2] if len(given) == 3 else None),
        )
        _count("validation_data: ", *validation)
    elif validation_split:
        cut = split_at(count, validation_split)
        validation, train = _cut(train, slice(cut, None)), _cut(train, slice(cut))
    parts = {"train": train, **({} if validation is None else {"validation": validation})}
    labels, classes = _labels({name: part[1] for name, part in parts.items()}, target)
    weights = {name: part[2] for name, part in parts.items()}
    if class_weight is not None:
        weights["train"] = by_class(labels["train"], class_weight)
    weighted = any(part is not None for part in weights.values())
    splits: dict[str, SplitArrays] = {}
    for name, (inputs, _, _) in parts.items():
        given_weights = weights[name]
        if weighted and given_weights is None:
            given_weights = np.ones(len(labels[name]), np.float32)
        splits[name] = (inputs if given_weights is None else {**inputs, WEIGHT: given_weights}), labels[name]
    return FitRows(splits, classes)


def split_at(rows: int, validation_split: float) -> int:
    """Return the number of training rows: the rows before the last `validation_split` of them, as Keras counts. Raise
    ConfigError if training or validation would have no row."""
    if not 0 < validation_split < 1:
        raise ConfigError(f"validation_split: must be at least 0 and below 1 (is {validation_split})")
    cut = int(np.floor(rows * (1.0 - validation_split)))
    if cut in (0, rows):
        raise ConfigError(f"validation_split: {validation_split} of {rows} rows leaves a split without rows")
    return cut


def by_class(labels: Array, class_weight: Mapping[int, float]) -> Array:
    """Return the weight of each row, float32 [rows], by its class, as Keras: a class without a weight has weight 1.

    labels: [rows], or [rows, classes] with the class at the largest value.
    """
    numbers = np.argmax(labels, axis=-1) if labels.ndim > 1 else labels
    if numbers.ndim != 1:
        raise ConfigError(f"class_weight: needs one class per row (a row's label has shape {list(labels.shape[1:])})")
    weights = np.ones(len(labels), np.float32)
    known = np.round(numbers).astype(np.int64)
    for number, weight in class_weight.items():
        weights[known == int(number)] = weight
    return weights


def _cut(part: _Part, rows: slice) -> _Part:
    inputs, labels, weights = part
    return (
        {name: array[rows] for name, array in inputs.items()},
        labels[rows],
        None if weights is None else weights[rows],
    )


def _inputs(where: str, x: Any, target: Target) -> dict[str, Array]:
    if isinstance(x, Mapping):
        given = dict(x)
    elif isinstance(x, list | tuple) and any(not np.isscalar(each) and hasattr(each, "shape") for each in x):
        given = dict(zip(target.inputs, x, strict=False)) if len(x) == len(target.inputs) else {}
    else:
        given = {"x": x}
    several = len(target.inputs) > 1
    if several and sorted(given) != sorted(target.inputs):
        raise ConfigError(
            f"{where}: the model has the inputs {', '.join(target.inputs)}: give an array for each by name"
        )
    if not several and len(given) != 1:
        raise ConfigError(f"{where}: the model has one input; give one array")
    if not several:
        given = {"x": next(iter(given.values()))}
    elif WEIGHT in given:
        raise ConfigError(f"{where}: an input cannot be called {WEIGHT!r}, the name of the rows' weights; rename it")
    places = {name: where if name == "x" else f"{where}[{name!r}]" for name in given}
    arrays = {name: _array(places[name], array) for name, array in given.items()}
    for name, shape in zip(target.inputs if several else ["x"], target.input_shapes, strict=False):
        if not _fits(found := arrays[name].shape[1:], shape):
            raise ConfigError(
                f"{places[name]}: has rows of shape {list(found)}, but the model takes {list(shape)}; in keras.Input, "
                "None is a size that may vary"
            )
    return arrays


def _fits(found: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    """Return whether a row's shape fits another, in which None is any size. Keras adds and removes a last axis of 1."""
    return any(_equal(one, other) for one in _with_and_without_one(found) for other in _with_and_without_one(wanted))


def _with_and_without_one(shape: Sequence[int | None]) -> Iterator[Sequence[int | None]]:
    yield shape
    while shape and shape[-1] == 1:
        yield (shape := shape[:-1])


def _equal(found: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(None in pair or pair[0] == pair[1] for pair in pairs)


def _array(where: str, values: Any) -> Array:
    """Return `values` as an array of numbers. Raise ConfigError for other values, and for missing values."""
    kind = type(values)
    if values is None or not (hasattr(values, "__array__") or isinstance(values, list | tuple)):
        more = "; for rows that do not fit in memory, give a DataFrame of Spark" if where == "x" else ""
        raise ConfigError(f"{where}: must be a NumPy array or a pandas frame of numbers (is {kind.__name__}){more}")
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ConfigError(f"{where}: must hold numbers (its dtype is {array.dtype})")
    if array.ndim == 0:
        raise ConfigError(f"{where}: must have one entry per row (is one number)")
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    if array.dtype.kind == "f":
        array = array.astype(np.float32) if array.dtype.itemsize < 4 else array
        missing = np.isnan(array).reshape(len(array), -1).any(axis=1) if array.size else np.zeros(0, bool)
        if missing.any():
            raise ConfigError(f"{where}: row {int(np.argmax(missing))} has a missing value (NaN); replace it first")
    return array


def _weights(where: str, values: Any) -> Array | None:
    if values is None:
        return None
    array = _array(where, values).astype(np.float32)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ConfigError(f"{where}: must be one weight per row, [rows] (its shape is {list(array.shape)})")
    return array


def _count(where: str, inputs: Rows, labels: Array, weights: Array | None) -> int:
    """Return the number of rows. Raise ConfigError if the arrays differ in it, or if there is no row."""
    counts = {**{name: len(array) for name, array in inputs.items()}, "y": len(labels)}
    if weights is not None:
        counts["sample_weight"] = len(weights)
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ConfigError(f"{where}x, y and sample_weight must have equally many rows ({told})")
    if not len(labels):
        raise ConfigError(f"{where}x: has no rows")
    return len(labels)


def _labels(given: Mapping[str, Array], target: Target) -> tuple[dict[str, Array], int | None]:
    """Return (labels by split, number of classes or None) as `from_arrays` takes them."""
    labels = {name: _fitted(array, target) for name, array in given.items()}
    classes, loss = target.classes, target.loss
    for name, array in labels.items():
        _check_kind("y" if name == "train" else f"y ({name})", array.shape[1:], target)
    if classes is None or (loss != SPARSE and not all(_are_classes(array, 2) for array in labels.values())):
        return {name: _numbers(array) for name, array in labels.items()}, None
    for name, array in labels.items():
        if not _are_classes(array, classes):
            raise ConfigError(
                f"y: the {name} labels must be whole numbers from 0 to {classes - 1} (they are {array.min()} to "
                f"{array.max()}): the loss is {loss}, and the model has {classes} outputs"
            )
    return {name: array.astype(np.int64) for name, array in labels.items()}, classes


def _check_kind(where: str, shape: Sequence[int], target: Target) -> None:
    """Raise ConfigError for one-hot rows if the loss takes class numbers, and the reverse. shape: of a row of y."""
    numbers, one_hot = _fits(shape, target.shape[:-1]), len(target.shape) > 0 and _fits(shape, target.shape)
    if target.loss == SPARSE and one_hot and not numbers:
        raise ConfigError(
            f"{where}: has one-hot rows of shape {list(shape)}, but the loss {SPARSE} takes class numbers; give "
            "y.argmax(axis=-1), or compile the model with loss='categorical_crossentropy'"
        )
    if target.loss in _ONE_HOT and numbers and not one_hot:
        raise ConfigError(
            f"{where}: has class numbers, but the loss {target.loss} takes one-hot rows of shape {list(target.shape)}; "
            f"give keras.utils.to_categorical(y, {target.shape[-1]}), or compile the model with loss={SPARSE!r}"
        )
    wanted = target.shape[:-1] if target.classes is not None else target.shape
    if (target.classes is not None or target.loss in _ONE_HOT) and not _fits(shape, wanted):
        raise ConfigError(
            f"{where}: has labels of shape {list(shape)} per row, but the loss {target.loss} and the model's output of "
            f"shape {list(target.shape)} take {list(wanted)}"
        )


def _fitted(labels: Array, target: Target) -> Array:
    """Return labels without a last axis of one, as Keras squeezes it."""
    is_column = labels.ndim > 1 and labels.shape[-1] == 1 and labels.ndim == len(target.shape) + 1
    return labels[..., 0] if is_column else labels


def _are_classes(labels: Array, classes: int) -> bool:
    return bool(((labels >= 0) & (labels < classes) & (labels == np.floor(labels))).all())


def _numbers(labels: Array) -> Array:
    return labels if labels.dtype.kind == "f" else labels.astype(np.float32)
