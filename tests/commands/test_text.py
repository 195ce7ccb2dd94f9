"""The shipped configurations on a text, as a user runs them: preprocess, train with several strategies, predict."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from models import lstm
from sparksplit.base.shipped import shipped
from sparksplit.commands import predict, preprocess, train
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet
from tests.commands.texts import sentences
from tests.inference.runs import make_run


def call(command: Any, config: str, *settings: str) -> int:
    arguments = [part for setting in settings for part in ("--set", setting)]
    return int(command.main(["--config", shipped(f"conf/{config}"), *arguments]))


def tokens(data: PreparedDataSet, split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(tokens, what follows each), int64 [rows, length]."""
    with BlockReader(data, split) as reader:
        blocks = [
            reader.read(lane, block)
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
        ]
    labels = [block.label for block in blocks if block.label is not None]
    return np.concatenate([block.tensors["x"] for block in blocks]).astype(int), np.concatenate(labels).astype(int)


def bigram_loss(data: PreparedDataSet) -> float:
    """The mean loss over the validation split of a bigram with one added to every count of the training split."""
    assert data.manifest.label is not None and data.manifest.label.classes is not None
    size = len(data.manifest.label.classes)
    counts = np.ones((size, size))
    np.add.at(counts, tokens(data, "train"), 1)
    probabilities = counts / counts.sum(axis=1, keepdims=True)
    return float(-np.log(probabilities[tokens(data, "validation")]).mean())


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PreparedDataSet:
    """The real text that SPARKSPLIT_DATA has, or else one that the test makes, by conf/preprocess-text.yaml."""
    folder = tmp_path_factory.mktemp("text")
    path = Path(os.environ.get("SPARKSPLIT_DATA", ""), "text", "tinyshakespeare", "input.txt").resolve()
    if not path.is_file():
        path = folder / "sentences.txt"
        path.write_text(sentences(120_000))
    assert call(preprocess, "preprocess-text.yaml", f"input.path={path}", f"output={folder}/data") == 0
    return PreparedDataSet.open(f"{folder}/data")


@pytest.mark.slow
def test_the_lstm_is_better_than_a_bigram_and_predict_agrees(
    forked: None, prepared: PreparedDataSet, tmp_path: Path
) -> None:
    rows = {name: split.rows for name, split in prepared.manifest.splits.items()}
    assert 0 < sum(rows.values()) <= 5000 and all(rows.values())
    output = tmp_path / "run"
    settings = (f"data={prepared.path}", f"output={output}", "strategy=batch", "nodes=2", "epochs=10")
    assert call(train, "train-lstm.yaml", *settings) == 0
    run = json.loads((output / "run.json").read_text())
    assert run["strategy"] == "batch" and run["ledger"]["exact"] is True
    assert min(run["metrics"]["validation"]["loss"]) < bigram_loss(prepared)
    settings = (f"model={output}", f"input={prepared.path}", f"output={tmp_path}/predictions")
    assert call(predict, "predict.yaml", *settings) == 0
    metrics = json.loads((tmp_path / "predictions" / "metrics.json").read_text())
    assert metrics["rows"] == rows["test"]
    assert metrics["accuracy"] == pytest.approx(run["metrics"]["test"]["accuracy"], abs=1e-6)
    assert metrics["log_loss"] == pytest.approx(run["metrics"]["test"]["loss"], rel=1e-4)


@pytest.mark.slow
def test_predictions_of_a_text_are_a_token_at_each_position(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of prepared and of raw rows alike, and what `keep` carries along."""
    path = tmp_path / "text.txt"
    path.write_text(sentences(2000) + "$")
    keys = ("input.length=9", "input.stride=9", "input.max_sequences=null", "validation=0", "test=0.2", "lanes=5")
    assert call(preprocess, "preprocess-text.yaml", f"input.path={path}", f"output={tmp_path}/data", *keys) == 0
    data = PreparedDataSet.open(f"{tmp_path}/data")
    keras.utils.set_random_seed(1)
    model = make_run(tmp_path / "run", data, lambda described: lstm.build(described, [5]), tmp_path)
    assert data.manifest.label is not None and data.manifest.label.classes is not None
    names = data.manifest.label.classes

    settings = (f"model={tmp_path}/run", f"input={data.path}", f"output={tmp_path}/prepared", "keep=[label]")
    assert call(predict, "predict.yaml", *settings, "split=[train, test]") == 0
    metrics = json.loads((tmp_path / "prepared" / "metrics.json").read_text())
    found = pq.read_table(tmp_path / "prepared" / "predictions").to_pylist()
    assert set(found[0]) == {"row_id", "split", "label", "prediction", "prediction_name"}
    right, total = 0, 0
    for split in ("train", "test"):
        x, y = tokens(data, split)
        expected = np.asarray(model(x.astype(np.float32))).argmax(axis=-1)
        right, total = right + int((expected == y).sum()), total + y.size
        mine = [row for row in found if row["split"] == split]
        pairs = sorted((row["label"], row["prediction"]) for row in mine)
        assert pairs == sorted(zip(y.tolist(), expected.tolist(), strict=True))
        assert all(row["prediction_name"] == [names[index] for index in row["prediction"]] for row in mine)
    assert metrics["rows"] == len(found) and metrics["accuracy"] == pytest.approx(right / total)
    assert sum(entry["rows"] for entry in metrics["by_class"]) == total

    raw = ("input.format=text", f"input.path={path}", "input.stride=9", f"model={tmp_path}/run")
    assert call(predict, "predict.yaml", *raw, f"output={tmp_path}/raw", "keep=[label]") == 0
    known = {row["row_id"]: row for row in found if row["split"] == "train"}
    rows = {row["row_id"]: row for row in pq.read_table(tmp_path / "raw" / "predictions").to_pylist()}
    assert set(known) <= set(rows)
    for name in ("label", "prediction", "prediction_name"):
        assert all(rows[one][name] == known[one][name] for one in known)
    assert call(predict, "predict.yaml", *raw, "input.label=null", f"output={tmp_path}/bare") == 0
    assert not (tmp_path / "bare" / "metrics.json").exists()
    capsys.readouterr()
    assert call(predict, "predict.yaml", *raw, "input.length=8", f"output={tmp_path}/other") == 2
    message = "--set input.length=8: input.length: must be 9, as the model was trained (is 8)\n"
    assert capsys.readouterr().err.endswith(message)
