"""What `fit` reads from a compiled Keras model, and how the model gets the trained weights."""

from __future__ import annotations

import warnings
from typing import Any

from hdfs_io import filesystem
from hdfs_io.errors import using_own
from sparksplit.api.fit_rows import Target
from sparksplit.base.errors import ConfigError
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.model import own_model
from sparksplit.model.compiled import Compiled, NotAKeyError
from sparksplit.model.metric_kinds import snake


def compiled_of(model: Any) -> Compiled:
    """Return what `model` was compiled with. Raise ConfigError if it is not a built and compiled Keras model with one
    output, or if a compiled value has no key."""
    import keras

    from sparksplit.model.custom_objects import compile_config

    if not isinstance(model, keras.Model):
        raise ConfigError(f"model: must be a keras.Model (is {type(model).__name__})")
    if not model.compiled or model.loss is None:
        raise ConfigError(
            "model: is not compiled; call model.compile(optimizer=..., loss=...) first, as for Keras's fit"
        )
    if not model.built:
        raise ConfigError("model: has no weights yet; begin it with keras.layers.Input, or call it on a few rows first")
    if not hasattr(model, "output_shape") or isinstance(model.output_shape, list | dict):
        raise ConfigError("model: must be Sequential or functional, with one output")
    try:
        return Compiled.of(compile_config(model))
    except NotAKeyError as error:
        raise ConfigError(f"model: {error}") from None


def target_of(model: Any, compiled: Compiled) -> Target:
    """Return what a compiled model computes."""
    loss = compiled.loss["name"] if isinstance(compiled.loss, dict) else str(compiled.loss)
    names = [each.name.partition(":")[0] for each in model.inputs]
    return Target(snake(loss), tuple(model.output_shape[1:]), names, [tuple(each.shape[1:]) for each in model.inputs])


def take_weights(model: Any, run: str) -> None:
    """Give `model` the weights of the finished run in the folder `run`. This runs no code of the folder."""
    from sparksplit.model.export import KERAS

    content, _ = own_model.read(filesystem.join(run, KERAS))
    with own_folder(temporary_folder(), "sparksplit-weights-") as folder, warnings.catch_warnings():
        with using_own(str(folder)):
            (folder / KERAS).write_bytes(content)
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")  # the run's file has none
        model.load_weights(folder / KERAS)
