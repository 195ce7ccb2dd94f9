"""Runs on real nodes, started by TensorFlowOnSpark: invariants 1, 2 and 4's ground, resume, and failing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from sparksplit.base.errors import RunError, UsageError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training import checkpoints
from sparksplit.training.progress_record import read_history
from sparksplit.training.recovery import attempts
from sparksplit.training.recovery.attempts import Attempts
from tests.forked import nodes_of
from tests.hdfs_io.outputs import fenced
from tests.training.records import RUN_JSON, check_seconds, keys_of
from tests.training.runs import MODELS, MOMENTUM, largest_difference, run, weights, without_end


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """As many rows as few epochs have many updates of."""
    generator = np.random.default_rng(7)
    label = generator.integers(0, 10, 9400)
    x = (generator.integers(0, 9, (9400, 8, 8)) + 8 * np.eye(10, 64)[label].reshape(-1, 8, 8)).astype("u1")
    parts = {"train": slice(9000), "validation": slice(9000, 9200), "test": slice(9200, None)}
    folder = tmp_path_factory.mktemp("many") / "data"
    from_arrays(str(folder), {name: (x[part], label[part]) for name, part in parts.items()}, scaling="unit", classes=10)
    return folder


@pytest.mark.parametrize(
    ("place", "batch_size", "dtype", "within"),
    [
        pytest.param("spark", 100, "float32", 1e-4, marks=pytest.mark.slow),
        ("forked", 64, "float64", 1e-9),
    ],
)
def test_one_and_three_nodes_give_the_same_losses_and_weights(
    request, zygote, many, tmp_path, place, batch_size, dtype, within
):
    """Invariant 1, over at least 500 updates with momentum; 100 and 64 rows do not divide by 3. The three are Spark's
    or forked."""
    epochs = -(-500 // -(-9000 // batch_size))
    settings = {
        "batch_size": batch_size, "epochs": epochs, "dtype": dtype, "optimizer": MOMENTUM,
        "model": {"params": {"hidden": [32]}},
    }  # fmt: skip
    with nodes_of(zygote):
        results = {1: run(many, tmp_path / "1", **settings)}
    request.getfixturevalue(place)
    results[3] = run(many, tmp_path / "3", nodes=3, **settings)
    assert results[1]["updates"] >= 500
    for nodes, result in results.items():
        assert result["ledger"]["exact"] is True
        assert result["ledger"]["rows"] == 9000 * epochs
        for name in ("train", "validation"):
            np.testing.assert_allclose(
                result["metrics"][name]["loss"], results[1]["metrics"][name]["loss"], atol=within, rtol=0
            )
        assert result["metrics"]["test"]["accuracy"] == pytest.approx(results[1]["metrics"]["test"]["accuracy"])
        assert largest_difference(weights(tmp_path / str(nodes)), weights(tmp_path / "1")) < within


@pytest.mark.slow
def test_uneven_and_empty_lanes_end_with_an_exact_ledger(forked, tmp_path):
    """A node may have no row of some mini-batches, or none at all."""
    generator = np.random.default_rng(8)
    x = generator.integers(0, 255, (9, 6), dtype=np.uint8)
    rows = {"train": (x, generator.integers(0, 3, 9))}
    lanes = np.array(from_arrays(str(tmp_path / "data"), rows, lanes=96, classes=3).split("train").lane_rows)
    assert sorted(int(lanes[rank::3].sum()) for rank in range(3)) == [0, 2, 7]
    result = run(tmp_path / "data", tmp_path / "run", nodes=3, batch_size=4, epochs=3)
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": 27}
    assert result["updates"] == 9
    assert result["metrics"]["test"] == {}


STRAIGHT = {
    "nodes": 2, "epochs": 4, "batch_size": 50, "optimizer": MOMENTUM, "model": {"build": f"{MODELS}:with_state"},
}  # fmt: skip
EVERY = {"checkpoint": {"every": 8, "keep": 99}}


@pytest.fixture(scope="module")
def straight(zygote, digits, tmp_path_factory):
    """(folder, result) of a run of four epochs of 26 updates each."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    with nodes_of(zygote):
        return folder, run(digits, folder, **STRAIGHT, **EVERY)


@pytest.mark.slow
def test_resuming_gives_the_same_bits(forked, digits, straight, tmp_path, capsys):
    """Momentum, BatchNorm, Dropout, the ledger and the metrics of the unfinished epoch go on; a damaged checkpoint is
    named, and the one before is taken. From within the second epoch."""
    output = tmp_path / "resumed"
    without_end(straight[0], output, keep=5)
    with fenced(output) as fence:
        attempts.note(fence, Attempts(restarts=3, seconds=1000.0))
    newest = Path(checkpoints.latest(str(output)))
    (newest / "node-1.npz").unlink()
    resumed = run(digits, output, Options(resume=True), **STRAIGHT, **EVERY)
    assert resumed["resumed"] == [{"update": 32, "nodes_before": 2, "nodes": 2}]
    assert f"{newest}: is damaged: node-1.npz is missing" in capsys.readouterr().err
    for name in ("weights", "metrics", "ledger"):
        assert resumed[name] == straight[1][name]
    assert resumed["restarts"] == 3 and 1000 < resumed["seconds"]["total"] < 2000
    assert resumed["seconds"]["lost"] > 500
    check_seconds(resumed, read_history(str(output)))
    assert not (output / "_ATTEMPTS").exists()
    assert len((output / "metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.slow
def test_resuming_on_another_number_of_nodes_is_within_invariant_1(forked, digits, tmp_path):
    settings = {"epochs": 2, "optimizer": MOMENTUM, "strategy": "batch", "checkpoint": {"every": "epoch"}}
    straight = run(digits, tmp_path / "straight", nodes=2, **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=1)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), nodes=1, **settings)
    assert resumed["resumed"][0]["nodes_before"] == 2
    assert resumed["ledger"]["exact"] is True
    assert largest_difference(weights(tmp_path / "straight"), weights(tmp_path / "resumed")) < 1e-4
    assert straight["metrics"]["test"]["accuracy"] == pytest.approx(resumed["metrics"]["test"]["accuracy"])


@pytest.mark.slow
def test_stopped_by_sigterm_after_the_second_of_four_epochs_and_resumed(forked, digits, straight, tmp_path):
    """The whole command as a process, with its own Spark: nothing of it is left, and going on equals 4 straight."""
    config = tmp_path / "train.yaml"
    output = tmp_path / "stopped"
    values = {
        "data": str(digits), "strategy": "batch", **STRAIGHT, "transform": f"{MODELS}:slowly",
        "checkpoint": {"every": "epoch"},
    }  # fmt: skip
    config.write_text(json.dumps(values))
    command = [
        sys.executable,
        "-m",
        "sparksplit.commands.cli",
        "train",
        "--config",
        str(config),
        "--set",
        f"output={output}",
    ]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    family = []
    deadline = time.monotonic() + 240
    while not (output / "checkpoints" / "update-000000052").is_dir():
        assert time.monotonic() < deadline and process.poll() is None
        family = psutil.Process(process.pid).children(recursive=True) or family
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.decode().splitlines()[-1] == "sparksplit train: stopped by SIGTERM"
    assert b"the same command goes on from it" in errors
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not (output / "_SUCCESS").exists()
    assert not (output / "checkpoints" / "update-000000104").exists()
    resumed = run(digits, output, **{key: values[key] for key in values if key != "data"})
    assert resumed["resumed"][0]["update"] > 52, "it left another checkpoint before it ended"
    assert resumed["weights"] == straight[1]["weights"]
    assert resumed["metrics"] == straight[1]["metrics"]


HELD = """
import time

rows = 0

def held(tensors, label, seeds):
    global rows
    rows += len(seeds)
    time.sleep(600 if rows > 1300 + 650 else 0.001 * len(seeds))
    return tensors, label
"""
"""A transform that hangs in the middle of the second epoch."""

IN_LINES = """
from sparksplit.base import progress
from sparksplit.commands.cli import program

progress.LINE_SECONDS = 0.2
program()
"""
"""The command, which says more often how far it is."""


@pytest.mark.slow
def test_ctrl_c_asks_for_a_checkpoint_and_a_second_one_ends_the_run_at_once(digits, tmp_path):
    """The node does not reach its next exchange: what is lost is said. Ctrl-C reaches all processes of a terminal."""
    output, said = tmp_path / "run", tmp_path / "said"
    (tmp_path / "mine.py").write_text(HELD)
    values = {
        "data": str(digits), "output": str(output), "strategy": "single", "epochs": 4, "batch_size": 50,
        "checkpoint": {"every": "epoch", "grace": 600}, "transform": f"{tmp_path}/mine.py:held",
    }  # fmt: skip
    (tmp_path / "train.yaml").write_text(json.dumps(values))
    command = [sys.executable, "-c", IN_LINES, "train", "--config", f"{tmp_path}/train.yaml"]
    with said.open("w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
    deadline = time.monotonic() + 240

    def line(pattern, least=0):
        """Wait until the command has said a number of at least `least` there, and return the last one."""
        while max(found := [int(number) for number in re.findall(pattern, said.read_text())], default=-1) < least:
            assert time.monotonic() < deadline and process.poll() is None, said.read_text()
            time.sleep(0.02)
        return found[-1]

    try:
        reached = line(r"training: \d+ %, (\d+) of 104 steps", least=27)
        family = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        line(
            r"stopping: the nodes have (\d+) s to write a last checkpoint at their next exchange; a second signal", 600
        )
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    assert said.read_text().splitlines()[-1] == "sparksplit train: stopped by SIGINT"
    left = (
        rf"the last checkpoint is {output}/checkpoints/update-0+26, and at least (\d+) updates after it are lost; the"
    )
    assert [reached - 26 <= int(lost) < 26 for lost in re.findall(left, said.read_text())] == [True], said.read_text()
    assert not psutil.wait_procs(family, timeout=30)[1]


@pytest.mark.slow
def test_a_complete_output_is_left_alone_another_configuration_refused(forked, digits, tmp_path, capsys):
    output = tmp_path / "run"
    first = run(digits, output, epochs=1)
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    assert run(digits, output, epochs=1, readers=2) == first
    assert "is up to date" in capsys.readouterr().err
    with pytest.raises(UsageError, match="another configuration"):
        run(digits, output, epochs=2)
    with pytest.raises(RunError, match=r"epoch 1, step \d+: the loss is (nan|inf); a smaller optimizer.learning"):
        run(digits, output, Options(overwrite=True), optimizer={"name": "sgd", "learning_rate": 1e30})
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before
    assert run(digits, output, Options(overwrite=True), epochs=2)["epochs"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert {path.name for path in output.iterdir()} == {path.relative_to(output).parts[0] for path in before}


@pytest.mark.slow
def test_what_a_run_leaves(forked, digits, tmp_path):
    import keras

    began = time.monotonic()
    result = run(digits, tmp_path / "run", epochs=2, nodes=2)
    wall = time.monotonic() - began
    check_seconds(result, read_history(str(tmp_path / "run")))
    assert 0 < result["seconds"]["total"] <= wall + 0.01
    assert min(result["seconds"][name] for name in ("start", "warmup", "sync", "validation", "records", "export")) > 0
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {
        "_CONFIG", "_SUCCESS", "checkpoints", "metrics.jsonl", "model.keras", "preprocessing.json",
        "run.json", "saved_model", "tensorboard",
    }  # fmt: skip
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == result
    assert keys_of(result) == keys_of(RUN_JSON), "which scripts of users read"
    assert keras.models.load_model(tmp_path / "run" / "model.keras").output_shape == (None, 10)
    events = [file.name for file in (tmp_path / "run" / "tensorboard" / "train").iterdir()]
    assert len(events) == 1
