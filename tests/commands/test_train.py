"""What `sparksplit train` answers to mistakes: one line that says where and what to do, exit status 2, nothing left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hdfs_io.publish import Output
from sparksplit.commands.train import COMMAND
from sparksplit.dataset.arrays import from_arrays

MODELS = str(Path(__file__).parent.parent / "training" / "models.py")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Thirty rows of three classes in four lanes."""
    folder = tmp_path_factory.mktemp("prepared") / "data"
    x = np.random.default_rng(0).integers(0, 255, (30, 5), dtype=np.uint8)
    from_arrays(str(folder), {"train": (x, np.arange(30) % 3)}, lanes=4)
    return folder


@pytest.fixture
def call(prepared, tmp_path, capsys):
    """Run the command with a configuration; (exit status, last line on stderr without the command's name)."""

    def call(values, *arguments):
        config = tmp_path / "train.yaml"
        config.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))
        output = tmp_path / "out"
        status = COMMAND.main(["--config", str(config), "--set", f"output={output}", *arguments])
        lines = capsys.readouterr().err.replace(str(tmp_path), "").strip().splitlines()
        prefix = "sparksplit train: "
        assert lines[-1].startswith(prefix)
        assert not any("Traceback" in line for line in lines)
        return status, lines[-1].removeprefix(prefix), output

    return lambda values, *arguments: call({"data": str(prepared), **values}, *arguments)


BEFORE_SPARK = {
    "unknown key": ({"epocs": 3}, "/train.yaml:2: epocs: unknown key; did you mean 'epochs'?"),
    "wrong type": ({"epochs": "many"}, '/train.yaml:2: epochs: must be a whole number (is "many")'),
    "out of range": (
        {"optimizer": {"learning_rate": -0.1}},
        "/train.yaml:2: optimizer.learning_rate: must be above 0 (is -0.1)",
    ),
    "unknown strategy": (
        {"strategy": "bach"},
        "/train.yaml:2: strategy: must be one of single, batch, epoch, epoch-delayed, local, auto, or a function "
        "that returns a strategy (is 'bach'); did you mean 'batch'?",
    ),
    "a comparison for a strategy that chooses nothing": (
        {"comparison": "/none"},
        "/train.yaml:2: comparison: needs strategy: auto (is single)",
    ),
    "single on two nodes": ({"nodes": 2}, "nodes must be 1 with strategy: single (is 2)"),
    "more nodes than lanes": (
        {"nodes": 5, "strategy": "batch"},
        "/train.yaml:2: nodes: 5 nodes are more than the data set's 4 lanes",
    ),
    "no such module": (
        {"model": {"build": "nowhere.at:all"}},
        "/train.yaml:2: model.build: module 'nowhere.at' not found",
    ),
    "no such function": (
        {"model": {"build": f"{MODELS}:with_sate"}},
        f"/train.yaml:2: model.build: {MODELS} has no function 'with_sate'; did you mean 'with_state'?",
    ),
    "no such file": ({"transform": "/nowhere/at.py:all"}, "/train.yaml:2: transform: /nowhere/at.py: does not exist"),
    "a typo in an optimizer's argument": (
        {"optimizer": {"learning_rat": 0.1}},
        "/train.yaml:2: optimizer.learning_rat: SGD has no such argument; did you mean 'learning_rate'?",
    ),
    "an unknown optimizer": (
        {"optimizer": {"name": "adamm"}},
        "/train.yaml:2: optimizer.name: Keras has no 'adamm'; did you mean 'Adam'?",
    ),
    "a model for other data": (
        {"model": {"build": "cnn"}},
        "/train.yaml:2: model.build: cnn needs images [height, width(, channels)], but the data set has x [5]; use "
        "model.build: lstm or mlp or tabular",
    ),
    "a wrong argument of a model": (
        {"model": {"build": "mlp", "params": {"unit": 3}}},
        "/train.yaml:2: model.params.unit: mlp has no such argument; it has hidden, activation",
    ),
    "no data set": ({"data": "/nowhere/prepared"}, "/nowhere/prepared: not a prepared data set"),
}


@pytest.mark.parametrize("name", BEFORE_SPARK)
def test_known_before_spark_starts(call, name, monkeypatch):
    def started(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("sparksplit.training.train.spark_session", started)
    values, message = BEFORE_SPARK[name]
    status, line, output = call(values)
    assert message in line
    assert status == 2
    assert not output.exists()


def test_a_data_set_that_is_not_complete(call, prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "copy")
    (tmp_path / "copy" / "_SUCCESS").unlink()
    status, line, output = call({"data": str(tmp_path / "copy")})
    assert (status, line) == (
        2,
        "/copy: not a complete data set: no _SUCCESS file. Run `sparksplit preprocess` to make it",
    )
    assert not output.exists()


def test_a_data_set_whose_file_has_another_size(call, prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "copy")
    file = next((tmp_path / "copy" / "train").iterdir())
    file.write_bytes(file.read_bytes()[:-7])
    status, line, output = call({"data": str(tmp_path / "copy")})
    assert status == 2
    assert f"/copy/train/{file.name}: is damaged" in line
    assert not output.exists()


def test_an_output_that_is_not_sparksplits(call, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    status, line, output = call({}, "--overwrite")
    assert status == 2
    assert line.startswith("/out: exists and is not an output of sparksplit")
    assert (output / "thesis.tex").exists()


@pytest.mark.parametrize("arguments", [(), ("--overwrite",), ("--resume",)])
def test_an_output_that_is_the_data_set_or_lies_in_it(call, prepared, tmp_path, arguments):
    data = tmp_path / "copy"
    shutil.copytree(prepared, data)
    before = sorted(data.rglob("*"))
    for output, message in (
        (f"{data}/", "/copy: is a prepared data set, not a run of train; choose another folder"),
        (data / "run", "/copy/run: lies within what the command reads (data: /copy); choose another output"),
    ):
        status, line, _ = call({"data": str(data)}, "--set", f"output={output}", *arguments)
        assert (status, line) == (2, message)
        assert sorted(data.rglob("*")) == before


def test_an_output_that_another_command_fills(call, tmp_path):
    with Output(str(tmp_path / "out"), "a", "train").claimed():
        status, line, output = call({})
    assert status == 3
    assert line.startswith("/out: is being written by train on ")
    assert not output.exists()


# All that can be wrong here is in tests/model/test_build.py and test_saving.py; these two show how it reaches the user.
ON_THE_NODES = {
    "a model that only rank 0 has tried to save": (
        {"model": {"build": f"{MODELS}:not_saved"}, "strategy": "batch", "nodes": 2},
        "models.py:not_saved: 'same' (Lambda) cannot be saved and loaded again, so the trained model could not "
        "be either: ",
    ),
    "values that an optimizer does not take together": (
        {"optimizer": {"clipnorm": 1.0, "clipvalue": 1.0}},
        "/train.yaml:2: optimizer: SGD: ",
    ),
}


@pytest.mark.parametrize("name", ON_THE_NODES)
def test_known_once_keras_is_there(forked, call, name):
    values, message = ON_THE_NODES[name]
    status, line, output = call(values)
    assert message in line
    assert status == 2
    assert not output.exists()


def test_a_checksum_that_differs(forked, call, prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "copy")
    blocks = tmp_path / "copy" / "blocks" / "train.parquet"
    table = pq.read_table(blocks)
    rows = table.to_pylist()
    rows[0]["crc32"][0] ^= 1
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), blocks)
    status, line, output = call({"data": str(tmp_path / "copy")})
    assert status == 2
    assert "row group 0: " in line
    assert "/copy/train/lanes-" in line
    assert not output.exists()


def test_more_nodes_than_executors(spark, call):
    """The tests' session has four; feeding takes one of them."""
    status, line, output = call({"nodes": 4, "strategy": "batch", "input_mode": "spark"})
    assert status == 2
    assert "nodes: 4 nodes need 5 executors (1 to feed them), and the settings allow 4; " in line
    assert not output.exists()


def test_the_same_bad_call_in_debug_shows_where(call, capsys, tmp_path):
    config = tmp_path / "debug.yaml"
    config.write_text("data: /nowhere\noutput: /nowhere\n")
    assert COMMAND.main(["--config", str(config), "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err
