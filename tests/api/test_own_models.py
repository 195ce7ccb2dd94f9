"""A program with its own model, in an interpreter of its own: what it defines is in `__main__`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

PROGRAM = """
import contextlib
import sys
from pathlib import Path
import keras
import sparksplit
from tests.forked import Zygote, nodes_of

data, output, start = sys.argv[1:]
for _ in range(int(start)):
    keras.layers.Dense(1)  # moves the automatic names


class Doubled(keras.layers.Layer):
    def call(self, x):
        return 2 * x


def own_loss(labels, outputs):
    return keras.losses.sparse_categorical_crossentropy(labels, outputs)


width = 8


def build(data):
    layers = keras.layers.Flatten(), Doubled(), keras.layers.Dense(width, "relu")
    return keras.Sequential(
        [keras.layers.Input(data.input_shape), *layers, keras.layers.Dense(data.outputs, data.activation)]
    )


class Data:
    input_shape, outputs, activation = (8, 8), 10, "softmax"


keras.utils.set_random_seed(3)
model = build(Data)
model.compile("adam", own_loss, metrics=["accuracy"])
keys = {"nodes": 2, "strategy": "batch", "epochs": 1}
zygote = Zygote(Path(output)) if start == "0" else None  # a call that finds its runs needs no nodes
with nodes_of(zygote) if zygote else contextlib.nullcontext():
    for name, one in (("object", model), ("function", build)):
        run = sparksplit.train(data, f"{output}/{name}", model=one, **keys)
        kinds = [type(layer).__name__ for layer in run.model().layers]
        print(name, run.record.run_id, run.record.config["model"]["build"], *kinds)
if zygote:
    zygote.end()
"""


@pytest.mark.slow
def test_a_program_finds_its_runs_again(digits: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def called(start: int) -> tuple[list[str], str]:
        command = [sys.executable, "program.py", str(digits), str(tmp_path), str(start)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr[-3000:]
        return found.stdout.splitlines(), found.stderr

    first, told = called(0)
    assert "is up to date" not in told
    again, told = called(3)
    assert first == again and told.count("is up to date") == 2
    assert [line.split()[0] for line in first] == ["object", "function"]
    assert all("Doubled" in line for line in first)
