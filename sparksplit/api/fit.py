"""`fit`: Keras's `model.fit` on arrays or a DataFrame, on the nodes of a Spark cluster."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from hdfs_io import filesystem
from sparksplit.api.calls import api_call
from sparksplit.api.fit_callbacks import check_callbacks
from sparksplit.api.fit_frames import arrays_of, check_classes, frame_of, is_of_spark
from sparksplit.api.fit_model import compiled_of, take_weights, target_of
from sparksplit.api.fit_rows import FitRows, fit_rows
from sparksplit.api.frames import prepare_for, to_prepare
from sparksplit.api.functions import check_before, spark_frame, train, with_model
from sparksplit.base.config import digest
from sparksplit.base.errors import ConfigError, InputError, SparksplitError, UsageError
from sparksplit.base.options import Options
from sparksplit.base.own_folders import temporary_folder
from sparksplit.base.progress import say
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.model.keras_keys import as_keys
from sparksplit.training.checkpoints import latest

if TYPE_CHECKING:
    import keras
    from pyspark.sql import DataFrame

DATA = "-data"
"""The prepared rows of the run OUTPUT are in the folder OUTPUT-data."""
_REFUSED = {
    "initial_epoch": "leave it out, and give the epochs that are still missing as `epochs`",
    "steps_per_epoch": "leave it out: an epoch is one pass over all rows",
    "validation_steps": "leave it out: all validation rows are validated",
    "validation_freq": "leave it out: each epoch is validated",
    "validation_batch_size": "leave it out: it changes no result",
}
"""Keras's other arguments, with what to do."""


@api_call
def fit(
    model: keras.Model,
    x: Any,
    y: Any = None,
    *,
    nodes: int = 1,
    epochs: int = 1,
    batch_size: int | None = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    class_weight: Mapping[int, float] | None = None,
    sample_weight: Any = None,
    shuffle: bool = True,
    verbose: Any = "auto",
    callbacks: Any = None,
    output: str | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> keras.callbacks.History:
    """Train a compiled Keras model on arrays or a DataFrame, like `model.fit`, on `nodes` nodes. Afterwards the model
    has the trained weights.

    The arguments that Keras's `fit` has mean the same here. `verbose` is ignored: progress reports go to stderr.

    x: an array [rows, ...] or a pandas frame of numbers; for several inputs, a mapping by input or a list. Or a
        DataFrame of Spark, which is prepared as by `train`.
    y: labels [rows, ...]: class numbers or one-hot rows for a crossentropy, otherwise numbers. Or the name of the
        label's column in `x`, a DataFrame of Spark or pandas. `sample_weight` may then be a column's name, too, and
        `validation_data` is (frame, y) or (frame, y, sample_weight).
    nodes: number of nodes that share each mini-batch (`strategy: batch`).
    batch_size: rows of a mini-batch over all nodes; None: 32.
    validation_data: (x, y) or (x, y, sample_weight), instead of `validation_split`, which takes the last rows. Of a
        DataFrame of Spark, `validation_split` takes about this share of the rows, by their hash.
    shuffle: False trains the rows in their own order in every epoch, and gives the weights that Keras's
        `fit(shuffle=False)` gives, up to rounding. True uses sparksplit's order, which is not Keras's.
    callbacks: as for `train`; one callback needs no list.
    output: the run's folder, which stays; the prepared rows are beside it, in OUTPUT-data. The same call again returns
        the finished run. None: a temporary folder, removed at the end. If the run fails after a checkpoint, the folder
        stays, and the log names it.
    overwrite: replace an earlier run in `output`.
    keys: further keys of `train`, such as strategy="local" or checkpoint={"every": "epoch"}. For a DataFrame of Spark,
        the keys of `preprocess` too, such as features=["age", "income"].

    Return Keras's History: `history` (lists by epoch, such as loss and val_loss), `epoch` and `params`. Raise
    UsageError for wrong arguments, RunError or NodeFailed if the run fails.
    """
    import keras

    for name in sorted(keys.keys() & _REFUSED.keys()):
        raise ConfigError(f"{name}: is not an argument of sparksplit.fit: {_REFUSED[name]}")
    listed = list(callbacks) if isinstance(callbacks, list | tuple) else [] if callbacks is None else [callbacks]
    compiled = compiled_of(model)
    target = target_of(model, compiled)
    of_spark = is_of_spark(x)
    if isinstance(y, str) and not of_spark:
        x, y, sample_weight, validation_data = arrays_of(x, y, sample_weight, validation_data)
    given: dict[str, Any] = {
        "sample_weight": sample_weight,
        "class_weight": class_weight,
        "validation_split": validation_split,
        "validation_data": validation_data,
    }
    rows = None if of_spark else fit_rows(x, y, target, **given)
    size = 32 if batch_size is None else batch_size
    values = {
        "nodes": nodes,
        "epochs": epochs,
        "batch_size": size,
        "strategy": "single" if nodes == 1 else "batch",
        "metrics": compiled.metrics or [],  # no metrics: none, and not the default of `train`
        **as_keys(keys),
    }
    # Of a DataFrame of Spark, the keys `validation` and `cut` may make validation rows. `train` counts them later.
    has_validation = validation_data is not None or any(
        (validation_split, values.get("validation"), of_spark and values.get("cut"))
    )
    check_callbacks(listed, values, output=output, has_validation=has_validation)
    again = {key: values.pop(key) for key in ("resume", "restart") if key in values}
    history = keras.callbacks.History()
    with _folder(output) as folder:
        if rows is None:
            frame, preparing = frame_of(spark_frame(x, "x"), y, target, shuffle=shuffle, **given)
            data, values = _prepared_frame(frame, {**preparing, **values}, model, listed, folder, overwrite)
            check_classes(data.manifest, target)
        else:
            check_before(listed, folder, overwrite, {**values, "model": model})
            data = _prepared(folder + DATA, rows, "hash" if shuffle else "given", overwrite)
        train(data, folder, model=model, callbacks=[*listed, history], overwrite=overwrite, **values, **again)
        take_weights(model, folder)
    shown = dict(zip(values["metrics"], compiled.shown, strict=False))
    names = {f"{split}{name}": f"{split}{keras_name}" for name, keras_name in shown.items() for split in ("", "val_")}
    history.history = {names.get(name, name): values for name, values in history.history.items()}
    steps = math.ceil(data.manifest.splits["train"].rows / size)
    history.set_params({"verbose": verbose, "epochs": epochs, "steps": steps})
    history.set_model(model)
    model.history = history
    return history


def _prepared_frame(
    frame: DataFrame, values: Mapping[str, Any], model: Any, callbacks: Sequence[Any], folder: str, overwrite: bool
) -> tuple[PreparedDataSet, dict[str, Any]]:
    """Return (the prepared data set of a DataFrame of Spark, the keys of `train` among `values`).

    Raise UsageError before the rows are read, if the model, a key or a callback does not fit.
    """
    named, _own = with_model({**values, "model": model})
    raw, training = to_prepare(named, None, folder)
    config = check_before(callbacks, folder, overwrite, {**training, "data": raw.output})
    data = prepare_for(raw, frame, config, Options(overwrite))
    return data, {key: value for key, value in training.items() if key != "model"}


def _prepared(path: str, rows: FitRows, order: Any, overwrite: bool) -> PreparedDataSet:
    """Return the prepared data set of the call's rows in the folder `path`: the one that is there, or a new one. Raise
    InputError if the folder has other rows."""
    content = _digest(rows, order)
    try:
        if filesystem.exists(path) and not overwrite:
            there = PreparedDataSet.open(path)
            if there.manifest.config_hash == content:
                return there
            raise InputError(f"{path}: holds the rows of another call; give another output, or overwrite=True")
        return from_arrays(path, rows.splits, classes=rows.classes, order=order, config_hash=content)
    except ValueError as error:
        raise ConfigError(f"x, y: {error}") from None


def _digest(rows: FitRows, order: str) -> str:
    """Return a hash of the arrays and of how they are prepared."""
    import hashlib

    parts: list[Any] = [order, rows.classes]
    for split, (inputs, labels) in rows.splits.items():
        arrays = inputs if isinstance(inputs, Mapping) else {"x": inputs}
        for name, array in (*arrays.items(), ("", np.asarray(labels))):
            values = np.ascontiguousarray(array)
            hashed = hashlib.blake2b(values.view(np.uint8).data, digest_size=16).hexdigest()
            parts.append([split, name, values.dtype.str, list(values.shape), hashed])
    return digest(parts)


@contextmanager
def _folder(output: str | None) -> Iterator[str]:
    """Yield the run's folder: `output`, or a temporary folder, which stays only if the run fails after a checkpoint."""
    if output is not None:
        yield output.rstrip("/")
        return
    _check_one_machine()
    base = tempfile.mkdtemp(prefix="sparksplit-fit-", dir=temporary_folder())
    folder = f"{base}/run"
    try:
        yield folder
    except BaseException as error:
        if isinstance(error, UsageError) or not _has_checkpoint(folder):
            shutil.rmtree(base, ignore_errors=True)
        else:
            say(f"the run is kept in {folder}: the same call with output={folder!r} goes on from there")
        raise
    shutil.rmtree(base, ignore_errors=True)


def _has_checkpoint(folder: str) -> bool:
    """Return whether a run has a checkpoint, or may have one because its folder cannot be read."""
    try:
        return latest(folder) is not None
    except SparksplitError:
        return True


def _check_one_machine() -> None:
    """Raise ConfigError if nodes may be on other machines, which do not have this machine's temporary folder."""
    from sparksplit.spark.session import known_settings

    master = known_settings().get("spark.master", "local")
    if not master.startswith("local"):
        raise ConfigError(
            f"output: give a folder that all machines can reach, such as hdfs:///user/me/run (spark.master is {master})"
        )
