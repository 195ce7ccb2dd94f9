"""The user's own classes and functions in a Keras model of the user's session. Imports Keras, which made the model."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from hdfs_io.errors import using_own
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.base.pickles import is_users
from sparksplit.model.model_identity import parts

_LIBRARIES = ("keras", "tensorflow", "builtins")
"""Names of modules, or beginnings of names, whose classes every node has."""
_PREFIX = "sparksplit-model-"


def saved(model: Any) -> bytes:
    """Return the model as a `.keras` file. Raise ValueError if Keras cannot save it."""
    with own_folder(temporary_folder(), _PREFIX) as folder:
        file = folder / "model.keras"
        with using_own(str(folder)):
            try:
                with warnings.catch_warnings():
                    # The nodes build such a model on the data's shapes, with new weights.
                    warnings.filterwarnings("ignore", "You are saving a model that has not yet been built")
                    model.save(file)
            except (NotImplementedError, TypeError, ValueError) as error:
                why = " ".join(str(error).split()).split(". ")[0]
                raise ValueError(f"{model.name} cannot be saved, so it cannot be sent to the nodes: {why}") from error
            return file.read_bytes()


def compile_config(model: Any) -> dict[str, Any] | None:
    """Return the model's `get_compile_config`, with all arguments of the loss. Keras leaves out some, such as Huber's
    delta. None for a model that is not compiled."""
    config = model.get_compile_config() if model.compiled else None
    loss = getattr(model, "loss", None)
    arguments = getattr(loss, "_fn_kwargs", None)  # of Keras's own losses that wrap a function
    if config and arguments and isinstance(config.get("loss"), dict):
        signature = inspect.signature(type(loss)).parameters
        changed = {name: one for name, one in arguments.items() if name in signature and one != signature[name].default}
        config["loss"]["config"] = {**config["loss"]["config"], **changed}
    return dict(config) if config else None


def custom_objects(model: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's own classes and functions in a model, by the names that its configuration `config` uses.

    Raise ValueError for an object that cannot be found. The message names it.
    """
    near = {each.__name__: each for each in _near(model)}
    objects: dict[str, Any] = {}
    for kind in _classes(model):
        objects[keras.saving.get_registered_name(kind)] = kind
        objects[kind.__name__] = kind
    for name, module, what in _named(config):
        if name in objects:
            continue
        one = keras.saving.get_registered_object(name) or near.get(name) or _attribute(module, name)
        if one is None:
            raise ValueError(
                f"{what} {name!r} of the model cannot be found, so it cannot be sent to the nodes; register it with "
                "keras.saving.register_keras_serializable"
            )
        if str(getattr(one, "__module__", "")).partition(".")[0] not in _LIBRARIES:
            objects[name] = one
    return objects


def register(objects: Mapping[str, Any]) -> None:
    """Make Keras know `objects` in this process, by their names. A name with > is a package and a name."""
    for name, one in objects.items():
        package, inside, short = name.rpartition(">")
        if inside:
            keras.saving.register_keras_serializable(package, short)(one)
        else:
            keras.saving.get_custom_objects()[name] = one


def _classes(model: Any) -> Iterator[type]:
    """Yield the user's own classes of the model and its layers."""
    for layer in model._flatten_layers():
        if not type(layer).__module__.startswith("keras."):
            yield type(layer)


def _named(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, module, class or function) of each object in a configuration that is not Keras's."""
    for part in parts(config):
        kind, module = part["class_name"], part.get("module")
        if kind == "function":
            if not str(module).startswith("keras"):
                yield str(part["config"]), str(module), "function"
        elif isinstance(module, str) and not module.startswith(_LIBRARIES):
            registered = part.get("registered_name")
            yield registered if isinstance(registered, str) else kind, module, "class"
        elif module is None and ">" in str(part.get("registered_name")):
            yield str(part["registered_name"]), "", "class"


def _near(model: Any) -> Iterator[Any]:
    """Yield functions and classes of the objects that the model holds: its layers, loss, metrics and optimizer."""
    held: list[Any] = [getattr(model, "loss", None), getattr(model, "optimizer", None)]
    held += [getattr(held[1], "_learning_rate", None)]
    for layer in model._flatten_layers():
        held += [*vars(layer).values()]
    compiled = vars(model).get("_compile_config")
    for value in (getattr(compiled, "config", None) or {}).values():
        held += value if isinstance(value, list | tuple) else [value]
    for one in held:
        if callable(one) and isinstance(getattr(one, "__name__", None), str):
            yield one
        elif one is not None and is_users(type(one).__module__):
            yield type(one)


def _attribute(module: str, name: str) -> Any:
    """Return `name` of a module, or of the user's program."""
    for place in (module, "__main__"):
        one = getattr(sys.modules.get(place), name, None)
        if one is not None:
            return one
    return None
