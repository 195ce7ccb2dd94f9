"""`predict` as a user calls it: what it leaves, and what it says where the model or the input is wrong."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from models import cnn, mlp
from sparksplit.commands import predict
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet
from sparksplit.inference.trained import TrainedModel, load
from tests.hdfs_io.outputs import names
from tests.inference.runs import make_run
from tests.prepare.idx_files import digits, write_folder

NAMES = ["cat", "dog", "eel"]


def call(tmp_path: Path, *settings: str, config: str = "", options: tuple[str, ...] = ()) -> int:
    """Run the command with its output in tmp_path/out."""
    file = tmp_path / "predict.yaml"
    file.write_text(config)
    arguments = ["--config", f"{file}", *options]
    for setting in (f"output={tmp_path}/out", *settings):
        arguments += ["--set", setting]
    return predict.main(arguments)


def read_all(data: PreparedDataSet, split: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Any]:
    """(row_ids as int64, stored values, labels) of a split."""
    with BlockReader(data, split) as reader:
        blocks = [
            reader.read(lane, block)
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
        ]
    ids = np.concatenate([block.row_ids for block in blocks]).view(np.int64)
    values = np.concatenate([block.tensors["x"] for block in blocks])
    labels = None if blocks[0].label is None else np.concatenate([block.label for block in blocks])
    return ids, values, labels


def on_one_machine(run: Path, data: PreparedDataSet, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What model.keras says of preprocessed values, all at once."""
    model = keras.models.load_model(run / "model.keras")
    outputs: np.ndarray[Any, Any] = model(data.manifest.preprocessing.apply("x", values), training=False).numpy()
    return outputs


def mse(found: np.ndarray[Any, Any], wanted: Any) -> float:
    return float(np.mean((found.astype(np.float64) - wanted) ** 2))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreparedDataSet, Path, Path]:
    """(prepared images of three classes, the same as an IDX folder, the run of a small CNN)."""
    folder = tmp_path_factory.mktemp("images")
    train, test = digits(300), digits(200, seed=1)
    raw = write_folder(folder / "raw", train, test, compressed=True)
    splits = {"train": (train[0], train[1].astype("i8")), "test": (test[0], test[1].astype("i8"))}
    data = from_arrays(str(folder / "data"), splits, lanes=11, scaling="standard", block_size=1024)
    keras.utils.set_random_seed(3)
    make_run(folder / "run", data, lambda described: cnn.build(described, (4,), 1, 8), folder)
    return data, raw, folder / "run"


@pytest.mark.parametrize("options", [(), ("--overwrite",)])
def test_an_output_that_is_or_lies_in_what_is_read(
    tmp_path: Path,
    images: tuple[PreparedDataSet, Path, Path],
    no_spark: None,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
) -> None:
    data, raw, run = images
    for source in (f"input={data.path}", f"input.path={raw}"):
        for output, message in (
            (data.path, "/data: is a prepared data set, not predictions; choose another folder"),
            (run / "predicted", f"/run/predicted: lies within what the command reads (model: {run}); choose another"),
            (raw.parent, "exists and is not an output of sparksplit"),
        ):
            assert call(tmp_path, f"model={run}", source, f"output={output}", options=options) == 2
            assert message in capsys.readouterr().err


@pytest.mark.slow
def test_predictions_are_those_of_the_model_on_one_machine(
    spark: SparkSession,
    tmp_path: Path,
    images: tuple[PreparedDataSet, Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, _, run = images
    assert call(tmp_path, f"model={run}", f"input={data.path}", "batch_size=7") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("rows       200 (200 of test) in 1 file\nmetrics    accuracy ")
    assert f"predicted  {tmp_path}/out/predictions" in printed

    ids, values, labels = read_all(data, "test")
    wanted = on_one_machine(run, data, values)
    table = pq.read_table(tmp_path / "out" / "predictions")
    assert table.column_names == ["row_id", "prediction", "probabilities"]
    assert np.array_equal(table["row_id"].to_numpy(), ids)
    assert np.array_equal(table["prediction"].to_numpy(), wanted.argmax(axis=1))
    np.testing.assert_allclose(np.stack(table["probabilities"].to_numpy()), wanted, atol=1e-5)

    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["rows"] == 200
    assert metrics["accuracy"] == (wanted.argmax(axis=1) == labels).mean()
    own = wanted[np.arange(200), labels].astype(np.float64)
    assert metrics["log_loss"] == pytest.approx(-np.log(own).mean(), abs=1e-5)
    assert [row["rows"] for row in metrics["by_class"]] == np.bincount(labels).tolist()
    assert sum(row["predicted"] for row in metrics["by_class"]) == 200
    assert spark.read.parquet(f"{tmp_path}/out/predictions").count() == 200
    assert not list(tmp_path.glob(".out*"))

    assert call(tmp_path, f"model={run}", f"input={data.path}") == 0
    assert "is up to date: it was made from the same input and configuration" in capsys.readouterr().out
    assert call(tmp_path, f"model={run}", f"input={data.path}", "keep=[label]") == 2
    other = 'exists, made with another configuration (keep was [], is ["label"]); --overwrite replaces it'
    assert other in capsys.readouterr().err
    settings = (f"model={run}", f"input={data.path}", "keep=[label]", "split=[test,train]")
    assert call(tmp_path, *settings, options=("--overwrite",)) == 0
    table = pq.read_table(tmp_path / "out" / "predictions")
    assert table.column_names == ["row_id", "split", "label", "prediction", "probabilities"]
    assert table["split"].to_pylist() == ["test"] * 200 + ["train"] * 300
    assert np.array_equal(table["label"].to_numpy()[:200], labels)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["rows"] == 500
    assert {split: found["rows"] for split, found in metrics["by_split"].items()} == {"test": 200, "train": 300}


@pytest.mark.slow
def test_a_partition_of_a_table_is_written_and_replaced_alone(
    spark: SparkSession,
    tmp_path: Path,
    images: tuple[PreparedDataSet, Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, _, run = images
    settings = (f"model={run}", f"input={data.path}", "top=2")
    for day in ("2026-11-21", "2026-11-22"):
        assert call(tmp_path, *settings, f"partition.ds={day}") == 0
    assert f"predicted  {tmp_path}/out/ds=2026-11-22\n" in capsys.readouterr().out
    first, second = (tmp_path / "out" / f"ds=2026-11-{day}" for day in (21, 22))
    assert names(tmp_path / "out") == ["ds=2026-11-21", "ds=2026-11-22"]
    assert names(first) == ["_CONFIG", "_SUCCESS", "_metrics.json", "part-00000.parquet"]
    columns = "row_id bigint, prediction bigint, top_predictions array<bigint>, top_probabilities array<float>"
    spark.sql(
        f"CREATE TABLE predicted ({columns}, ds string) USING parquet PARTITIONED BY (ds) LOCATION '{tmp_path}/out'"
    )
    spark.sql("MSCK REPAIR TABLE predicted")
    rows = spark.table("predicted").collect()
    spark.sql("DROP TABLE predicted")
    ids, values, _ = read_all(data, "test")
    wanted = on_one_machine(run, data, values).astype(np.float64)
    order = np.argsort(-wanted, axis=1, kind="stable")[:, :2]
    place = {row_id: number for number, row_id in enumerate(ids.tolist())}
    assert len(rows) == 400 and {row["ds"] for row in rows} == {"2026-11-21", "2026-11-22"}
    for row in rows:
        own = order[place[row["row_id"]]]
        np.testing.assert_array_equal(row["top_predictions"], own)
        np.testing.assert_allclose(row["top_probabilities"], wanted[place[row["row_id"]], own], atol=1e-5)

    before = {path: path.stat().st_mtime_ns for path in second.iterdir()}
    assert call(tmp_path, *settings, "partition.ds=2026-11-21") == 0
    assert "is up to date" in capsys.readouterr().out
    assert call(tmp_path, *settings, "keep=[label]", "partition.ds=2026-11-21") == 2
    assert f"{first}: exists, made with another configuration (keep was [], is " in capsys.readouterr().err
    assert call(tmp_path, *settings, "keep=[label]", "partition.ds=2026-11-21", options=("--overwrite",)) == 0
    assert "label" in pq.read_schema(first / "part-00000.parquet").names
    assert {path: path.stat().st_mtime_ns for path in second.iterdir()} == before
    assert names(tmp_path / "out") == ["ds=2026-11-21", "ds=2026-11-22"]


@pytest.mark.slow
def test_raw_rows_are_predicted_as_prepared_ones(
    spark: SparkSession, tmp_path: Path, images: tuple[PreparedDataSet, Path, Path]
) -> None:
    data, raw, run = images
    ids, values, _ = read_all(data, "test")
    wanted = dict(zip(ids.tolist(), on_one_machine(run, data, values), strict=True))
    assert call(tmp_path, f"model={run}", "input.format=idx", f"input.path={raw}", "split=test") == 0
    table = pq.read_table(tmp_path / "out" / "predictions")
    assert sorted(table["row_id"].to_pylist()) == sorted(wanted)
    for row in table.to_pylist():
        np.testing.assert_allclose(row["probabilities"], wanted[row["row_id"]], atol=1e-5)
        assert row["prediction"] == wanted[row["row_id"]].argmax()
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["rows"] == 200
    # Without a split, all that the folder has, told apart by a column.
    assert call(tmp_path, f"model={run}", f"input.path={raw}", "input.label=null", options=("--overwrite",)) == 0
    table = pq.read_table(tmp_path / "out" / "predictions")
    assert {split: table["split"].to_pylist().count(split) for split in ("train", "test")} == {
        "train": 300,
        "test": 200,
    }
    assert not (tmp_path / "out" / "metrics.json").exists()


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreparedDataSet, Path]:
    """(prepared rows of three float columns and named classes, the run of a model with a layer of its own)."""
    folder = tmp_path_factory.mktemp("animals")
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    names = [NAMES[row % 3] for row in range(60)]
    data = from_arrays(str(folder / "data"), {"train": (x, names), "test": (x[:20], names[:20])}, scaling="unit")

    class Twice(keras.layers.Layer):  # type: ignore[misc]
        """Exists nowhere but here: executors know only what was exported."""

        def call(self, inputs: Any) -> Any:
            return 2 * inputs

    def build(described: Any) -> Any:
        return keras.Sequential(
            [keras.layers.Input(described.input_shape), Twice(), keras.layers.Dense(3, activation="softmax")]
        )

    make_run(folder / "run", data, build, folder)
    return data, folder / "run"


@pytest.mark.slow
def test_csv_rows_with_kept_columns_named_classes_and_a_bad_row(
    spark: SparkSession,
    tmp_path: Path,
    animals: tuple[PreparedDataSet, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, run = animals
    _, values, _ = read_all(data, "test")
    lines = [f"{row[0]!r},{row[1]!r},{row[2]!r},{NAMES[n % 3]},id{n}" for n, row in enumerate(values.tolist())]
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress("\n".join(["a,b,c,kind,id", *lines, "1,2"]).encode(), mtime=0))
    config = f"input: {{format: csv, path: {tmp_path}/rows.csv.gz, label: kind, keep: [id], max_bad_rows: 1}}"
    assert call(tmp_path, f"model={run}", config=config) == 0
    left_out = "1 row was left out: 1 another number of columns"
    printed = capsys.readouterr().out
    assert printed.startswith("rows       20 in ")  # no split's: nobody has cut them
    assert f"bad rows   {left_out}; they are in {tmp_path}/out/bad_rows" in printed
    rows = pq.read_table(tmp_path / "out" / "predictions").to_pylist()
    assert list(rows[0]) == ["row_id", "id", "prediction", "prediction_name", "probabilities"]
    assert sorted(row["id"] for row in rows) == sorted(f"id{n}" for n in range(20))
    assert all(row["prediction_name"] == NAMES[row["prediction"]] for row in rows)
    bad = pq.read_table(tmp_path / "out" / "bad_rows").to_pylist()
    assert [(row["row"], row["reason"]) for row in bad] == [(22, "has 2 columns, 5 are needed")]
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    right = sum(row["prediction_name"] == NAMES[int(row["id"][2:]) % 3] for row in rows)
    assert metrics["accuracy"] == right / 20
    (tmp_path / "rows.csv").write_text("a,b,c,kind,id\n1,2\n")
    config = f"input: {{format: csv, path: {tmp_path}/rows.csv, label: kind, keep: [id], max_bad_rows: 1}}"
    assert call(tmp_path, f"model={run}", config=config, options=("--overwrite",)) == 2
    first = f"{tmp_path}/rows.csv: row 2: has 2 columns, 5 are needed"
    message = f"{tmp_path}/rows.csv: has no rows to predict; 1 bad row left out, the first: {first}\n"
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.slow
def test_a_label_that_the_model_does_not_know(
    spark: SparkSession,
    tmp_path: Path,
    animals: tuple[PreparedDataSet, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, run = animals
    (tmp_path / "rows.csv").write_text("1,2,3,cat\n4,5,6,cow\n")
    settings = (f"model={run}", "input.format=csv", f"input.path={tmp_path}/rows.csv", "input.header=false")
    assert call(tmp_path, *settings) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"sparksplit predict: {tmp_path}/rows.csv: 1 rows have a label that is not a class of the model; "
        "input.label: null predicts without labels"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["predict.yaml", "rows.csv"]


@pytest.mark.slow
def test_numbers_and_their_errors(spark: SparkSession, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y = x.sum(axis=1).astype(np.float32)
    data = from_arrays(str(tmp_path / "data"), {"train": (x, y), "test": (x[:20], y[:20])})
    make_run(tmp_path / "run", data, lambda described: mlp.build(described, (4,)), tmp_path)
    assert call(tmp_path, f"model={tmp_path}/run", f"input={data.path}") == 0
    table = pq.read_table(tmp_path / "out" / "predictions")
    assert table.column_names == ["row_id", "prediction"]
    _, values, labels = read_all(data, "test")
    wanted = on_one_machine(tmp_path / "run", data, values)[:, 0]
    np.testing.assert_allclose(table["prediction"].to_numpy(), wanted, atol=1e-5)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["mean_squared_error"] == pytest.approx(mse(wanted, labels), rel=1e-5)
    assert metrics["mean_absolute_error"] == pytest.approx(np.abs(wanted - labels).mean(), rel=1e-5)


@pytest.mark.slow
def test_a_damaged_block_ends_it_with_one_line_and_no_output(
    spark: SparkSession, tmp_path: Path, images: tuple[PreparedDataSet, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    data, _, run = images
    splits = {split: read_all(data, split)[1:] for split in ("train", "test")}
    copy = from_arrays(str(tmp_path / "data"), splits, lanes=11, scaling="standard", block_size=1024)
    file = Path(copy.path) / next(iter(copy.files("test")))
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)
    assert call(tmp_path, f"model={run}", f"input={copy.path}") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"sparksplit predict: {file}: row group ") and "is damaged" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "predict.yaml"]


@pytest.mark.slow
def test_a_saved_model_that_cannot_be_loaded_is_one_line(
    spark: SparkSession, tmp_path: Path, images: tuple[PreparedDataSet, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(images[2], run)
    for file in (run / "saved_model" / "1" / "variables").iterdir():
        file.write_bytes(b"")
    assert call(tmp_path, f"model={run}", f"input={images[0].path}") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"sparksplit predict: {run}/saved_model/1: cannot be loaded: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["predict.yaml", "run"]


def test_a_model_is_loaded_once_per_process(images: tuple[PreparedDataSet, Path, Path]) -> None:
    run = images[2]
    first = load(TrainedModel.open(str(run)), 1)
    assert load(TrainedModel.open(str(run)), 1) is first


# What is known before Spark starts.


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], *settings: str, config: str = "") -> str:
    """The one line that the command ends with, with exit status 2 and no output."""
    before = sorted(tmp_path.iterdir())
    assert call(tmp_path, *settings, config=config) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert set(tmp_path.iterdir()) <= {*before, tmp_path / "predict.yaml"}
    return lines[0].removeprefix("sparksplit predict: ")


def test_a_model_that_is_not_there(
    no_spark: None, tmp_path: Path, images: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(tmp_path, capsys, f"model={tmp_path}/none", f"input={images[0].path}")
    assert message == f"{tmp_path}/none: folder not found. `model` must be the output folder of a `train` run"


def test_input_without_its_marker(
    no_spark: None, tmp_path: Path, images: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = from_arrays(str(tmp_path / "data"), {"train": (np.zeros((3, 2), np.uint8), [0, 1, 2])})
    (tmp_path / "data" / "_SUCCESS").unlink()
    assert "not a complete data set: no _SUCCESS file" in refused(
        tmp_path, capsys, f"model={images[2]}", f"input={data.path}"
    )


@pytest.mark.parametrize("kind", ["dtype", "shape", "name"])
def test_tensors_that_the_model_does_not_take(
    kind: str, no_spark: None, tmp_path: Path, images: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.zeros((6, 4, 3), np.float32 if kind == "dtype" else np.uint8)
    x = x.reshape(6, 3, 4) if kind == "shape" else x
    rows = {"pixels" if kind == "name" else "x": x}
    data = from_arrays(str(tmp_path / "data"), {"train": (rows, [0, 1, 2] * 2), "test": (rows, [0, 1, 2] * 2)})
    message = refused(tmp_path, capsys, f"model={images[2]}", f"input={data.path}")
    assert message.endswith(f"; the model {images[2]} takes x: uint8 [4, 3]")


@pytest.mark.parametrize(
    ("labels", "difference"),
    [
        (["cat", "dog", "emu"], "class 2 is 'emu', but 'eel' in the model"),
        (["cat", "dog", "cat"], "it has 2, but the model has 3"),
        ([1.0, 2.0, 3.0], "its labels are numbers; the model"),
    ],
)
def test_labels_that_are_not_the_models(
    labels: Any, difference: str, no_spark: None, tmp_path: Path, animals: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (np.ones((3, 3), np.float32), labels)
    data = from_arrays(str(tmp_path / "data"), {"train": rows, "test": rows})
    assert difference in refused(tmp_path, capsys, f"model={animals[1]}", f"input={data.path}")


def test_raw_rows_of_another_shape(
    spark: SparkSession, tmp_path: Path, images: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_text("1,2,3\n")
    settings = (f"model={images[2]}", "input.format=csv", f"input.path={tmp_path}/rows.csv", "input.header=false")
    assert "does not fit 2 features (is [4, 3])" in refused(tmp_path, capsys, *settings)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("split: validation", "has no rows of the validation split; it has 300 train, 0 validation, 200 test rows"),
        ("split: tset", "must be one of"),
        ("keep: [age]", "has no column 'age'; it has label"),
        ("kepe: [age]", "kepe: unknown key; did you mean 'keep'?"),
        ("batch_size: 0", "batch_size: must be above 0 (is 0)"),
        ("input: {format: csv, pth: x}", "input.pth: unknown key; did you mean 'path'?"),
        ("input: {format: csv}", "input.path: is required"),
    ],
)
def test_wrong_keys_are_named_with_their_line(
    line: str, message: str, no_spark: None, tmp_path: Path, images: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "" if line.startswith("input") else f"\ninput: {images[0].path}"
    found = refused(tmp_path, capsys, config=f"model: {images[2]}\n{line}{rows}\n")
    assert found.startswith(f"{tmp_path}/predict.yaml:2: ")
    assert message in found
