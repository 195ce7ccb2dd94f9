"""Checks before training that a model can be saved, and loaded again with its builder's classes and functions."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from hdfs_io.errors import errno_of, may_pass, using_own
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.model import export
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.writing import writing

_LONGEST = 200
_COPY = "sparksplit-loaded-"
_LIBRARIES = ("keras.", "tensorflow.")
"""Modules whose functions hold nothing that an export would not find."""


class NotSavedError(ValueError):
    """A model cannot be saved, or cannot be loaded again."""


def supplied(build: Callable[..., Any]) -> dict[str, Any]:
    """Return the classes and functions in the module of a model's builder, by name.

    Keras loads a model with them if they are not registered. Objects that the module imports from Keras are left out.
    Keras has two classes of some names: `Add` is a layer, and also the operation of `x + y`.
    """
    objects = [each for each in getattr(build, "__globals__", {}).values() if isinstance(each, type | FunctionType)]
    return {each.__name__: each for each in objects if not str(each.__module__).startswith("keras.")}


def load(file: Path, known: Mapping[str, Any] | None = None, trusted: bool = False) -> Any:
    """Return the uncompiled Keras model in `file`.

    known: classes and functions that Keras may need, by name. trusted: whether Python code within the file, as of a
    Lambda layer, may run.
    """
    return keras.saving.load_model(file, custom_objects=known, compile=False, safe_mode=not trusted)


def load_bytes(content: bytes, known: Mapping[str, Any] | None = None, trusted: bool = False) -> Any:
    """Return the same as `load` for the content of a file."""
    with own_folder(temporary_folder(), _COPY) as folder:
        file = folder / export.KERAS
        with using_own(str(folder)):
            file.write_bytes(content)
        return load(file, known, trusted)


def try_out(model: Any, known: Mapping[str, Any], inputs: Inputs, scratch: str, trusted: bool = False) -> None:
    """Save a model like a trained model, and load the model again. Raise NotSavedError if this fails.

    known, trusted: as for `load`.

    The SavedModel is tried only if the user's code is in some layer, because the export takes several times as long as
    the rest. Graphs of Keras's own layers hold nothing that Keras would not find. scratch: a local folder.
    """
    local = Path(scratch) / "tried"
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with writing(scratch):
            local.mkdir()
        try:
            model.save(local / export.KERAS)
            load(local / export.KERAS, known, trusted)
        except Exception as error:
            with writing(scratch):
                _raise_if_of_host(error, scratch)
            raise NotSavedError(_told(model, known, error, trusted)) from error
        if any(map(_has_own_code, model._flatten_layers())):
            _try_export(model, inputs, scratch, local)
    finally:
        shutil.rmtree(local, ignore_errors=True)
        # Undo the random draws for the loaded model's initial weights.
        random.setstate(state)
        np.random.set_state(numpy_state)


def _has_own_code(layer: Any) -> bool:
    """Return whether the layer's class is not Keras's own, or an attribute is a function or another callable of the
    user, as of `Lambda`, or as an activation."""
    called = [each for each in vars(layer).values() if callable(each)]
    return not all(_module(each).startswith(_LIBRARIES) for each in (type(layer), *called))


def _module(called: Any) -> str:
    """Return the module that the code of a function, class or callable object is in."""
    while isinstance(called, partial):
        called = called.func
    return str(getattr(called, "__module__", None) or type(called).__module__)


def _try_export(model: Any, inputs: Inputs, scratch: str, local: Path) -> None:
    try:
        export.archive_of(model, inputs).write_out(str(local / export.SAVED_MODEL), verbose=False)
    except Exception as error:
        with writing(scratch):
            _raise_if_of_host(error, scratch)
        raise NotSavedError(f"cannot be exported as a SavedModel: {_reason(error)}") from error


def _raise_if_of_host(error: Exception, scratch: str) -> None:
    """Raise `error` if the host is the cause, and not the model: a full disk, a lost folder, too little memory."""
    number = errno_of(error)
    # The model's own code may use other files: one that does not exist, or that it may not read.
    other_file = isinstance(error, OSError) and number != errno.EROFS and not may_pass(error)
    if number is not None and not (other_file and scratch not in str(error)):
        raise error
    if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
        raise error


def _told(model: Any, known: Mapping[str, Any], error: Exception, trusted: bool) -> str:
    """Return the message for a model that cannot be saved or loaded: the layer, Keras's reason, and what to do."""
    layer, error = _culprit(model, known, trusted) or (model, error)
    return (
        f"{layer.name!r} ({type(layer).__name__}) cannot be saved and loaded again, so the trained model could not be "
        f"either: {_reason(error)}. Use classes and functions that are defined at the top of the builder's file, or "
        "registered (keras.saving.register_keras_serializable). A class whose arguments are not plain values needs "
        "get_config"
    )


def _culprit(layer: Any, known: Mapping[str, Any], trusted: bool) -> tuple[Any, Exception] | None:
    """Return (the innermost layer that cannot be made from its description, the error).

    None: all layers can be made.
    """
    for inner in getattr(layer, "layers", []):
        if culprit := _culprit(inner, known, trusted):
            return culprit
    try:
        written = keras.saving.serialize_keras_object(layer)
        keras.saving.deserialize_keras_object(written, custom_objects=known, safe_mode=not trusted)
    except Exception as error:
        return layer, error
    return None


def _reason(error: Exception) -> str:
    """Return the first sentence of an error, on one line."""
    return " ".join(str(error).split()).split(". ")[0][:_LONGEST] or type(error).__name__
