"""Checks on the driver that a model of the user's session reaches the nodes unchanged. Imports Keras.

The driver loads the bytes that a node gets, and compares the result with the user's model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from sparksplit.model import saving
from sparksplit.model.compiled import Compiled, NotAKeyError
from sparksplit.model.custom_objects import compiled_metrics, only, registered
from sparksplit.model.metric_kinds import REPLACED, plain

_STEPS = (
    *("train_step", "test_step", "predict_step", "compute_loss", "_compute_loss", "compute_metrics"),
    *("make_train_function", "make_test_function", "get_metrics_result"),
)
_NUMBERS = ("float", "int", "uint", "bool")
_PLAIN = (bool, int, float, str, bytes, type(None))


def overridden(model: Any) -> str | None:
    """Return a method of Keras's training that the model replaces by its own; None if it replaces none."""
    return next((name for name in _STEPS if name in vars(model) or _replaces(type(model), name)), None)


def _replaces(kind: type, name: str) -> bool:
    return getattr(kind, name, None) is not getattr(keras.Model, name, None)


def check(model: Any, content: bytes, objects: Mapping[str, Any], compile_config: Mapping[str, Any] | None) -> None:
    """Raise ValueError with the first difference between a model and what the nodes make of it.

    content: the `.keras` file. objects: the model's own classes and functions, as a node unpickles them.
    """
    if (method := overridden(model)) is not None:
        raise ValueError(
            f"{model.name} has its own {method}, which the nodes would not call; use loss=, metrics= and add_loss"
        )
    states = random.getstate(), np.random.get_state()
    try:
        with registered(objects):
            try:
                arrived = saving.load_bytes(content, objects, trusted=True)
            except Exception as error:  # the user's own code
                raise ValueError(
                    f"{model.name} cannot be loaded again: {_why(error)}; its classes need a get_config with all of "
                    "their arguments"
                ) from error
            _check_variables(model, arrived)
            _check_outputs(model, arrived)
            _check_compiled(model, compile_config, objects)
    finally:  # undo the draws for the loaded model's initial weights
        random.setstate(states[0])
        np.random.set_state(states[1])


def _check_variables(model: Any, arrived: Any) -> None:
    ours, theirs = _variables(model), _variables(arrived)
    if len(ours) != len(theirs):
        raise ValueError(f"{model.name} has {len(ours)} variables, but {len(theirs)} after it is loaded again")
    for (path, *facts), (_, *others) in zip(ours, theirs, strict=True):
        for what, one, other in zip(("shape", "trainable"), facts, others, strict=True):
            if one != other:
                raise ValueError(
                    f"{path} of {model.name} has {what}={one}, but {what}={other} after the model is loaded again; set "
                    "it where the model's class makes the layer"
                )


def _variables(model: Any) -> list[tuple[str, tuple[int, ...], bool]]:
    trained = {id(each) for each in model.trainable_variables}
    return [(each.path, tuple(each.shape), id(each) in trained) for each in model.weights]


def _check_outputs(model: Any, arrived: Any) -> None:
    row = _row(model)
    if row is None:
        return
    try:
        first, again = _numbers(model(row, training=False)), _numbers(model(row, training=False))
    except Exception:  # the row need not fit; the nodes check the data's shapes
        return
    if not _close(first, again):
        return  # the outputs are random
    try:
        other = _numbers(arrived(row, training=False))
    except Exception as error:  # the user's own code, such as a lambda whose names are missing
        raise ValueError(
            f"{model.name} fails after it is loaded again: {_why(error)}; a lambda does not take names from outside "
            "along, so use a function"
        ) from error
    if not _close(first, other):
        raise ValueError(
            f"{model.name} gives other outputs after it is loaded again; its layers need a get_config with all of "
            "their arguments"
        )


def _why(error: Exception) -> str:
    """Return the type and the first line of an error, without Keras's header and the codes of a terminal."""
    lines = (line.strip() for line in re.sub(r"\x1b\[[\d;]*m", "", str(error)).splitlines())
    first = next((line for line in lines if line and not line.startswith("Exception encountered")), "")
    return f"{type(error).__name__}: {first[:200].rstrip('.')}"


def _row(model: Any) -> Any:
    """Return one row of random numbers for the model's inputs; None if their shapes are not known."""
    draws = np.random.default_rng(0)

    def drawn(shape: Any, dtype: Any) -> Any:
        sizes = [8 if size is None else size for size in shape[1:]]
        return draws.random((1, *sizes)).astype("float32").astype(dtype)

    inputs = getattr(getattr(model, "_functional", None) or model, "_inputs_struct", None)
    if inputs is not None:
        if not all(str(each.dtype).startswith(_NUMBERS) for each in keras.tree.flatten(inputs)):
            return None
        return keras.tree.map_structure(lambda each: drawn(each.shape, each.dtype), inputs)
    shape = (model.get_build_config() or {}).get("input_shape") if model.built else None
    if isinstance(shape, list | tuple) and shape and all(size is None or isinstance(size, int) for size in shape):
        return drawn(shape, "float32")
    return None


def _numbers(outputs: Any) -> list[Any]:
    return [np.asarray(keras.ops.convert_to_numpy(each), "float64") for each in keras.tree.flatten(outputs)]


def _close(ours: list[Any], theirs: list[Any]) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return all(a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5, equal_nan=True) for a, b in pairs)


def _check_compiled(model: Any, compile_config: Mapping[str, Any] | None, objects: Mapping[str, Any]) -> None:
    try:
        compiled = Compiled.of(compile_config)
    except NotAKeyError:  # is reported with its key, as soon as the configuration is known
        return
    if compiled.optimizer is not None and model.optimizer is not None:
        _check_optimizer(model, dict(compiled.optimizer))
    loss = only(getattr(model, "loss", None))
    if isinstance(loss, keras.losses.Loss) and compiled.loss is not None:
        named = compiled.loss if isinstance(compiled.loss, dict) else {"name": compiled.loss}
        made = _remade("loss", keras.losses, named)
        _same("loss", loss, made, keras.losses.Loss())
        _same_losses(loss, made)
    for metric in compiled_metrics(model):
        name = getattr(metric, "__name__", type(metric).__name__)
        if name in objects and _is_ours(name):
            raise ValueError(
                f"metric {name!r} is your own, but sparksplit has a metric of this name; give yours another name"
            )
        if isinstance(metric, keras.metrics.Metric) and not _is_of_keras(metric):
            try:
                made = type(metric)()
            except TypeError as error:
                raise ValueError(f"metric {name}: the nodes make it without arguments, but: {error}") from None
            _same(f"metric {name}", metric, made, keras.metrics.Mean())


def _is_ours(name: str) -> bool:
    return plain(name) in REPLACED


def _check_optimizer(model: Any, keys: dict[str, Any]) -> None:
    optimizer, wrapped = model.optimizer, isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    if wrapped:
        usual = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
        _same("optimizer LossScaleOptimizer", optimizer, usual, usual)
        optimizer = optimizer.inner_optimizer
    elif model.dtype_policy.name == "mixed_float16":
        raise ValueError(f"{model.name} is compiled with auto_scale_loss=False; the nodes always scale a float16 loss")
    for exclusion in ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern"):
        if getattr(optimizer, exclusion, None):
            raise ValueError(
                "optimizer.exclude_from_weight_decay is not supported: the nodes would apply weight_decay to all "
                "variables"
            )
    rate = keys.get("learning_rate")
    if isinstance(rate, dict):
        keys["learning_rate"] = _remade("learning rate", keras.optimizers.schedules, rate)
        _same("learning rate", optimizer._learning_rate, keys["learning_rate"], object())
    _same("optimizer", optimizer, _remade("optimizer", keras.optimizers, keys), keras.optimizers.SGD())


def _remade(what: str, module: Any, keys: Mapping[str, Any]) -> Any:
    """Return the object that the nodes make from the keys of the configuration."""
    name = str(keys["name"])
    known: dict[str, Any] = {each.lower(): one for each, one in vars(module).items() if isinstance(one, type)}
    kind = known.get(name.lower().replace("_", "")) or keras.saving.get_registered_object(name)
    if kind is None:
        raise ValueError(f"{what} {name} cannot be found; register it with keras.saving.register_keras_serializable")
    try:
        return kind.from_config({key: value for key, value in keys.items() if key != "name"})
    except Exception as error:  # the user's own class
        raise ValueError(f"{what} {name} cannot be made again from its get_config: {error}") from error


def _same(what: str, ours: Any, theirs: Any, usual: Any) -> None:
    """Compare the configurations and the plain attributes of two objects. usual: an object whose attributes are not
    compared."""
    if _is_of_keras(ours) != _is_of_keras(theirs):
        raise ValueError(f"{what}: {type(ours).__name__} has the name of a class of Keras; rename yours")
    known = {*(vars(usual) if hasattr(usual, "__dict__") else ()), "name", "reduction", "built"}
    config, made_config = _config(ours), _config(theirs)
    facts, made_facts = _attributes(ours, known), _attributes(theirs, known)
    pairs = {key: (config.get(key), made_config.get(key)) for key in {**config, **made_config}}
    # Attributes that only one of the two has are state, as after `fit`.
    pairs |= {key: (one, made_facts[key]) for key, one in facts.items() if key in made_facts}
    for key, (one, other) in pairs.items():
        if not _equal(one, other):
            raise ValueError(
                f"{what}: {type(ours).__name__} has {key}={one!r}, but {other!r} after it is made again from its "
                "get_config; return all arguments from get_config"
            )


def _is_of_keras(one: Any) -> bool:
    return type(one).__module__.startswith("keras.")


def _config(one: Any) -> dict[str, Any]:
    left_out = {"name", "reduction", "inner_optimizer", "learning_rate", "dtype"}
    return {key: value for key, value in one.get_config().items() if key not in left_out}


def _attributes(one: Any, known: set[str]) -> dict[str, Any]:
    attributes = {**vars(one), **getattr(one, "_fn_kwargs", {})}
    return {key: value for key, value in attributes.items() if key not in known and _is_plain(value)}


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, list | tuple) and all(map(_is_plain, value)))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float | int):
        return bool(np.isclose(one, other, 1e-6, 0, equal_nan=True))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(np.all(one == other))


def _same_losses(loss: Any, made: Any) -> None:
    """Compare two losses on a few numbers."""
    outputs = np.array([[0.2, 0.7, 0.1], [0.6, 0.1, 0.3]], "float32")
    for labels in (np.array([0, 2]), np.array([[1.0, 0.0, 0.0], [30.0, -4.0, 0.5]], "float32")):
        try:
            first, again = _numbers(loss.call(labels, outputs)), _numbers(loss.call(labels, outputs))
        except Exception:  # labels of this kind do not fit the loss
            continue
        if _close(first, again) and not _close(first, _numbers(made.call(labels, outputs))):
            raise ValueError(
                f"loss: {type(loss).__name__} gives other losses after it is made again from its get_config"
            )
