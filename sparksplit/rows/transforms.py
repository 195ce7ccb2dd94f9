"""A user's function on rows. It may change values, but must return each row once, with the same shape and dtype."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import LabelSpec, TensorSpec

Array = npt.NDArray[Any]
Transform = Callable[[dict[str, Array], Array | None, npt.NDArray[np.uint64]], tuple[dict[str, Array], Array | None]]
"""Takes tensors by name [n, ...], label [n, ...] and a seed per row, uint64 [n], for at least one row. Returns the
tensors and the label."""


def transformed(
    transform: Transform,
    tensors: Mapping[str, Array],
    label: Array | None,
    seeds: npt.NDArray[np.uint64],
    specs: Sequence[TensorSpec],
    label_spec: LabelSpec | None,
) -> tuple[list[Array], Array | None]:
    """Apply `transform` to rows. Return (the tensors in the order of `specs`, the labels).

    Raise InputError, with the function's name, if the number of rows, a shape or a dtype has changed. Errors of the
    function pass through.
    """
    result: Any = transform(dict(tensors), label, seeds)
    name, rows = name_of(transform), len(seeds)
    if not isinstance(result, tuple | list) or len(result) != 2 or not isinstance(result[0], Mapping):
        raise InputError(f"{name}: returned {_kind(result)}; a transform must return (tensors by name, label)")
    changed, labels = result
    if set(changed) != set(tensors):
        had, wanted = (", ".join(map(str, names)) or "none" for names in (changed, tensors))
        raise InputError(f"{name}: returned the tensors {had}; a transform must return {wanted}")
    if (labels is None) != (label_spec is None):
        has, wanted = ("no labels", "one a row") if labels is None else ("labels", "None, as the data set has none")
        raise InputError(f"{name}: returned {has}; a transform must return {wanted}")
    arrays = [_checked(name, f"tensor {spec.name}", changed[spec.name], spec, rows) for spec in specs]
    return arrays, None if label_spec is None else _checked(name, "labels", labels, label_spec, rows)


def name_of(transform: Callable[..., Any]) -> str:
    """Return `transform FILE:FUNCTION` for error messages, or `transform NAME` if the object has no code."""
    function = inspect.unwrap(transform)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"transform {name if code is None else f'{code.co_filename}:{name}'}"


def _checked(name: str, what: str, values: Any, spec: TensorSpec, rows: int) -> Array:
    array = np.asarray(values)
    if array.shape[:1] != (rows,):
        has = f"{len(array)} rows" if array.ndim else "a single value"
        raise InputError(
            f"{name}: returned {has} of {what} for {rows} rows; a transform must return each row once, in order"
        )
    if list(array.shape[1:]) != spec.shape or array.dtype != spec.numpy_dtype:
        raise InputError(
            f"{name}: returned {what} as {array.dtype} {list(array.shape[1:])} a row; a transform must keep "
            f"{spec.dtype} {spec.shape}"
        )
    return array


def _kind(result: Any) -> str:
    if isinstance(result, tuple | list):
        return f"{len(result)} values" if len(result) != 2 else f"tensors as a {type(result[0]).__name__}"
    return "nothing" if result is None else f"a {type(result).__name__}"
