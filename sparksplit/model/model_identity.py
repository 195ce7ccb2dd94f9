"""What a Keras model is, as data, read from the parts of its `.keras` file without Keras.

Automatic names such as `dense_3` count the layers of a session, and a file holds a date. Neither is part of a model's
identity.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sparksplit.base.config import digest
from sparksplit.model.compiled import Compiled
from sparksplit.model.metric_kinds import snake

_OPTIMIZER = "optimizer"
"""The group of the optimizer's state in a file of weights. Training begins with a new optimizer."""
_LAMBDA = "__lambda__"


def identity_of(config: Mapping[str, Any], weights: bytes, compiled: Compiled | None, code: str = "") -> str:
    """Return 16 hexadecimal digits that are the same for the same model in any session.

    config: the content of config.json. weights: the file of weights (HDF5). compiled: what the model was compiled with;
    None: it cannot be told. code: the identity of the model's own classes and functions.
    """
    # The names that metrics have in Keras's History count the metrics of a session.
    keys = None if compiled is None else {**vars(compiled), "shown": None}
    weighed = digest_of_weights(weights)
    return digest({"config": normalised(config), "weights": weighed, "compiled": keys, "code": code})


def normalised(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's configuration without the compiled values, and with automatic names and ids by position."""
    kept = {key: value for key, value in config.items() if key != "compile_config"}
    names: dict[str, str] = {}
    for part in parts(kept):
        name = _own_name(part)
        if name is not None and name not in names and is_automatic(str(part["class_name"]), name):
            names[name] = f"{_snake(str(part['class_name']))}#{len(names)}"
    renamed = _renamed(kept, names, {})
    assert isinstance(renamed, dict)
    return renamed


def digest_of_weights(weights: bytes) -> str:
    """Return a digest of the arrays in a file of weights, in the order of their places. The layers' names and the
    optimizer's state do not count."""
    import h5py

    hashed = hashlib.sha256()

    def add(place: str, item: Any) -> None:
        if hasattr(item, "shape") and place.partition("/")[0] != _OPTIMIZER:
            array = item[...]
            hashed.update(f"{place} {array.dtype.str} {array.shape}".encode())
            hashed.update(array.tobytes())

    with h5py.File(io.BytesIO(weights), "r") as file:
        file.visititems(add)
    return hashed.hexdigest()[:16]


def called(config: Mapping[str, Any]) -> str:
    """Return the model's name, without the number of an automatic name."""
    name, kind = _own_name(config) or "", str(config.get("class_name", "model"))
    return _snake(kind) if not name or is_automatic(kind, name) else name


def is_automatic(kind: str, name: str) -> bool:
    """Return whether Keras may have given the name itself: `dense_3` for the class Dense."""
    return re.fullmatch(re.escape(_snake(kind)) + r"(_\d+)?", name) is not None


def outputs(config: Mapping[str, Any]) -> int | None:
    """Return the number of outputs of a functional model; None for other models."""
    inner = config.get("config")
    named = inner.get("output_layers") if isinstance(inner, dict) else None
    if named is None:
        return None
    # A single output is [name, number, number].
    return 1 if isinstance(named, list) and named and isinstance(named[0], str) else len(named)


def policies(config: Mapping[str, Any]) -> set[str]:
    """Return the names of the layers' float types and mixed precision policies."""
    found = set()
    for part in parts(config):
        inner = part.get("config")
        dtype = inner.get("dtype") if isinstance(inner, dict) and part["class_name"] != "InputLayer" else None
        if isinstance(dtype, dict) and isinstance(dtype.get("config"), dict):
            dtype = dtype["config"].get("name")
        if isinstance(dtype, str) and ("float" in dtype or dtype.startswith("mixed_")):
            found.add(dtype)
    return found


def has_code(config: Mapping[str, Any]) -> bool:
    """Return whether the configuration holds Python code, which loading the model runs: a Lambda layer's function."""
    return any(part["class_name"] == _LAMBDA for part in parts(config))


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield each object's description {class_name, config, ...} within a configuration, outer objects first."""
    if isinstance(value, dict):
        if isinstance(value.get("class_name"), str):
            yield value
        for inner in value.values():
            yield from parts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from parts(inner)


def _own_name(part: Mapping[str, Any]) -> str | None:
    inner = part.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else None


def _renamed(value: Any, names: Mapping[str, str], ids: dict[Any, int], within: str = "") -> Any:
    """Replace names where layers are named, and ids by the order of their first use. within: the key that holds
    `value`."""
    if isinstance(value, dict):
        changed = {}
        for key, inner in value.items():
            if key == "shared_object_id":
                changed[key] = ids.setdefault(inner, len(ids))
            elif key in ("keras_history", "input_layers", "output_layers"):
                changed[key] = _renamed(inner, names, ids, key)
            else:
                changed[key] = _renamed(inner, names, ids, within if within else "name" if key == "name" else "")
        return changed
    if isinstance(value, list | tuple):
        return [_renamed(inner, names, ids, within) for inner in value]
    return names.get(value, value) if within and isinstance(value, str) else value


def _snake(kind: str) -> str:
    """Return the beginning of an automatic name, as Keras makes it from the class."""
    return snake(re.sub(r"\W+", "", kind))
