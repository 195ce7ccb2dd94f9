"""The weights in a model file of Keras, taken over by another model layer by layer.

Layers go by their names, as both models' files of weights have them: what code the other model was made by, and
whether it can be loaded here, does not matter.
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
from hdfs_io.errors import using
from sparksplit.base.errors import InputError

_MEMBER = "model.weights.h5"
_LAYERS, _OWN = "layers", "vars"
"""In Keras's file of weights: the group of the layers that a model is made of, and that of what something itself has,
whose attribute `name` is its name."""


@dataclass(frozen=True)
class Taken:
    """Names of layers with weights: those that begin with the other model's, and those that begin with their own."""

    layers: list[str]
    fresh: list[str]


def weights_in(file: str) -> bytes:
    """The weights in the model file `file` (.keras), as a file of HDF5. Raises InputError where it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(filesystem.read_bytes(file))) as archive:
            return archive.read(_MEMBER)
    except (zipfile.BadZipFile, KeyError):
        raise InputError(f"{file}: is not a Keras model file (.keras)") from None


def digest_of(weights: bytes) -> str:
    """A short hash of what `weights_in` gives; two files of the same model and weights have the same."""
    return hashlib.sha256(weights).hexdigest()[:16]


def take(model: Any, weights: bytes, scratch: str, apply: bool = True) -> Taken:
    """Give each layer of the Keras model `model` the weights of the layer of the same name and shapes in `weights`.

    scratch: a local folder. apply: False only says which layers these are.

    Raises ValueError where there is no such layer, or `weights` is no file of weights; the model is then as it was.
    """
    import h5py

    own = Path(scratch) / "init.weights.h5"
    try:
        with using(scratch, "cannot be written"):
            model.save_weights(own)
        with _opened(weights) as source, h5py.File(own, "r+") as target:
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
            model.load_weights(own)
    finally:
        own.unlink(missing_ok=True)
    return Taken(layers, [name for name in here if name not in layers])


def _opened(weights: bytes) -> Any:
    import h5py

    try:
        return h5py.File(io.BytesIO(weights), "r")
    except OSError:
        raise ValueError("is damaged: its weights are not HDF5") from None


def _by_name(model: Any) -> dict[str, dict[str, Any]]:
    """The arrays of every layer; of several with one name, in different models within the model, by their turn."""
    found: dict[str, dict[str, Any]] = {}
    for name, arrays in _layers(model):
        turn, own = 1, name
        while own in found:
            turn += 1
            own = f"{name} ({turn})"
        found[own] = arrays
    return found


def _layers(model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, arrays by their place within it) of every layer with weights; a model within the model is taken apart,
    any other layer is one with whatever it is made of."""
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
    """The layers and the shapes of their weights, for people."""
    return (
        ", ".join(
            f"{name} {' '.join(str(list(array.shape)) for array in arrays.values())}" for name, arrays in layers.items()
        )
        or "none"
    )
