"""Tables of mixed columns through preprocess, train on one and two nodes, and predict."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparksplit.commands import predict, preprocess
from sparksplit.dataset.prepared import PreparedDataSet
from tests.commands.mixed_tables import FEATURES, clients, raw_columns
from tests.forked import Zygote, nodes_of
from tests.training.runs import largest_difference, run, weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 1500
LAST = [name for name in clients(1).column_names if name != "pair"]
"""The columns that a CSV can have."""


def prepare(*words: str) -> int:
    return preprocess.main([word for each in words for word in ("--set", each)])


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table as Parquet, its prepared data set, and new rows as CSV."""
    place = tmp_path_factory.mktemp("tables")
    pq.write_table(clients(ROWS), place / "clients.parquet")
    section = json.dumps(
        {"format": "parquet", "path": f"{place}/clients.parquet", "label": "left", "keep": ["id"], "weight": "worth"}
    )
    assert prepare(f"input={section}", f"output={place}/data", f"features={json.dumps(FEATURES)}", "test=0.2") == 0
    return place


@pytest.fixture(scope="module")
def trained(folder: Path, zygote: Zygote) -> Iterator[dict[int, dict[str, Any]]]:
    """The records of runs on one node and on two, into folder/run1 and folder/run2."""
    keys = {
        # Without the kink of relu: where an output is 0 but for rounding, float32 would give runs that differ.
        "model": {"build": "tabular", "params": {"hidden": [16], "activation": "tanh", "wide": True}},
        "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
        "epochs": 8, "batch_size": 50, "checkpoint": {"every": "epoch", "keep": 1},
    }  # fmt: skip
    with nodes_of(zygote, spark=True):
        yield {nodes: run(folder / "data", folder / f"run{nodes}", nodes=nodes, **keys) for nodes in (1, 2)}


def test_every_row_is_trained_on_once_and_the_nodes_do_not_matter(folder: Path, trained: dict[int, Any]) -> None:
    rows = PreparedDataSet.open(f"{folder}/data").manifest.splits["train"].rows
    for record in trained.values():
        assert record["ledger"]["exact"]
        assert record["ledger"]["rows"] == 8 * rows
    assert largest_difference(weights(folder / "run1"), weights(folder / "run2")) < 1e-4
    losses = trained[2]["metrics"]["train"]["loss"]
    assert losses[-1] < 0.9 * losses[0]


def test_raw_rows_are_predicted_as_stored_ones(
    folder: Path, trained: dict[int, Any], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict.main(["--set", f"model={folder}/run2", "--set", f"input={folder}/data", "--set", "split=[train, validation, test]", "--set", f"output={folder}/stored"]) == 0  # fmt: skip  # noqa: E501
    own = {"format": "parquet", "path": f"{folder}/clients.parquet", "label": "left", "keep": ["id"], "weight": "worth"}
    raw = json.dumps(own)
    assert (
        predict.main(["--set", f"model={folder}/run2", "--set", f"input={raw}", "--set", f"output={folder}/raw"]) == 0
    )
    stored, again = (_predicted(folder / name) for name in ("stored", "raw"))
    assert len(stored) == len(again) == ROWS
    assert list(stored.index) == list(again.index)
    assert (stored.row_id == again.row_id).all()
    measured = [json.loads((folder / name / "metrics.json").read_text()) for name in ("stored", "raw")]
    for name in ("accuracy", "log_loss", "auc"):  # by weight
        assert measured[0][name] == pytest.approx(measured[1][name], rel=1e-4)
    # Batches of other sizes, and so other sums in the last bits.
    np.testing.assert_allclose(np.stack(stored.probabilities), np.stack(again.probabilities), rtol=1e-4)
    good, same = (json.loads((folder / name / "metrics.json").read_text()) for name in ("stored", "raw"))
    assert good["accuracy"] == pytest.approx(same["accuracy"])  # by weight, both
    assert good["by_class"][0]["rows"] == pytest.approx(same["by_class"][0]["rows"])
    served = _served(folder / "run2", clients(ROWS), folder).loc[again.index]
    np.testing.assert_allclose(np.stack(again.probabilities), served, rtol=1e-4)
    # New rows have no label, and keep what the prepared ones kept.
    pq.write_table(clients(200, seed=2).drop(["left"]), folder / "new.parquet")
    raw = json.dumps({"format": "parquet", "path": f"{folder}/new.parquet"})
    words = ["--set", f"model={folder}/run2", "--set", f"input={raw}", "--set", f"output={folder}/new"]
    assert predict.main([*words, "--set", "labels=required"]) == 2
    assert "labels: " in (said := capsys.readouterr().err) and "has no labels" in said
    assert predict.main(words) == 0
    said = capsys.readouterr().err
    assert "has no label column 'left', so predictions have no metrics" in said
    assert "columns that the model was not trained on are left out: worth" in said
    assert len(_predicted(folder / "new")) == 200 and not (folder / "new" / "metrics.json").exists()


SERVED = """
import sys
import numpy as np
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
raw = {name: tf.constant(column) for name, column in np.load(sys.argv[2]).items()}
np.save(sys.argv[3], model(**raw)["outputs"].numpy())
"""


def _served(model: Path, table: pa.Table, folder: Path) -> pd.DataFrame:
    """What the run's SavedModel says of raw rows, in a process that has TensorFlow alone: [rows, classes], by id."""
    np.savez(folder / "rows.npz", **raw_columns(table))
    saved = [str(model / "saved_model" / "1"), str(folder / "rows.npz"), str(folder / "outputs.npy")]
    # Apart from the house, so that none of its modules is there.
    subprocess.run([sys.executable, "-I", "-c", SERVED, *saved], check=True, timeout=120, cwd=folder)
    return pd.DataFrame(np.load(folder / "outputs.npy"), index=table["id"].to_pylist())


def _predicted(folder: Path) -> pd.DataFrame:
    found = ds.dataset(folder / "predictions", exclude_invalid_files=True).to_table().to_pandas()
    return found.set_index("id").sort_index()


def test_a_missing_column_is_named(folder: Path, trained: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(clients(20).drop(["plan", "left"]), folder / "less.parquet")
    raw = json.dumps({"format": "parquet", "path": f"{folder}/less.parquet", "label": None})
    assert (
        predict.main(["--set", f"model={folder}/run2", "--set", f"input={raw}", "--set", f"output={folder}/none"]) == 2
    )
    assert "has no column 'plan', which the model was trained on; it has age, pay, city" in capsys.readouterr().err
    assert not (folder / "none").exists()


def test_a_csv_goes_by_its_first_rows(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pc.write_csv(clients(400).select(LAST), tmp_path / "clients.csv")
    words = (
        f"input.path={tmp_path}/clients.csv",
        "input.format=csv",
        "input.label=left",
        "input.keep=[id]",
        "input.weight=worth",
    )
    assert prepare(*words, f"output={tmp_path}/data") == 0
    said = capsys.readouterr()
    assert "feature opened (date): date: month, weekday" in said.err
    assert "feature active (boolean): category" in said.err and "label left: class (text)" in said.err
    features = {each.column: each for each in PreparedDataSet.open(f"{tmp_path}/data").manifest.features}
    kinds = {name: feature.kind for name, feature in features.items()}
    assert kinds == {
        "age": "number", "pay": "number", "plan": "category", "city": "category", "active": "category",
        "opened": "date", "seen at": "date", "note": "category",
    }  # fmt: skip
    assert sorted(features["active"].vocabulary) == ["false", "true"]
    assert prepare(*words, f"output={tmp_path}/data") == 0
    assert "is up to date" in capsys.readouterr().err


def test_the_next_day_takes_what_the_first_has_fitted(folder: Path, tmp_path: Path) -> None:
    pq.write_table(clients(600, seed=3, first_day=900), tmp_path / "next.parquet")
    own = {"format": "parquet", "path": f"{tmp_path}/next.parquet", "label": "left", "keep": ["id"], "weight": "worth"}
    section = json.dumps(own)
    assert prepare(f"input={section}", f"fitted={folder}/data", f"output={tmp_path}/data") == 0
    first, then = (PreparedDataSet.open(f"{place}/data").manifest for place in (folder, tmp_path))
    assert (then.features, then.tensors, then.label) == (first.features, first.tensors, first.label)
    assert (then.lanes, then.block_rows) == (first.lanes, first.block_rows)
    assert sum(split.rows for split in then.splits.values()) == 600
    assert (
        prepare(f"input={section}", f"fitted={folder}/data", "features={age: ignore}", f"output={tmp_path}/other") == 2
    )
