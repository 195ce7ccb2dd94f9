"""The trained model as files: `model.keras`, and `saved_model/` for TensorFlow Serving and `predict`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import keras

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.model.floats import outputs_of
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.labels import unscaled
from sparksplit.model.graphs.raw_inputs import RawInputs
from sparksplit.model.writing import writing

KERAS, SAVED_MODEL = "model.keras", "saved_model"
SIGNATURE, STORED = "serving_default", "stored"
"""Names of the endpoints: the endpoint for servers, and the endpoint for stored tensors.

The second endpoint exists if the first endpoint takes raw columns.
"""
_VERSION = "1"
"""TensorFlow Serving needs numbered versions inside a model's folder."""
_LONGEST = 2000
"""Largest number of characters in a function's name."""


def export(model: Any, inputs: Inputs, run: Fence, scratch: str) -> None:
    """Write `model` into the folder of `run`, as model.keras and as SavedModel. scratch: a local folder.

    model.keras takes preprocessed floats, as the builder made it. The SavedModel takes stored values, such as raw
    pixels, under the tensors' names. It applies the fitted preprocessing itself, so that a server cannot forget the
    preprocessing.

    For a data set with features, the SavedModel takes raw columns under their names, and has a second endpoint for
    stored values. If labels were scaled, the SavedModel gives numbers in the labels' own units.
    """
    local = Path(scratch) / "export"
    try:
        with writing(scratch):
            local.mkdir()
            model.save(local / KERAS)
        archive = archive_of(model, inputs)
        with writing(scratch):
            archive.write_out(str(local / SAVED_MODEL / _VERSION), verbose=False)
        run.write_bytes(filesystem.join(run.folder, KERAS), (local / KERAS).read_bytes())
        run.upload(local / SAVED_MODEL, filesystem.join(run.folder, SAVED_MODEL))
    finally:
        shutil.rmtree(local, ignore_errors=True)


def archive_of(model: Any, inputs: Inputs) -> Any:
    """Return Keras's archive from which the SavedModel is written."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    _add_endpoints(archive, model, inputs)
    return archive


def _add_endpoints(archive: Any, model: Any, inputs: Inputs) -> None:
    def outputs(*columns: Any) -> dict[str, Any]:
        return {"outputs": unscaled(outputs_of(model, inputs.decode(columns)[0], False), inputs.description.label)}

    signature = inputs.tensor_signature()
    if not inputs.description.features:
        archive.add_endpoint(SIGNATURE, outputs, signature)
        return
    raw = RawInputs(inputs.description)
    for table in raw.tables:
        archive.track(table)

    def from_raw(*columns: Any) -> dict[str, Any]:
        return outputs(*raw.stored(columns))

    from_raw.__name__ = _counted([spec.name for spec in raw.signature()])
    archive.add_endpoint(SIGNATURE, from_raw, raw.signature())
    archive.add_endpoint(STORED, outputs, signature)


def _counted(names: list[str]) -> str:
    """Return a function name that lists the arguments.

    If a tensor has another dtype, TensorFlow's error holds only the function's name and the argument's number, such as
    `input #3`. The number counts from 0 in the order of the names.
    """
    return "_".join(f"{place}_{name}" for place, name in enumerate(sorted(names)))[:_LONGEST]


def saved_model(run: str) -> str:
    """Return the folder of the SavedModel itself, as `export` wrote it."""
    return filesystem.join(run, SAVED_MODEL, _VERSION)
