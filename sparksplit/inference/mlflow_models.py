"""MLflow's addresses of models, `models:/NAME/VERSION`, `models:/NAME@ALIAS` and `runs:/ID/model`, as run folders."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pyarrow import fs

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.base.passwords import without_passwords
from sparksplit.base.progress import say
from sparksplit.training.run_record import RUN, RunRecord
from sparksplit.training.tracking.logged_model import FOLDER, RUN_ID, metadata_of

_SCHEMES = ("models:/", "runs:/")
_COPY = "sparksplit-mlflow-"
"""First part of the names of local folders with a downloaded model."""


def is_uri(model: str) -> bool:
    """Return whether `model` is an address of MLflow, and not a folder."""
    return model.startswith(_SCHEMES)


@contextmanager
def run_folder(uri: str, output: str) -> Iterator[str]:
    """Yield the folder of the run that the MLflow model `uri` is from.

    It is the run's own folder, if the run is still there. Otherwise it is a copy beside `output`, which executors can
    read as they can write `output`. The copy is removed at the end.

    Raise InputError if MLflow has no such model, or if the model is not one of sparksplit's.
    """
    if find_spec("mlflow") is None:
        raise InputError(f"{uri}: MLflow is not installed; run pip install 'sparksplit[mlflow]'")
    import mlflow
    from mlflow.exceptions import MlflowException

    from sparksplit.training.tracking.session import limited, reason

    with own_folder(temporary_folder(), _COPY) as place:
        try:
            with limited():
                local = Path(mlflow.artifacts.download_artifacts(uri.rstrip("/"), dst_path=str(place)))
        except (MlflowException, OSError) as error:
            where = without_passwords(mlflow.get_tracking_uri())
            raise InputError(f"{uri}: MLflow at {where}: {reason(error)}") from None  # it may name a password
        if not (local / RUN).is_file() or not (local / "MLmodel").is_file():
            raise InputError(f"{uri}: is no model of sparksplit: it has no {RUN}. Name a model that `train` has logged")
        found = metadata_of(local)
        if (folder := found.get(FOLDER)) and _is_there(str(folder), found.get(RUN_ID)):
            yield str(folder)
            return
        copy = filesystem.join(filesystem.parent(output), f".{filesystem.name(output)}.model-{secrets.token_hex(4)}")
        say(f"{uri}: its run is not at {folder} any more; a copy is used")
        made = filesystem.missing(filesystem.parent(output))
        try:
            filesystem.make_folder(copy)
            target, inner = filesystem.resolve(copy)
            fs.copy_files(str(local), inner, source_filesystem=fs.LocalFileSystem(), destination_filesystem=target)
            yield copy
        finally:
            filesystem.remove(copy)
            filesystem.remove_empty(made)


def _is_there(folder: str, run_id: object) -> bool:
    """Return whether `folder` is still the complete run `run_id`."""
    try:
        return RunRecord.read(folder).run_id == run_id
    except InputError:
        return False
