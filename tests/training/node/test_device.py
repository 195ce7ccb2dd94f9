"""What a node computes on. Each in a fresh interpreter, as a node is: devices are settled once in a process."""

import json
import subprocess
import sys

import pytest

LOOK = """
import json, os, sys
from sparksplit.base.config import parse
from sparksplit.training.train_config import TrainConfig
from sparksplit.training.node.main import configure
configure(parse(TrainConfig, json.loads(sys.argv[1])), 1)
import numpy as np
import tensorflow as tf
from tests.training.node.test_mixed import chunks, model_of, step_of
from sparksplit.collectives import Alone
from sparksplit.strategies.syncs import StepSync
from sparksplit.strategies.sync_config import SyncConfig
dtype = json.loads(sys.argv[1])["dtype"]
collective, model = Alone(), model_of(dtype)
step, _ = step_of(model, dtype, StepSync(collective, SyncConfig()), collective)
losses = step.train(chunks(1, 3)[0])
print(json.dumps({
    "asked": os.environ.get("CUDA_VISIBLE_DEVICES"), "finite": bool(np.isfinite(losses).all()),
    "gpus": [device.name for device in tf.config.list_logical_devices("GPU")], "copies_to": step._device,
}))
"""


def seen(device, dtype="float32"):
    """What a node finds, that trains for three updates."""
    config = {"data": "d", "output": "o", "device": device, "dtype": dtype}
    command = [sys.executable, "-c", LOOK, json.dumps(config)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_node_that_is_to_use_its_processors_asks_for_no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # as Spark's GPUs are given
    assert seen("cpu") == {"asked": "-1", "gpus": [], "copies_to": None, "finite": True}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_node_uses_the_gpu_that_is_there_unless_it_is_not_to(dtype):
    found = seen("auto", dtype)
    assert found["gpus"] and found["copies_to"].endswith("GPU:0") and found["finite"]
    assert seen("cpu", dtype)["gpus"] == []
