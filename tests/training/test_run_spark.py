"""Runs whose rows Spark hands over: the same result as from the Parquet files, whatever the partitions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, RunError, UsageError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.prepare.passes.identify import identified
from sparksplit.training.progress_record import read_history
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig
from tests.forked import nodes_of
from tests.nodes import pid_of
from tests.training.records import check_seconds
from tests.training.runs import without_end

MOMENTUM = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}


def run(data, output, frame=None, options=Options(), **keys):  # noqa: B008
    nodes = keys.get("nodes", 1)
    values = {"data": str(data), "output": str(output), "strategy": "single" if nodes == 1 else "batch", **keys}
    return train(parse(TrainConfig, values), options, frame).to_json()


def in_parts(spark, frame, sizes):
    """`frame` with one partition for each of `sizes`, empty ones among them."""
    rows, columns = frame.collect(), frame.schema
    edges = np.cumsum([0, *sizes]).tolist()
    assert edges[-1] == len(rows)
    parts = spark.sparkContext.parallelize(range(len(sizes)), len(sizes))
    cut = [rows[begin:end] for begin, end in pairwise(edges)]
    shared = spark.sparkContext.broadcast([[tuple(row) for row in part] for part in cut])
    return spark.createDataFrame(parts.flatMap(lambda part: shared.value[part]), columns)


def gated(file, partitions, passed=None):
    """For mapInArrow: the rows of these partitions pass once `file` exists; `passed` appears when others' have."""

    def pass_on(batches):
        from pyspark import TaskContext

        give_up = time.monotonic() + 120
        for batch in batches:
            while TaskContext.get().partitionId() in partitions and not file.exists():
                assert time.monotonic() < give_up, f"{file} did not appear"
                time.sleep(0.02)
            yield batch
            if passed:
                passed.touch()

    return pass_on


@pytest.mark.slow
def test_uneven_and_empty_partitions_give_the_weights_of_reading_the_files(spark, zygote, digits, tmp_path):
    """Invariants 1 and 2: ten partitions, some of them empty, and the very bits of `input_mode: tensorflow`. One node:
    test_sequences.py."""
    settings = {"nodes": 3, "epochs": 3, "batch_size": 100, "optimizer": MOMENTUM}
    with nodes_of(zygote):
        read = run(digits, tmp_path / "read", **settings)
    rows = spark.read.parquet(f"{digits}/train").drop("lane")
    frame = in_parts(spark, rows, [0, 7, 300, 0, 1, 500, 92, 0, 399, 1])
    with nodes_of(zygote, spark=True):
        fed = run(digits, tmp_path / "fed", frame, input_mode="spark", **settings)
    assert fed["weights"] == read["weights"]
    assert fed["metrics"] == read["metrics"]
    assert fed["ledger"] == read["ledger"] == {**read["ledger"], "exact": True, "rows": 3900}


@pytest.mark.slow
def test_rows_without_a_row_id_get_that_of_preprocess(spark, fed, digits, tmp_path):
    rows = spark.read.parquet(f"{digits}/train")
    given = {row.row_id for row in rows.select("row_id").collect()}
    description = PreparedDataSet.open(str(digits)).description
    found = [row.row_id for row in identified(rows.drop("row_id"), description).collect()]
    assert (len(found), set(found)) == (1300, given)
    x, y, weight = np.zeros(3, np.float32), np.zeros(3, np.int64), np.array([3, 1, 256], np.float32)
    weighted = from_arrays(f"{tmp_path}/data", {"train": ({"x": x, "weight": weight}, y)}, lanes=1)
    frame = spark.read.parquet(f"{weighted.path}/train")
    named = identified(frame.drop("row_id"), weighted.description)
    assert {(row.row_id, bytes(row.weight)) for row in named.collect()} == {
        (row.row_id, bytes(row.weight)) for row in frame.collect()
    }
    result = run(digits, tmp_path / "run", rows.drop("row_id"), input_mode="spark", epochs=1)
    assert result["ledger"]["exact"] is True


@pytest.mark.slow
def test_the_partitions_that_hang_others_end_with_an_exact_ledger(spark, fed, tmp_path):
    """Also with a slow node and a slow task; how any partitions become blocks is tested without Spark
    (handoff/test_handoff.py)."""
    sizes = [5120, *[6144] * 8, 5728]

    def slowly(batches):
        from pyspark import TaskContext

        for batch in batches:
            time.sleep(0.5 if TaskContext.get().partitionId() == 0 else 0.0)
            yield batch

    generator = np.random.default_rng(1)
    x = generator.integers(0, 255, (sum(sizes), 4), dtype=np.uint8)
    data = tmp_path / "data"
    from_arrays(str(data), {"train": (x, x[:, 0] % 3)}, classes=3)
    frame = in_parts(spark, spark.read.parquet(f"{data}/train"), sizes)
    frame = frame.mapInArrow(slowly, frame.schema)
    slow = f"{Path(__file__).with_name('slow.py')}:on_one_node"
    result = run(data, tmp_path / "run", frame, input_mode="spark", nodes=3, epochs=2, transform=slow)
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": 2 * 60_000}


@pytest.mark.slow
def test_the_prepared_data_set_is_handed_over_without_a_frame(spark, digits, tmp_path):
    network = {"tls": True, "ports": "41000-41200", "bind": "127.0.0.0/8", "collective": "ring"}
    result = run(digits, tmp_path / "run", input_mode="spark", nodes=2, epochs=1, **network)
    assert (result["input_mode"], result["rows"], result["ledger"]["exact"]) == ("spark", 1300, True)
    assert result["seconds"]["handoff"] > 0
    check_seconds(result, read_history(str(tmp_path / "run")))
    assert not any(tmp_path.rglob("spool"))


@pytest.mark.slow
def test_a_failing_function_in_spark_ends_the_run_with_its_own_message(spark, fed, digits, tmp_path):
    from pyspark.sql import functions as sql

    @sql.udf("bigint")
    def broken(label):
        raise ValueError(f"no label {label} today")

    frame = spark.read.parquet(f"{digits}/train").withColumn("label", broken("label"))
    with pytest.raises(RunError, match=r"feeding failed: .*no label \d today"):
        run(digits, tmp_path / "run", frame, input_mode="spark")
    again = run(digits, tmp_path / "again", input_mode="spark", epochs=1)
    assert again["ledger"]["exact"] is True


def test_a_node_that_fails_while_it_is_fed_is_named(fed, digits, tmp_path):
    model = tmp_path / "mine.py"
    model.write_text("def build(data):\n    raise ValueError('no such layer')\n")
    with pytest.raises(UsageError, match="ValueError: no such layer"):
        run(digits, tmp_path / "run", input_mode="spark", nodes=2, model={"build": f"{model}:build"})


def test_a_transform_that_fails_after_the_feed_ends_the_run_with_its_own_message(fed, digits, tmp_path):
    transform = tmp_path / "mine.py"
    transform.write_text("def change(tensors, label, seeds):\n    raise ValueError('too dark')\n")
    settings = {"input_mode": "spark", "nodes": 2, "transform": f"{transform}:change"}
    with pytest.raises(RunError, match=r"^node \d .*ValueError: too dark"):
        run(digits, tmp_path / "run", **settings)


@pytest.mark.slow
def test_ctrl_c_while_rows_are_fed_ends_the_run_and_the_spark_job(digits, tmp_path):
    """In a process of its own, as users press it."""
    mark = tmp_path / "fed"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.handoff.driver", str(digits), str(tmp_path / "run"), str(mark)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 240
        while not mark.exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors and "Py4J" not in errors


@pytest.mark.slow
def test_a_node_that_is_killed_while_it_is_fed_is_replaced_and_fed_again(fed, spark, digits, tmp_path):
    gate, passed = tmp_path / "gate", tmp_path / "passed"
    rows = spark.read.parquet(f"{digits}/train")
    frame = rows.repartition(6).mapInArrow(gated(gate, range(1, 6), passed), rows.schema)
    settings = {"input_mode": "spark", "nodes": 2, "epochs": 2, "max_restarts": 1}

    def kill():
        deadline = time.monotonic() + 240
        while not passed.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(pid_of(1), signal.SIGKILL)
        gate.touch()

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        result = run(digits, tmp_path / "run", frame, **settings)  # in the thread that has the session
        killing.result()
    assert result["restarts"] == 1
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": 2600}


@pytest.mark.slow
@pytest.mark.parametrize("epochs_done", [0, 1])
def test_a_run_goes_on_with_the_same_rows_of_a_data_frame_only(fed, spark, digits, tmp_path, epochs_done):
    """From a checkpoint within its first epoch, and from one after it: an epoch has 21 updates."""
    rows = spark.read.parquet(f"{digits}/train").drop("lane")
    settings = {"input_mode": "spark", "epochs": 2, "checkpoint": {"seconds": None, "every": 20, "keep": 9}}
    straight = run(digits, tmp_path / "straight", rows, **settings)
    without_end(tmp_path / "straight", tmp_path / "run", 1 + epochs_done)
    resume = Options(resume=True)
    says = r"^the DataFrame gave other rows than before \(1,\d{3} rows now, 1,300 then\); "
    with pytest.raises(RunError, match=says):
        run(digits, tmp_path / "run", rows.where("label > 0"), resume, **settings)
    resumed = run(digits, tmp_path / "run", rows, resume, **settings)
    assert (resumed["weights"], resumed["ledger"]) == (straight["weights"], straight["ledger"])
    assert resumed["ledger"]["exact"] is True


def test_a_frame_with_other_columns_is_refused(spark, digits, tmp_path):
    rows = spark.read.parquet(f"{digits}/train")
    for frame, message in (
        (rows.drop("x"), "the DataFrame has no column 'x'; it has row_id, label"),
        (rows.withColumn("label", rows.label.cast("string")), "column 'label' must be bigint \\(is string\\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(digits, tmp_path / "run", frame, input_mode="spark", nodes=2)
        assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="input_mode: must be spark to train on a DataFrame"):
        run(digits, tmp_path / "run", rows)
