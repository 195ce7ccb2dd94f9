"""Runs on real nodes, started by TensorFlowOnSpark: invariants 1, 2 and 4's ground, resume, and failing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from sparksplit.base.errors import NodeFailed, RunError, UsageError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training import attempts, checkpoints
from sparksplit.training.attempts import Attempts
from sparksplit.training.progress_record import read_history
from tests.hdfs_io.outputs import fenced
from tests.logs import without_times
from tests.nodes import pid_of
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
    request, many, tmp_path, place, batch_size, dtype, within
):
    """Invariant 1, over at least 500 updates with momentum; 100 and 64 rows do not divide by 3."""
    request.getfixturevalue(place)
    epochs = -(-500 // -(-9000 // batch_size))
    results = {
        nodes: run(
            many,
            tmp_path / str(nodes),
            nodes=nodes,
            batch_size=batch_size,
            epochs=epochs,
            dtype=dtype,
            optimizer=MOMENTUM,
            model={"params": {"hidden": [32]}},
        )
        for nodes in (1, 3)
    }
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
def test_the_same_nodes_twice_give_the_same_bits(forked, digits, tmp_path):
    """Also with BatchNorm and Dropout, with other readers, and where rows are streamed and not kept."""
    settings = {"nodes": 2, "epochs": 2, "optimizer": MOMENTUM, "model": {"build": f"{MODELS}:with_state"}}
    one = run(digits, tmp_path / "one", **settings)
    two = run(digits, tmp_path / "two", **settings, readers=3, cache_mb=0)
    assert one["weights"] == two["weights"]
    assert one["metrics"] == two["metrics"]


@pytest.mark.slow
def test_the_tensorflow_collective_ends_epochs_of_hundreds_of_updates_with_a_slow_node(spark, digits, tmp_path):
    """Its sums match by the turn of a loop: loops that are as long as each node's own clock says wait for ever."""
    slow = Path(__file__).with_name("slow.py")
    settings = {"nodes": 2, "epochs": 1, "batch_size": 2, "transform": f"{slow}:on_the_chief"}
    result = run(digits, tmp_path / "run", **settings, collective="tensorflow")
    assert (result["updates"], result["ledger"]["exact"]) == (650, True)


def test_uneven_and_empty_lanes_end_with_an_exact_ledger(forked, tmp_path):
    """A node may have no row of some mini-batches, or none at all."""
    generator = np.random.default_rng(3)
    x = generator.integers(0, 255, (25, 6), dtype=np.uint8)
    for name, lanes in (("few", 96), ("uneven", 4)):
        data = tmp_path / name
        from_arrays(str(data), {"train": (x, generator.integers(0, 3, 25))}, lanes=lanes, classes=3)
        result = run(data, tmp_path / f"run-{name}", nodes=3, batch_size=4, epochs=3)
        assert result["ledger"] == {**result["ledger"], "exact": True, "rows": 75}
        assert result["updates"] == 21
        assert result["metrics"]["test"] == {}


@pytest.mark.slow
def test_resuming_gives_the_same_bits(forked, digits, tmp_path, capsys):
    """Momentum, BatchNorm, Dropout, the ledger and the metrics of the unfinished epoch go on; a damaged checkpoint is
    named, and the one before is taken. From within the second epoch, and from the end of the first."""
    settings = {
        "nodes": 2, "epochs": 2, "optimizer": MOMENTUM, "model": {"build": f"{MODELS}:with_state"},
        "checkpoint": {"every": 7, "keep": 99},
    }  # fmt: skip
    straight = run(digits, tmp_path / "straight", **settings)
    for keep, damaged, update in ((5, True, 28), (3, False, 21)):
        output = tmp_path / f"resumed-{update}"
        without_end(tmp_path / "straight", output, keep=keep)
        with fenced(output) as fence:
            attempts.note(fence, Attempts(restarts=3, seconds=1000.0))
        newest = Path(checkpoints.latest(str(output)))
        if damaged:
            (newest / "node-1.npz").unlink()
        resumed = run(digits, output, Options(resume=True), **settings)
        assert resumed["resumed"] == [{"update": update, "nodes_before": 2, "nodes": 2}]
        assert (f"{newest}: is damaged: node-1.npz is missing" in capsys.readouterr().err) == damaged
        assert resumed["weights"] == straight["weights"]
        assert resumed["metrics"] == straight["metrics"]
        assert resumed["ledger"] == straight["ledger"]
        assert resumed["restarts"] == 3 and 1000 < resumed["seconds"]["total"] < 2000
        assert resumed["seconds"]["lost"] > 500
        check_seconds(resumed, read_history(str(output)))
        assert not (output / "_ATTEMPTS").exists()
        assert len((output / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_resuming_on_another_number_of_nodes_is_within_invariant_1(forked, digits, tmp_path):
    settings = {"epochs": 2, "optimizer": MOMENTUM, "strategy": "batch", "checkpoint": {"every": "epoch"}}
    straight = run(digits, tmp_path / "straight", nodes=3, **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=1)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), nodes=2, **settings)
    assert resumed["resumed"][0]["nodes_before"] == 3
    assert resumed["ledger"]["exact"] is True
    assert largest_difference(weights(tmp_path / "straight"), weights(tmp_path / "resumed")) < 1e-4
    assert straight["metrics"]["test"]["accuracy"] == pytest.approx(resumed["metrics"]["test"]["accuracy"])


@pytest.mark.slow
def test_stopped_by_sigterm_after_the_second_of_four_epochs_and_resumed(forked, digits, tmp_path):
    """The whole command as a process, with its own Spark: nothing of it is left, and going on equals 4 straight."""
    config = tmp_path / "train.yaml"
    output = tmp_path / "stopped"
    values = {
        "data": str(digits), "epochs": 4, "nodes": 2, "strategy": "batch", "optimizer": MOMENTUM, "batch_size": 50,
        "transform": f"{MODELS}:slowly", "model": {"build": f"{MODELS}:with_state"}, "checkpoint": {"every": "epoch"},
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
    quick = {key: values[key] for key in values if key not in ("data", "transform")}
    straight = run(digits, tmp_path / "straight", **quick)
    assert resumed["resumed"][0]["update"] > 52, "it left another checkpoint before it ended"
    assert resumed["weights"] == straight["weights"]
    assert resumed["metrics"] == straight["metrics"]


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


@pytest.mark.slow
def test_a_killed_node_is_named_and_the_next_run_works(spark, digits, tmp_path):
    """Invariant 3, during training: rank 1 dies, the others fail because of it, rank 1 is blamed."""
    from concurrent.futures import ThreadPoolExecutor

    settings = {
        "nodes": 2, "epochs": 500, "transform": f"{MODELS}:slowly", "max_restarts": 0, "checkpoint": {"seconds": 0.5},
    }  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, digits, tmp_path / "killed", **settings)
        deadline = time.monotonic() + 240
        while checkpoints.latest(str(tmp_path / "killed")) is None:
            assert time.monotonic() < deadline and not running.done()
            time.sleep(0.05)
        os.kill(pid_of(1), signal.SIGKILL)
        with pytest.raises(NodeFailed, match=r"node 1 on .*SIGKILL"):
            running.result(timeout=60)
    assert run(digits, tmp_path / "next", nodes=2, epochs=1)["ledger"]["exact"] is True


@pytest.mark.slow
def test_a_run_restarts_from_its_last_checkpoint_when_it_may(forked, digits, tmp_path, capsys):
    from concurrent.futures import ThreadPoolExecutor

    settings = {
        "nodes": 2, "epochs": 5, "transform": f"{MODELS}:slowly", "max_restarts": 1, "optimizer": MOMENTUM,
        "checkpoint": {"seconds": 0.5},
    }  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, digits, tmp_path / "killed", **settings)
        deadline = time.monotonic() + 240
        while checkpoints.latest(str(tmp_path / "killed")) is None:
            assert time.monotonic() < deadline and not running.done()
            time.sleep(0.01)
        os.kill(pid_of(0), signal.SIGKILL)
        result = running.result(timeout=120)
    straight = run(digits, tmp_path / "straight", **{**settings, "transform": None})
    assert result["restarts"] == 1
    first, second = result["attempts"]
    assert (first["how"], second["how"], second["nodes"]) == ("start", "restart", 2) and "cause" not in second
    check_seconds(result, read_history(str(tmp_path / "killed")))
    assert 0 < result["seconds"]["lost"] < result["seconds"]["total"]
    assert first["cause"]["rank"] == 0 and "SIGKILL" in first["cause"]["what"] and second["update"] > first["update"]
    assert result["weights"] == straight["weights"]
    assert result["metrics"] == straight["metrics"]
    assert result["ledger"] == straight["ledger"]
    said = without_times(capsys.readouterr().err).splitlines()
    lines = [line.split(":")[0] for line in said if line.startswith("epoch ")]
    assert lines == [f"epoch {number}/5" for number in range(1, 6)] * 2, "the straight run's are the second half"
