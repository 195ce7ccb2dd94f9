"""A program with a session of its own whose master has no executors, as in a notebook: all that it can do there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
import pandas as pd
import psutil
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits
import sparksplit

folder = Path(sys.argv[1])
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", 2).getOrCreate()
)
images, labels = load_digits(return_X_y=True)
pd.DataFrame({"image": list(images.astype("float32")), "digit": labels}).to_parquet(folder / "digits.parquet")
rows = spark.read.parquet(f"{folder}/digits.parquet")
data = sparksplit.preprocess(rows, f"{folder}/data", input={"label": "digit"}, test=0.2, scaling="unit")

def train(name, **keys):
    values = {"epochs": 4, "readers": 0, "optimizer": {"learning_rate": 0.1}, **keys}
    record = sparksplit.train(data, f"{folder}/{name}", **values).record.to_json()
    print(name, json.dumps(record))

train("fed", nodes=2, strategy="batch", input_mode="spark")
train("local", nodes=2, strategy="local", sync={"every": 2})

def is_node(process):
    try:
        return "node_main" in " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return False

def interrupt():
    while not (folder / "held-waits").exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
single = {"transform": f"{folder}/mine.py:befallen", "checkpoint": {"every": "epoch", "grace": 0.5}, "max_restarts": 1}
try:
    train("single", **single)
except KeyboardInterrupt:
    left = [one.pid for one in psutil.Process().children(recursive=True) if is_node(one)]
    print("interrupted", json.dumps(left))
train("single", **single)

found = sparksplit.predict(f"{folder}/local", rows, f"{folder}/predictions", input={"label": "digit"})
print("predicted", json.dumps([found.frame().count(), found.metrics["rows"]]))
try:
    sparksplit.compare(data, f"{folder}/comparison", nodes=[1])
except sparksplit.ConfigError as error:
    print("compare", json.dumps(str(error)))
spark.stop()
"""

MINE = """
import os, signal, time
from pathlib import Path

FOLDER = Path(__file__).parent

def befallen(tensors, label, seeds):
    # Killed after a checkpoint, and held after a later one.
    written = [file.parent.name for file in FOLDER.glob("single/checkpoints/*/checkpoint.json")]
    killed, waits = FOLDER / "killed", FOLDER / "held-waits"
    if written and not killed.exists():
        killed.write_text(max(written))
        os.kill(os.getpid(), signal.SIGKILL)
    if written and max(written) > killed.read_text() and not waits.exists():
        waits.touch()
        time.sleep(60)
    return tensors, label
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    """The program, at its end. The PATH's python3 cannot run tasks."""
    (folder / "mine.py").write_text(MINE.replace("Path(__file__).parent", f"Path({str(folder)!r})"))
    for name in ("bin", "tmp"):
        (folder / name).mkdir()
    (folder / "bin" / "python3").write_text("#!/bin/sh\nexit 3\n")
    (folder / "bin" / "python3").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=600)
    assert found.returncode == 0, found.stderr[-4000:]
    return found


@pytest.fixture(scope="module")
def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What the program has printed, by the first word of the line."""
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    return {name: json.loads(text) for name, _, text in lines}


def test_one_process_trains_on_all_cores_of_the_master(told: dict[str, Any]) -> None:
    """Also where the run was killed and interrupted."""
    for name in ("single", "fed"):
        run = told[name]
        assert (run["nodes"], run["virtual"], run["config"]["nodes"]) == (1, False, 1)
        assert run["ran"] == "beside the driver" and run["threads"] == 2 and run["hosts"] == ["127.0.0.1"]
        assert run["weights"] == told["single"]["weights"] and run["ledger"]["exact"]
    assert told["fed"]["input_mode"] == "spark"


def test_a_strategy_that_depends_on_the_nodes_has_virtual_ones(told: dict[str, Any]) -> None:
    run = told["local"]
    assert (run["nodes"], run["virtual"], run["config"]["nodes"]) == (2, True, {"virtual": 2})
    assert run["syncs"] > 0 and run["weights"] != told["single"]["weights"] and run["ledger"]["exact"]


def test_each_run_says_where_it_trains(done: subprocess.CompletedProcess[str]) -> None:
    said = [line.partition("executors: ")[2] for line in done.stderr.splitlines() if "has no executors: " in line]
    assert said[:3] == [
        "one process on this machine trains batch, with 1 node instead of 2",
        "one process on this machine plays the 2 nodes of local in turn (nodes: {virtual: 2})",
        "the node is a process on this machine",
    ]


def test_a_run_goes_on_after_its_process_was_killed_and_after_an_interrupt_that_leaves_no_process(
    told: dict[str, Any],
) -> None:
    assert told["interrupted"] == []
    attempts = told["single"]["attempts"]
    assert [attempt["how"] for attempt in attempts] == ["start", "restart", "resume"]
    assert "was ended by SIGKILL" in attempts[0]["cause"]["what"]
    assert 0 == attempts[0]["update"] < attempts[1]["update"] < attempts[2]["update"]


def test_predictions_come_from_the_sessions_own_tasks(told: dict[str, Any]) -> None:
    assert told["predicted"] == [1797, 1797]


def test_compare_says_what_it_needs(told: dict[str, Any]) -> None:
    assert told["compare"].startswith("spark.master: local[2] runs everything in one process, and every node needs")


def test_nothing_is_left_on_the_disk(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    left = [file.name for file in (folder / "tmp").iterdir()]
    assert [name for name in left if name.startswith("sparksplit")] == []
