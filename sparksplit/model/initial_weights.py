"""Copies the weights of a Keras model file into another model, layer by layer.

Layers are matched by their names in both files of weights. The code of the other model is not needed, and the other
model need not be loadable here.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdfs_io import filesystem
from hdfs_io.errors import using_own
from sparksplit.base.errors import InputError

_MEMBER = "model.weights.h5"
_LAYERS, _OWN = "layers", "vars"
"""Groups in Keras's file of weights: the layers of a model, and an object's own variables.

The attribute `name` of the second group is the object's name.
"""


@dataclass(frozen=True)
class Taken:
    """Names of layers with weights.

    layers: layers that start with the other model's weights. fresh: layers that start with their own weights.
    """

    layers: list[str]
    fresh: list[str]


def weights_in(file: str) -> bytes:
    """Return the weights in the model file `file` (.keras), as an HDF5 file.

    Raise InputError if it is not a model file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(filesystem.read_bytes(file))) as archive:
            return archive.read(_MEMBER)
    except (zipfile.BadZipFile, KeyError):
        raise InputError(f"{file}: is not a Keras model file (.keras)") from None


def digest_of(weights: bytes) -> str:
    """Return a short hash of the bytes from `weights_in`.

    Two files of one model with equal weights have equal hashes.
    """
    return hashlib.sha256(weights).hexdigest()[:16]


def take(model: Any, weights: bytes, scratch: str, apply: bool = True) -> Taken:
    """Copy the weights of each layer in `weights` to the layer of `model` with the same name and shapes.

    scratch: a local folder. apply: False only returns the names of the layers.

    Raise ValueError if no layer matches, or if `weights` is not an HDF5 file. The model is then unchanged.
    """
    import h5py

    file = Path(scratch) / "init.weights.h5"
    try:
        with using_own(scratch):
            model.save_weights(file)
        with _opened(weights) as source, h5py.File(file, "r+") as target:
            there, here = _by_name(source), _by_name(target)
            layers = [name for name, arrays in here.items() if _shapes(arrays) == _shapes(there.get(name, {}))]
            if not layers:
                raise ValueError(
                    f"no layer has the same name and shapes as in this model. The file has {_named(there)}, "
                    f"this model has {_named(here)}"
                )
            for name in layers:
                for key, array in here[name].items():
                    array[...] = there[name][key][...]
        if apply:
            model.load_weights(file)
    finally:
        file.unlink(missing_ok=True)
    return Taken(layers, [name for name in here if name not in layers])


def _opened(weights: bytes) -> Any:
    import h5py

    try:
        return h5py.File(io.BytesIO(weights), "r")
    except OSError:
        raise ValueError("is damaged: its weights are not HDF5") from None


def _by_name(model: Any) -> dict[str, dict[str, Any]]:
    """Return the arrays of every layer by name. Nested models may repeat a name: the next layer is then `NAME (2)`."""
    by_name: dict[str, dict[str, Any]] = {}
    for name, arrays in _layers(model):
        turn, unique = 1, name
        while unique in by_name:
            turn += 1
            unique = f"{name} ({turn})"
        by_name[unique] = arrays
    return by_name


def _layers(model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, arrays by their place in the layer) of every layer with weights.

    A nested model is split into its layers. Any other layer stays whole, with all its parts.
    """
    if _OWN in model and len(model[_OWN]):
        yield _name(model), dict(model[_OWN].items())
    for key, child in model.items():
        if key == _OWN:
            continue
        if _OWN not in child or _LAYERS in child:
            yield from _layers(child)
        elif arrays := dict(_arrays(child, "")):
            yield _name(child), arrays


def _arrays(group: Any, place: str) -> Iterator[tuple[str, Any]]:
    for key, child in group.items():
        if hasattr(child, "shape"):
            yield place + key, child
        else:
            yield from _arrays(child, f"{place}{key}/")


def _name(group: Any) -> str:
    return str(group[_OWN].attrs.get("name", group.name.rpartition("/")[2]))


def _shapes(arrays: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(array.shape) for key, array in arrays.items()}


def _named(layers: dict[str, dict[str, Any]]) -> str:
    """Return a text with the layers and the shapes of their weights."""
    return (
        ", ".join(
            f"{name} {' '.join(str(list(array.shape)) for array in arrays.values())}" for name, arrays in layers.items()
        )
        or "none"
    )
