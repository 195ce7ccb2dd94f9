"""The trained model as files: `model.keras`, and `saved_model/` for TensorFlow Serving and `predict`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import keras

from hdfs_io import filesystem
from sparksplit.base.errors import using
from sparksplit.model.inputs import Inputs

KERAS, SAVED_MODEL = "model.keras", "saved_model"
SIGNATURE = "serving_default"
_VERSION = "1"
"""TensorFlow Serving wants numbered versions inside a model's folder."""


def export(model: Any, inputs: Inputs, run: str, scratch: str) -> None:
    """Write both forms of `model` into the folder of `run`, using the local folder `scratch`.

    model.keras takes preprocessed floats, as the builder made it. The SavedModel takes stored values (raw pixels,
    say) under the tensors' names and applies the fitted preprocessing itself, so that a server cannot forget it.
    """
    local = Path(scratch) / "export"
    with using(scratch, "cannot be written"):
        local.mkdir()
        model.save(local / KERAS)
    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = inputs.tensor_signature()
    archive.add_endpoint(
        SIGNATURE, lambda *columns: {"outputs": model(inputs.decode(columns)[0], training=False)}, signature
    )
    archive.write_out(str(local / SAVED_MODEL / _VERSION), verbose=False)
    filesystem.write_bytes(filesystem.join(run, KERAS), (local / KERAS).read_bytes())
    upload(local / SAVED_MODEL, filesystem.join(run, SAVED_MODEL))
    shutil.rmtree(local)


def upload(local: Path, target: str) -> None:
    """Copy the local folder to `target`, replacing what is there; it appears by rename."""
    from hdfs_io.publish import publish_folder

    temporary = filesystem.join(filesystem.parent(target), f".{filesystem.name(target)}.writing")
    filesystem.remove(temporary)
    filesystem.make_folder(temporary)
    for file in sorted(path for path in local.rglob("*") if path.is_file()):
        filesystem.write_bytes(filesystem.join(temporary, str(file.relative_to(local))), file.read_bytes())
    publish_folder(temporary, target)


def saved_model(run: str) -> str:
    """Where `export` put the SavedModel itself."""
    return filesystem.join(run, SAVED_MODEL, _VERSION)
