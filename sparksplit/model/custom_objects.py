"""The user's own classes and functions in a Keras model of the user's session. Imports Keras, which made the model."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras

from hdfs_io.errors import using_own
from sparksplit.base import code_identity
from sparksplit.base.own_folders import own_folder, temporary_folder
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
    """Return the model's `get_compile_config`, with all arguments of the loss, and without the arguments of Keras's
    metrics that are their defaults. Keras leaves out some, such as Huber's delta. None for a model that is not
    compiled."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The object being serialized includes a `lambda`")
        config = model.get_compile_config() if model.compiled else None
        if not config:
            return None
        loss = only(getattr(model, "loss", None))
        if isinstance(loss, keras.losses.Loss):
            config["loss"] = written_loss(loss)
        for key in ("metrics", "weighted_metrics"):
            metrics = model._compile_config.config.get(key)
            if metrics is not None:
                config[key] = [written_metric(one) for one in keras.tree.flatten(metrics) if one is not None]
    return dict(config)


def written_loss(loss: Any) -> Any:
    """Return a serialised loss with all of its arguments. Keras leaves out those of the function that it wraps."""
    written: Any = keras.saving.serialize_keras_object(loss)
    arguments = getattr(loss, "_fn_kwargs", None)
    if not arguments or not isinstance(loss, keras.losses.Loss):
        return written
    signature = inspect.signature(type(loss)).parameters
    changed = {name: one for name, one in arguments.items() if name in signature and one != signature[name].default}
    return {**written, "config": {**written["config"], **changed}}


def written_metric(metric: Any) -> Any:
    """Return a serialised metric without the arguments that a metric has which is made without arguments."""
    written: Any = metric if isinstance(metric, str) else keras.saving.serialize_keras_object(metric)
    if not isinstance(metric, keras.metrics.Metric):
        return written
    try:
        plain = type(metric)().get_config()
    except TypeError:  # the class has arguments without defaults
        return written
    given = written["config"].items()
    return {**written, "config": {key: one for key, one in given if key not in plain or plain[key] != one}}


def custom_objects(model: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's own classes and functions in a model, by the names that its configuration `config` uses.

    Raise ValueError for an object that cannot be found, and for two different objects of one name. The message names
    them.
    """
    held: dict[str, list[Any]] = {}
    for each in (*_near(model), *_classes(model)):
        for name in {each.__name__, keras.saving.get_registered_name(each)}:
            held.setdefault(name, []).append(each)
    objects: dict[str, Any] = {}
    for kind in _classes(model):
        for name in (keras.saving.get_registered_name(kind), kind.__name__):
            objects[name] = _only(name, held)
    for name, module, what in _named(config):
        if name in objects:
            continue
        one = _only(name, held) or keras.saving.get_registered_object(name) or _attribute(module, name)
        if one is None:
            raise ValueError(
                f"{what} {name!r} of the model cannot be found, so it cannot be sent to the nodes; register it with "
                "keras.saving.register_keras_serializable"
            )
        if str(getattr(one, "__module__", "")).partition(".")[0] not in _LIBRARIES:
            objects[name] = one
    return objects


def _only(name: str, held: Mapping[str, list[Any]]) -> Any:
    """Return the object that the model holds under a name; None without one. Raise ValueError if it holds several."""
    several = held.get(name, [])
    different = [one for one in several if one is not several[0]]
    if different and len({code_identity.identity_of(one) for one in several}) > 1:
        raise ValueError(f"the model has two different functions or classes called {name!r}; give them different names")
    return several[0] if several else None


def register(objects: Mapping[str, Any]) -> None:
    """Make Keras know `objects` in this process, by their names. A name with > is a package and a name."""
    for name, one in objects.items():
        package, inside, short = name.rpartition(">")
        if inside:
            keras.saving.register_keras_serializable(package, short)(one)
        else:
            keras.saving.get_custom_objects()[name] = one


@contextmanager
def registered(objects: Mapping[str, Any]) -> Iterator[None]:
    """Make Keras know `objects` as `register` does, but only within the context."""
    registry = keras.saving.get_custom_objects()
    before = {name: registry[name] for name in objects if name in registry}
    try:
        with keras.saving.CustomObjectScope(dict(objects)):
            registry.update(objects)
            yield
    finally:
        for name in objects:
            registry.pop(name, None)
        registry.update(before)


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
        elif "registered_name" in part and not str(module or "").startswith(_LIBRARIES):
            registered = part["registered_name"]
            yield registered if isinstance(registered, str) else kind, module or "", "class"


def _near(model: Any) -> Iterator[Any]:
    """Yield functions and classes of the objects that the model holds: its layers, loss, metrics and optimizer."""
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    held: list[Any] = [only(getattr(model, "loss", None)), optimizer, getattr(optimizer, "_learning_rate", None)]
    for layer in model._flatten_layers():
        held += [*vars(layer).values()]
    for one in (*held, *compiled_metrics(model)):
        if callable(one) and isinstance(getattr(one, "__name__", None), str):
            yield one
        elif one is not None and not type(one).__module__.startswith(_LIBRARIES):
            yield type(one)


def only(loss: Any) -> Any:
    """Return the loss within a list or a mapping of one loss."""
    if isinstance(loss, list | tuple | dict) and len(loss) == 1:
        return only(next(iter(loss.values() if isinstance(loss, dict) else loss)))
    return loss


def compiled_metrics(model: Any) -> list[Any]:
    """Return the metrics that the model was compiled with: names, functions and objects."""
    kept = getattr(vars(model).get("_compile_config"), "config", None) or {}
    flat = [one for key in ("metrics", "weighted_metrics") for one in keras.tree.flatten(kept.get(key) or [])]
    return [one for one in flat if one is not None]


def _attribute(module: str, name: str) -> Any:
    """Return `name` of a module, or of the user's program."""
    for place in (module, "__main__"):
        one = getattr(sys.modules.get(place), name, None)
        if one is not None:
            return one
    return None
