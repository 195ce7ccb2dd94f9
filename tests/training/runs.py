"""Training runs as tests call them, and what they leave."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from hdfs_io import filesystem
from sparksplit.base.config import parse
from sparksplit.base.options import Options
from sparksplit.training import checkpoints
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig

MODELS = str(Path(__file__).with_name("models.py"))
MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}
AVERAGED = {**MOMENTUM, "use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 10}


def run(data, output, options=Options(), **keys):  # noqa: B008
    """The content of run.json."""
    nodes = keys.get("nodes", 1)
    data = data if isinstance(data, list) else str(data)
    values = {"data": data, "output": str(output), "strategy": "single" if nodes == 1 else "batch", **keys}
    return train(parse(TrainConfig, values), options).to_json()


def weights(output):
    """The trainable and other variables of the last checkpoint, in order."""
    state = checkpoints.read(checkpoints.latest(str(output)), 0).state
    return [state[name].astype(np.float64) for name in sorted(state) if name.startswith("v")]


def largest_difference(one, other):
    return max(float(np.abs(a - b).max(initial=0)) for a, b in zip(one, other, strict=True))


def describe(path, progress):
    """Leave a checkpoint's description without its files."""
    values = {"format_version": 3, "files": {"state.npz": [0, 0]}, **progress.to_json()}
    filesystem.write_json(f"{path}/checkpoint.json", values | {"checksum": checkpoints._checksum(values)})


def without_end(straight: Path, output: Path, keep: int) -> None:
    """A copy of a finished run as it was when checkpoint number `keep` was its last."""
    shutil.copytree(straight, output)
    (output / "_SUCCESS").unlink()
    for name in ("run.json", "model.keras", "metrics.jsonl"):
        (output / name).unlink()
    for folder in sorted((output / "checkpoints").iterdir())[keep:]:
        shutil.rmtree(folder)
