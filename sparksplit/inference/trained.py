"""A trained model for `predict`: the driver's checks, and how an executor loads the model."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pyarrow import fs

from hdfs_io import filesystem
from hdfs_io.errors import using_own
from sparksplit.base import measures
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError, Passing, RunError
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.dataset.description import Description
from sparksplit.model.tensorflow import be_quiet
from sparksplit.training.run_record import RunRecord, check_complete

Array = npt.NDArray[Any]
Model = Callable[[Mapping[str, Array]], Array]
"""Maps stored values by tensor name, each [rows, *shape], to the model's outputs, [rows, ...]."""

# As in sparksplit.model.export, which needs Keras. A driver that predicts needs no Keras.
SAVED_MODEL = ("saved_model", "1")
SIGNATURE, STORED = "serving_default", "stored"
COPY = "sparksplit-model-"
"""First part of the names of local folders with a copy of a model."""


@dataclass(frozen=True)
class TrainedModel:
    """The model of a complete run; small and picklable.

    path: the run's folder. description: description of the training data. logits: whether outputs are logits instead of
    probabilities. identity: values that distinguish this model from every other model.
    """

    path: str
    description: Description
    logits: bool
    identity: dict[str, str]

    @classmethod
    def open(cls, path: str) -> TrainedModel:
        """Open the model in the run's folder `path`. Raise InputError if it is missing, incomplete or damaged."""
        path = filesystem.absolute(path)
        if not filesystem.is_folder(path):
            raise InputError(f"{path}: folder not found. `model` must be the output folder of a `train` run")
        check_complete(path)
        description = Description.read(path)
        run = RunRecord.read(path)
        saved = filesystem.join(path, *SAVED_MODEL, "saved_model.pb")
        if not filesystem.is_file(saved):
            raise InputError(f"{saved}: file not found, although the run is complete")
        loss = run.config.get("loss")
        logits = isinstance(loss, dict) and bool(loss.get("from_logits"))
        return cls(
            path, description, logits, {"run_id": run.run_id, "config_hash": run.config_hash, "weights": run.weights}
        )

    @property
    def digest(self) -> str:
        """A short hash of everything that the predictions depend on, but not of the folder's path or time."""
        content = {name: self.identity[name] for name in ("config_hash", "weights")}
        return digest({**content, "description": self.description.model_dump(), "logits": self.logits})


_loaded: dict[tuple[str, str], Model] = {}
"""The last model of this Python worker, by path and run. Spark reuses workers, and loading a model takes seconds."""


def load(trained: TrainedModel, threads: int) -> Model:
    """Return the model, ready to call. The model is loaded once per process, and kept for the next tasks.

    threads: TensorFlow's threads per operation; set only before the first use of TensorFlow in this process.

    Raise RunError if the model cannot be loaded, and Passing, with the host's name, if it cannot be copied here.
    """
    key = (trained.path, digest(trained.identity))
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = _load(trained, threads)
    return _loaded[key]


def _load(trained: TrainedModel, threads: int) -> Model:
    tf = _tensorflow(threads)
    saved = filesystem.join(trained.path, *SAVED_MODEL)
    try:
        with _local(saved) as folder:
            loaded = tf.saved_model.load(folder)
        # With features, the default endpoint takes raw columns.
        function = loaded.signatures[STORED if trained.description.features else SIGNATURE]
    except Passing:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(f"{saved}: cannot be loaded: {type(error).__name__}: {reason}") from error
    names = [tensor.name for tensor in trained.description.model_tensors]

    def call(tensors: Mapping[str, Array]) -> Array:
        outputs: Array = function(**{name: tf.constant(tensors[name]) for name in names})["outputs"].numpy()
        return outputs

    model = in_twos(call)
    # Keep the model, because the signature alone would not keep its variables alive.
    model.__dict__["model"] = loaded
    return model


def in_twos(model: Model) -> Model:
    """Return `model`, which never gets a batch of one row: it gets such a row twice.

    TensorFlow multiplies a single row with other instructions than several rows, and rounds differently. So the outputs
    of a row would depend on the batch that it is in.
    """

    def call(tensors: Mapping[str, Array]) -> Array:
        rows = len(next(iter(tensors.values())))
        if rows != 1:
            return model(tensors)
        return model({name: np.repeat(tensor, 2, axis=0) for name, tensor in tensors.items()})[:1]

    return call


def _tensorflow(threads: int) -> Any:
    be_quiet()
    import tensorflow as tf

    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        if "TF_NUM_INTEROP_THREADS" not in os.environ:  # the user's own setting, also for other work in this process
            tf.config.threading.set_inter_op_parallelism_threads(1)
        for device in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(device, True)
    except RuntimeError as error:  # TensorFlow is already in use, with other settings
        logging.getLogger(__name__).debug("TensorFlow keeps its settings: %s", error)
    return tf


@contextmanager
def _local(folder: str) -> Iterator[str]:
    """Yield a local path of `folder`. A remote folder is copied, and the copy is removed afterwards."""
    source, inner = filesystem.resolve(folder)
    if isinstance(source, fs.LocalFileSystem):
        yield inner
        return
    with own_folder(temporary_folder(), COPY) as copy:
        with using_own(folder, f"cannot be copied to {copy} on {socket.gethostname()}"):
            fs.copy_files(inner, str(copy), source_filesystem=source, destination_filesystem=fs.LocalFileSystem())
        yield str(copy)


def probabilities(outputs: Array, classes: int, logits: bool, places: Sequence[int] = ()) -> npt.NDArray[np.float64]:
    """Return a classifier's outputs as float64 probabilities [rows, *places, classes], without another rounding.

    outputs: [rows, *places, classes]; for two classes also [rows, *places, 1], the output of the second class. logits:
    whether outputs are logits. places: shape of one row's label.

    Raise ValueError if the outputs have another shape.
    """
    values = outputs.astype(np.float64)
    if values.shape[1:] == (*places, 1) and classes == 2:
        second = _sigmoid(values) if logits else values
        return np.concatenate([1 - second, second], axis=-1)
    if values.shape[1:] != (*places, classes):
        each = f" at each of {list(places)}" if places else ""
        raise ValueError(f"the model's outputs are {list(values.shape[1:])} per row, for {classes} classes{each}")
    if not logits:
        return values
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def log_probabilities(outputs: Array, logits: bool) -> npt.NDArray[np.float64]:
    """Return the logarithms of `probabilities`, of the same shape. All of them are finite.

    Logarithms from logits are exact, even for tiny probabilities. For probabilities that were rounded to 0 or 1,
    `measures.floors` gives the values.
    """
    values = outputs.astype(np.float64)
    is_one = values.shape[-1] == 1
    if logits:
        if is_one:
            values = np.concatenate([np.zeros_like(values), values], axis=-1)
        values = values - values.max(axis=-1, keepdims=True)
        return np.asarray(values - np.log(np.exp(values).sum(axis=-1, keepdims=True)))
    least, step = measures.floors(outputs.dtype)
    if is_one:
        values = np.concatenate([np.maximum(1 - values, step), values], axis=-1)
    return np.asarray(np.log(np.maximum(values, least)))


def _sigmoid(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    powers = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + powers), powers / (1 + powers))
