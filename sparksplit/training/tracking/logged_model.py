"""A run's model as an MLflow model: the run's files, and beside them the files that MLflow loads models by.

The MLflow model has the flavours `tensorflow` and `python_function`, by the SavedModel. So it takes raw rows, like
`predict`. It needs neither sparksplit nor the builder's code. Without checkpoints and TensorBoard's events, its folder
is the run's folder: `predict` reads it too.
"""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from hdfs_io import filesystem
from hdfs_io.marks import CONFIG, SUCCESS
from sparksplit.dataset import description
from sparksplit.dataset.description import Description
from sparksplit.dataset.feature_spec import Number
from sparksplit.features.names import serving_names
from sparksplit.training.progress_record import METRICS
from sparksplit.training.run_record import RUN, RunRecord
from sparksplit.training.tracking.session import UPLOAD, Session, limited

if TYPE_CHECKING:
    from mlflow.models import Model, ModelSignature

NAME = "model"
"""The artifact's name in the MLflow run: runs:/ID/model."""
FOLDER, RUN_ID = "sparksplit_folder", "sparksplit_run_id"
"""Names in the MLmodel file's metadata: the run's folder, and its run_id."""
_SAVED_MODEL = "saved_model/1"
# model.keras, saved_model and model.onnx as in sparksplit.model, which needs Keras. The driver needs no Keras.
_ONNX = "model.onnx"
_FILES = (RUN, METRICS, description.FILE, "model.keras", _ONNX, "saved_model", CONFIG, SUCCESS)
_PACKAGES = ("tensorflow", "keras", "numpy")
"""What the SavedModel is loaded with, in the versions of the run."""


def size(folder: str) -> int:
    """Return how many bytes `send` sends of the complete run in `folder`, nearly."""
    return sum(facts.bytes for path, facts in filesystem.tree(folder).items() if path.partition("/")[0] in _FILES)


def send(session: Session, folder: str, record: RunRecord) -> None:
    """Send the model of the complete run in `folder` as an artifact of MLflow's run. Raise MLflow's errors."""
    from mlflow.models import Model

    metadata = {FOLDER: filesystem.absolute(folder), RUN_ID: record.run_id}
    flavor = _Flavor(folder, record)
    with limited(UPLOAD):
        Model.log(None, flavor, name=NAME, run_id=session.run_id, metadata=metadata, flavor_name="tensorflow")


def send_onnx(session: Session, folder: str, record: RunRecord) -> None:
    """Send model.onnx of the complete run in `folder` to the model that `send` has sent before, if the model lacks the
    file. Raise MLflow's errors."""
    from mlflow.models import get_model_info

    if not filesystem.exists(filesystem.join(folder, _ONNX)):
        return
    outputs = session.client.get_run(session.run_id).outputs
    for model in outputs.model_outputs if outputs is not None else ():
        metadata = get_model_info(f"models:/{model.model_id}").metadata or {}
        files = session.client.list_logged_model_artifacts(model.model_id)
        if metadata.get(RUN_ID) == record.run_id and not any(file.path == _ONNX for file in files):
            source, inner = filesystem.resolve(folder)
            with TemporaryDirectory() as local:
                _copy(source, f"{inner}/{_ONNX}", Path(local) / _ONNX)
                with limited(UPLOAD):
                    session.client.log_model_artifact(model.model_id, f"{local}/{_ONNX}")


class _Flavor:
    """What `Model.log` calls to fill the folder of an MLflow model."""

    def __init__(self, folder: str, record: RunRecord) -> None:
        self._folder, self._record = folder, record

    def save_model(self, path: str, mlflow_model: Model) -> None:
        """Fill the new local folder `path`."""
        write(self._folder, self._record, Path(path), mlflow_model)


def write(folder: str, record: RunRecord, local: Path, model: Model) -> None:
    """Write the run in `folder` as an MLflow model into the folder `local`, which is made. model: what MLflow knows."""
    import mlflow
    import yaml

    local.mkdir(parents=True, exist_ok=True)
    source, inner = filesystem.resolve(folder)
    for name in _FILES:
        if filesystem.exists(filesystem.join(folder, name)):
            _copy(source, f"{inner}/{name}", local / name)
    model.signature = signature(Description.read(folder))
    saved = {"saved_model_dir": _SAVED_MODEL, "meta_graph_tags": ["serve"], "signature_def_key": "serving_default"}
    model.add_flavor("tensorflow", **saved, model_type="tf1-estimator", code=None)
    # As pyfunc.add_to_model does, whose import warns of type hints.
    environments = {"conda": "conda.yaml", "virtualenv": "python_env.yaml"}
    loading = {"loader_module": "mlflow.tensorflow", "python_version": platform.python_version()}
    model.add_flavor("python_function", **loading, env=environments)
    packages = {name: record.versions.get(name) or version(name) for name in _PACKAGES}
    required = [f"mlflow=={mlflow.__version__}", *(f"{name}=={number}" for name, number in packages.items())]
    python = {"python": platform.python_version(), "dependencies": ["-r requirements.txt"]}
    conda = [f"python={platform.python_version()}", "pip", {"pip": required}]
    (local / "requirements.txt").write_text("".join(f"{line}\n" for line in required))
    (local / "python_env.yaml").write_text(yaml.safe_dump(python))
    (local / "conda.yaml").write_text(yaml.safe_dump({"channels": ["conda-forge"], "dependencies": conda}))
    model.save(str(local / "MLmodel"))


def signature(data: Description) -> ModelSignature:
    """Return the inputs and outputs of the SavedModel for rows like `data`, in MLflow's types.

    A table has one input for each raw column: a number is a double, or an array of doubles. Other columns are strings.
    Other data has one input for each tensor, of shape [rows, *shape].
    """
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema, TensorSpec
    from mlflow.types.schema import Array

    inputs: list[Any]
    if data.features:
        names = serving_names(data.features)

        def kind(feature: Any) -> Any:
            if not isinstance(feature, Number):
                return DataType.string
            return DataType.double if feature.values == 1 else Array(DataType.double)

        inputs = [ColSpec(kind(feature), names[feature.column]) for feature in data.features]
    else:
        inputs = [TensorSpec(np.dtype(each.dtype), (-1, *each.shape), each.name) for each in data.model_tensors]
    label = data.label
    if label is None:
        return ModelSignature(Schema(inputs))
    values = [*label.shape, -1] if label.classes is not None or not label.shape else label.shape
    dtype = np.dtype("float32" if label.classes is not None else label.dtype)
    return ModelSignature(Schema(inputs), Schema([TensorSpec(dtype, (-1, *values), "outputs")]))


def metadata_of(folder: Path) -> dict[str, Any]:
    """Return the metadata in the MLmodel file in `folder`; empty without metadata."""
    from mlflow.models import Model

    return dict(json.loads(json.dumps(Model.load(str(folder)).metadata or {})))


def _copy(source: fs.FileSystem, inner: str, target: Path) -> None:
    if source.get_file_info(inner).type == fs.FileType.Directory:
        target.mkdir()
    fs.copy_files(inner, str(target), source_filesystem=source, destination_filesystem=fs.LocalFileSystem())
