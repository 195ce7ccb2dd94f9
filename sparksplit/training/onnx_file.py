"""`export: onnx`: the file model.onnx of a complete run, made from its SavedModel by a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

from pyarrow import fs

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.errors import RunError
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.base.progress import say
from sparksplit.dataset.description import Description
from sparksplit.dataset.feature_spec import Category, Date, Feature, Number, Text
from sparksplit.features.encoding import spellings
from sparksplit.training.run_record import RunRecord
from sparksplit.training.train_config import TrainConfig

FILE = "model.onnx"
_SAVED_MODEL = ("saved_model", "1")
_PACKAGES = ("tf2onnx", "onnx")
_COPY = "sparksplit-onnx-"
_SECONDS = 900.0
"""Most seconds for a conversion."""


def check(config: TrainConfig, data: Description) -> None:
    """Raise ConfigError if `export` asks for an ONNX file, but a model of `data` cannot become one on this machine."""
    if config.export != "onnx":
        return
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise config.error("export", f"onnx needs {missing[0]}, which is not installed; pip install 'sparksplit[onnx]'")
    for feature in data.features:
        if (why := obstacle(feature)) is not None:
            raise config.error("export", f"onnx: column {feature.column!r} is {why}")


def obstacle(feature: Feature) -> str | None:
    """Return why ONNX cannot prepare a raw column, and what to do; None if it can."""
    if isinstance(feature, Date):
        return "a date, and ONNX cannot read dates; prepare it as a number, such as days since 1970"
    if isinstance(feature, Text):
        return "a text, and ONNX cannot split texts into tokens; prepare the data without this column"
    if isinstance(feature, Number) and feature.log1p:
        return "a number with `log1p`, and ONNX has no such operation; prepare its logarithm as the column"
    if isinstance(feature, Category) and feature.hash is not None:
        return "a category with `hash`, and ONNX has no such hash; prepare it with a vocabulary"
    if isinstance(feature, Category) and spellings(feature.type):
        return f"a category of type {feature.type}, and ONNX cannot compare its spellings; prepare it as texts"
    return None


def add(output: Output, record: RunRecord) -> None:
    """Add model.onnx to the complete run of `record`, if it is missing. The run stays complete in any case.

    Raise RunError if the model cannot be converted, or if another run has replaced this run. Raise OutputInUse if
    another command fills the output.
    """
    path = filesystem.join(output.path, FILE)
    if filesystem.exists(path):
        return
    # The right to fill the output is held throughout, so that the file is of the run that it is written to.
    with output.adding() as fence, own_folder(temporary_folder(), _COPY) as local:
        now = RunRecord.read(output.path)
        if (now.run_id, now.weights) != (record.run_id, record.weights):
            raise RunError(f"{output.path}: another run has replaced this run, so {FILE} was not made")
        source, inner = filesystem.resolve(filesystem.join(output.path, *_SAVED_MODEL))
        saved, target = local / "saved_model", local / FILE
        saved.mkdir()
        fs.copy_files(inner, str(saved), source_filesystem=source, destination_filesystem=fs.LocalFileSystem())
        _convert(output.path, str(saved), str(target))
        fence.write_bytes(path, target.read_bytes())
    say(f"{path} is written")


def _convert(run: str, saved: str, target: str) -> None:
    command = [sys.executable, "-m", "sparksplit.model.to_onnx", saved, target, str(os.getpid())]
    quiet = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    failed = f"{run}: the run is complete, but {FILE} could not be made:"
    try:
        done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RunError(f"{failed} the conversion took more than {_SECONDS:.0f} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"the conversion ended with status {done.returncode}"]
        raise RunError(f"{failed} {lines[-1]}")
