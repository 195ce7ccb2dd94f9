"""`preprocess` as a user calls it: what it leaves, and what it says where the input is wrong."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from hdfs_io.publish import Output
from sparksplit.base.config import load, parse
from sparksplit.base.errors import InputError
from sparksplit.base.shipped import shipped
from sparksplit.dataset import labels, row_ids
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import FittedPreprocessing
from sparksplit.dataset.manifest import SPLITS, Manifest, SourceFacts
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet
from sparksplit.prepare import preprocess
from sparksplit.prepare.config_checks import check
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.preprocess_config import InputConfig, PreprocessConfig
from sparksplit.prepare.sources import open_source, open_with_spark, raw_digest
from sparksplit.prepare.sources.raw import raw_rows
from tests.commands.preprocessing import CSV, run
from tests.prepare.idx_files import digits, write_folder


def read(data: PreparedDataSet, split: str, columns: list[str] | None = None) -> list[Any]:
    with BlockReader(data, split, columns) as reader:
        return [
            reader.read(lane, block)
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
        ]


@pytest.mark.slow
def test_spark_writes_what_arrays_give_and_only_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = digits(600), digits(90, seed=1)
    # Equal rows: two in train and test, and many in test; arrays cannot tell which of several would be cut.
    for part in (0, 1):
        test[part][30] = train[part][20]
        test[part][40:50] = test[part][60]
    folder = write_folder(tmp_path / "raw", train, test)
    settings = ["lanes=11", "validation=0.2", "seed=5", "scaling=standard", "block_size=1024", "file_size=3000"]
    assert run(tmp_path, f"input.path={folder}", *settings) == 0
    printed = capsys.readouterr().out
    assert f"prepared   {tmp_path}/out" in printed and "600" not in printed.split("rows in")[0]
    data = PreparedDataSet.open(f"{tmp_path}/out")

    fixed = np.concatenate([train[0].reshape(600, -1), train[1].astype("<i8").view(np.uint8).reshape(600, -1)], axis=1)
    chosen = row_ids.split_fraction(row_ids.content_hash(fixed), 0, 5) < 0.2
    expected = from_arrays(
        f"{tmp_path}/expected",
        {
            "train": (train[0][~chosen], train[1][~chosen]),
            "validation": (train[0][chosen], train[1][chosen]),
            "test": test,
        },
        lanes=11,
        scaling="standard",
        block_size=1024,
        file_size=3000,
    )
    assert data.digest == expected.digest
    assert data.manifest.splits == expected.manifest.splits
    assert data.manifest.splits["train"].files > 2
    for split in ("train", "validation", "test"):
        for file in (*data.files(split), f"blocks/{split}.parquet"):
            assert Path(data.path, file).read_bytes() == Path(expected.path, file).read_bytes()
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert found == [
        "_CONFIG",
        "_SUCCESS",
        "blocks",
        "manifest.json",
        "preprocessing.json",
        "test",
        "train",
        "validation",
    ]
    assert sorted(path.name for path in (tmp_path / "out" / "train").iterdir()) == sorted(
        file.rpartition("/")[2] for file in data.files("train")
    )
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "out", "expected", "preprocess.yaml"}
    # Spark, too, reads what pyarrow has compressed.
    assert spark.read.parquet(f"{tmp_path}/out/train").count() == data.manifest.splits["train"].rows

    # The same again does nothing, and another configuration is refused.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    with monkeypatch.context() as patch:
        patch.setattr(preprocess, "session_with_executors", lambda *_: pytest.fail("Spark was started"))
        assert run(tmp_path, f"input.path={folder}", *settings, "executors=3") == 0
        assert "is up to date: it was made from the same input and configuration" in capsys.readouterr().err
        assert run(tmp_path, f"input.path={folder}", *settings, "seed=2") == 2
        assert (
            f"{tmp_path}/out: exists, made with another configuration (seed was 5, is 2); --overwrite"
            in capsys.readouterr().err
        )
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_raw_files_that_changed_are_other_input(
    no_spark: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.csv").write_text("1,2,0\n")
    settings = ("input.format=csv", f"input.path={raw}", "input.header=false")
    config = load(PreprocessConfig, None, [f"output={tmp_path}/out", *settings])
    output = Output(config.output, config.config_hash(), "preprocess", None, raw_digest(config.input))
    source = SourceFacts(format="csv", files=[])
    manifest = Manifest(
        config_hash="",
        created_by="",
        source=source,
        lanes=1,
        block_rows=16,
        tensors=[],
        label=None,
        keep=[],
        preprocessing=FittedPreprocessing(),
        splits={},
    )
    with output.claimed(), output.staging() as staging:
        manifest.write(staging)
    assert run(tmp_path, *settings) == 0
    assert "made from the same input and configuration" in capsys.readouterr().err
    with (raw / "a.csv").open("a") as file:
        file.write("3,4,1\n")
    assert run(tmp_path, *settings) == 2
    message = f"{tmp_path}/out: exists, but its input has changed since it was made; --overwrite replaces it\n"
    assert capsys.readouterr().err.endswith(message)
    # What was prepared outlives what it was made of.
    raw.rename(tmp_path / "archive")
    assert run(tmp_path, *settings) == 0
    assert run(tmp_path, *settings, options=("--overwrite",)) == 2
    assert f"{raw}: does not exist" in capsys.readouterr().err


@pytest.mark.slow
def test_csv_with_text_classes_missing_values_and_kept_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(CSV + "r0,1.5,2,cat\n")
    settings = ["input.format=csv", "input.label=kind", "input.keep=[id]", "input.missing=mean", "scaling=unit"]
    assert run(tmp_path, f"input.path={tmp_path}/rows.csv", *settings, "scaling_by=feature", "validation=0") == 0
    data = PreparedDataSet.open(f"{tmp_path}/out")
    assert data.manifest.label is not None and data.manifest.label.classes == ["cat", "dog"]
    assert data.manifest.splits["train"].statistics["x"].missing == 1
    rows = {}
    for block in read(data, "train", ["x", "label", "id"]):
        scaled = data.manifest.preprocessing.apply("x", block.tensors["x"])
        for place, name in enumerate(block.keep["id"].to_pylist()):
            rows[name] = (scaled[place].tolist(), int(block.label[place]), int(block.row_ids[place]))
    assert rows["r1"][:2] == ([0, 0], 0) and rows["r3"][:2] == ([1, 1], 0)
    assert rows["r2"][0] == pytest.approx([(6.5 / 3 - 1.5) / 2, 0.5]) and rows["r2"][1] == 1
    # Of equal rows, the first by what is kept has number 0.
    x = np.array([[1.5, 2]], dtype="<f4").tobytes() + b"cat"
    content = row_ids.content_hash(np.frombuffer(x, dtype=np.uint8)[None])
    assert rows["r0"][2] == content[0, 0] and rows["r1"][2] == row_ids.row_id(content[0, 0], 1)


@pytest.mark.slow
def test_numbers_as_labels_without_labels_and_cut_test_sets(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{a:.4f},{b:.4f},{a + b:.4f}" for a, b in rng.random((300, 2))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    settings = [f"input.path={tmp_path}/rows.csv", "input.format=csv", "input.header=false"]
    assert run(tmp_path, *settings, "validation=0.2", "test=0.3", "label_scaling=standard") == 0
    data = PreparedDataSet.open(f"{tmp_path}/out")
    label = data.manifest.label
    assert label is not None and label.dtype == "float32"
    trained = np.concatenate([block.label for block in read(data, "train")]).astype(np.float64)
    assert (label.offset, label.scale) == pytest.approx((trained.mean(), 1 / trained.std()), rel=1e-12)
    assert data.description.label == label
    sizes = {name: split.rows for name, split in data.manifest.splits.items()}
    assert sum(sizes.values()) == 300 and 30 < sizes["validation"] < 90 and 60 < sizes["test"] < 120
    for name in sizes:
        for block in read(data, name):
            np.testing.assert_allclose(block.tensors["x"].sum(axis=1), block.label, atol=1e-3)
    assert run(tmp_path, *settings, "input.label=null", "validation=0", options=("--overwrite",)) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "out", "preprocess.yaml"}
    data = PreparedDataSet.open(f"{tmp_path}/out")
    assert data.manifest.label is None and data.manifest.tensors[0].shape == [3]
    assert data.manifest.splits["validation"].files == 0
    # Whole digits that float32 has not, and a number that it has not at all.
    numbers = {20241231235959.0 + number for number in range(20)} | {1e39}
    (tmp_path / "rows.csv").write_text("".join(f"{number},{label:.0f}\n" for number, label in enumerate(numbers)))
    assert run(tmp_path, *settings, "input.label_type=number", options=("--overwrite",)) == 0
    data = PreparedDataSet.open(f"{tmp_path}/out")
    assert data.manifest.label is not None and data.manifest.label.dtype == "float64"
    assert {label for name in sizes for block in read(data, name) for label in block.label.tolist()} == numbers


@pytest.mark.slow
def test_some_bad_rows_are_kept_with_their_reason(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = "".join(f"{number},{number % 2}\n" for number in range(300))
    (tmp_path / "rows.csv").write_text(f"a,b\n{good}x,0\n{good}1\n")
    settings = [f"input.path={tmp_path}/rows.csv", "input.format=csv"]
    assert run(tmp_path, *settings, "input.max_bad_rows=2") == 0
    data = PreparedDataSet.open(f"{tmp_path}/out")
    assert sum(split.rows for split in data.manifest.splits.values()) == 600
    kept = pq.read_table(tmp_path / "out" / "bad_rows").to_pylist()
    assert [(row["row"], row["reason"], row["text"]) for row in kept] == [
        (302, "column 'a': 'x' is not a number", "x,0"),
        (603, "has 1 columns, 2 are needed", "1"),
    ]
    assert run(tmp_path, *settings, "input.max_bad_rows=1", options=("--overwrite",)) == 2
    commonest = "most often: another number of columns, 1 row"
    more = f" (the first of 2 bad rows, {commonest}; input.max_bad_rows: 1)"
    message = f"sparksplit preprocess: {tmp_path}/rows.csv: row 302: column 'a': 'x' is not a number{more}\n"
    assert capsys.readouterr().err.endswith(message)
    (tmp_path / "rows.csv").write_text("a,b\n1\n2\n3\n")
    several = ("input.max_bad_rows=3", "input.label_type=integer")
    assert run(tmp_path, *settings, *several, options=("--overwrite",)) == 2
    first = f"{tmp_path}/rows.csv: row 2: has 1 columns, 2 are needed"
    message = f"{tmp_path}/rows.csv: has no rows to train on; 3 bad rows left out, the first: {first}\n"
    assert capsys.readouterr().err.endswith(message)
    assert PreparedDataSet.open(f"{tmp_path}/out").digest == data.digest
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "out", "preprocess.yaml"}


def test_a_label_that_training_never_had_is_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images, labels = digits(60)
    folder = write_folder(tmp_path / "raw", (images, labels), (images[:5], labels[:5] + 7))
    assert run(tmp_path, f"input.path={folder}") == 2
    message = "label 7 (2 rows of the test split) does not occur in the training split"
    assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "preprocess.yaml"}


def test_a_file_damaged_within_is_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "raw", digits(60), compressed=True)
    file = folder / "train-images-idx3-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[-6] ^= 0xFF
    file.write_bytes(content)
    assert run(tmp_path, f"input.path={folder}") == 2
    assert f"{file}: the gzip stream of the images or the labels is damaged at its end" in capsys.readouterr().err
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes.fromhex("0000080100000000"), mtime=0))
    file.write_bytes(gzip.compress(bytes.fromhex("00000803000000000000000400000003"), mtime=0))
    assert run(tmp_path, f"input.path={folder}") == 2
    assert f"{folder}: has no rows to train on" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "preprocess.yaml"}


@pytest.mark.slow
def test_labels_are_counted_not_the_splits_that_they_lie_in(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(labels, "MAX_CLASSES", 4)
    settings = ("input.format=csv", f"input.path={tmp_path}/rows.csv", "input.header=false", "test=0.3")
    rows = "".join(f"{row},{row % 4}\n" for row in range(200))
    (tmp_path / "rows.csv").write_text(f"{rows}bad,1\n")
    assert run(tmp_path, *settings, "validation=0.3", "input.max_bad_rows=1") == 0
    classes = PreparedDataSet.open(f"{tmp_path}/out").manifest.label.classes
    assert classes == ["0", "1", "2", "3"]
    (tmp_path / "rows.csv").write_text("".join(f"{row},{row % 5}\n" for row in range(200)))
    assert run(tmp_path, *settings, options=("--overwrite",)) == 2
    assert f"{tmp_path}/rows.csv: more than 4 different labels. If the labels are numbers" in capsys.readouterr().err


@pytest.mark.slow
def test_raw_rows_for_a_model_are_those_of_the_data_set(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "raw", digits(60), digits(30, seed=1))
    assert run(tmp_path, f"input.path={folder}", "validation=0") == 0
    data = PreparedDataSet.open(f"{tmp_path}/out")
    expected = Counter(
        (number, row.tobytes(), label)
        for split in ("train", "test")
        for block in read(data, split)
        for number, row, label in zip(
            block.row_ids.view(np.int64).tolist(), block.tensors["x"], block.label.tolist(), strict=True
        )
    )
    config = parse(InputConfig, {"path": f"{folder}"})
    with raw_rows(spark, open_source(config, data.description), data.description) as raw:
        rows = raw.frames
        assert rows["test"].columns == ["row_id", "x", "label"] and not raw.tally.rows
        found = [row for part in rows.values() for row in part.collect()]
        assert Counter((row.row_id, bytes(row.x), row.label) for row in found) == expected
    (tmp_path / "rows.csv").write_text("".join(",".join(["1"] * 12) + f",{label}\n" for label in ("2", "9")))
    keys = {"format": "csv", "path": f"{tmp_path}/rows.csv", "header": False, "dtype": "uint8", "shape": [4, 3]}
    with raw_rows(spark, open_with_spark(spark, parse(InputConfig, keys), data.description), data.description) as raw:
        rows = raw.frames
        assert sorted(str(row.label) for row in rows["train"].collect()) == ["2", "None"]
    unlabelled = parse(InputConfig, {**keys, "label": None, "keep": [12]})
    with raw_rows(spark, open_with_spark(spark, unlabelled, data.description), data.description) as raw:
        rows = raw.frames
        assert rows["train"].columns == ["row_id", "x", "column_12"]
        assert sorted(row.column_12 for row in rows["train"].collect()) == ["2", "9"]


@pytest.mark.slow
def test_rows_are_cut_one_by_one_whatever_their_kept_columns_are_called(spark: SparkSession, tmp_path: Path) -> None:
    """Few distinct rows, of which each split is a random sample, and every name that the frames in between have."""
    names = ["split", "file", "lane", "number", "ids", "bad", "part", "tensor_0", "keep_1", "content_a", "a`b.c"]
    generator = np.random.default_rng(0)
    counts, rows = {"train": 2000, "test": 300}, []
    for part, count in counts.items():
        x = generator.integers(0, 2, (count, 2))
        y = np.where(generator.random(count) < 0.7, x[:, 0], 1 - x[:, 0])
        kept = [f"{number:04d}" for number in generator.permutation(count)]
        rows += [(part != "train", *values) for values in zip(kept, x[:, 0].tolist(), x[:, 1].tolist(), y, strict=True)]
        lines = [
            ",".join([kept, str(a), str(b), *(f"{kept} {name}" for name in names[1:]), str(y)])
            for _, kept, a, b, y in rows[-count:]
        ]
        (tmp_path / f"{part}.csv").write_text("\n".join([",".join(["split", "a", "b", *names[1:], "y"]), *lines]))
    paths = {"path": f"{tmp_path}/train.csv", "test": f"{tmp_path}/test.csv"}
    keys = {"format": "csv", "label": "y", "dtype": "uint8", **paths}
    settings = [f"input.{key}={value}" for key, value in keys.items()]
    assert run(tmp_path, *settings, f"input.keep={json.dumps(names)}", "validation=0.2", "seed=5", "lanes=4") == 0

    # Numbered through the training files, then the test files, in the order of what is kept.
    rows.sort()
    fixed = np.array([[a, b, *np.array(y, "<i8").tobytes()] for _, _, a, b, y in rows], np.uint8)
    content = row_ids.content_hash(fixed)
    numbers = row_ids.duplicate_numbers(content)
    part = np.array([SPLITS.index("test" if row[0] else "train") for row in rows], np.int32)
    expected = Cut(5, validation=0.2).splits(content, numbers, part)
    ids = row_ids.row_id(content[:, 0], numbers)
    assert 350 < (expected == SPLITS.index("validation")).sum() < 450 and len(set(ids.tolist())) == len(rows)

    data = PreparedDataSet.open(f"{tmp_path}/out")
    for place, split in enumerate(SPLITS):
        blocks = read(data, split, ["x", "label", *names])
        found = {
            (kept, *x.tolist(), label): row_id
            for block in blocks
            for kept, x, label, row_id in zip(
                block.keep["split"].to_pylist(), block.tensors["x"], block.label, block.row_ids.tolist(), strict=True
            )
        }
        assert found == {
            row[1:]: row_id for row, row_id, to in zip(rows, ids.tolist(), expected, strict=True) if to == place
        }
        for block in blocks:
            for name in names[1:]:
                assert block.keep[name].to_pylist() == [f"{kept} {name}" for kept in block.keep["split"].to_pylist()]

    # Rows to be predicted have the same ids, even if only the test files' are predicted.
    config = parse(InputConfig, {**keys, "keep": names})
    opened = open_with_spark(spark, config, data.description)
    with raw_rows(spark, opened, data.description, parts=("test",)) as raw_:
        frames = raw_.frames
        assert frames["test"].columns == ["row_id", "x", "label", *names]
        raw = {row[3]: row.row_id for row in frames["test"].collect()}
    stored = {
        kept: row_id for (_, kept, *_), row_id, to in zip(rows, row_ids.signed(ids).tolist(), part, strict=True) if to
    }
    assert list(frames) == ["test"] and raw == stored


@pytest.mark.slow
@pytest.mark.cluster
def test_a_stopped_job_leaves_nothing(tmp_path: Path) -> None:
    lines = [",".join(["7"] * 199 + [label]) + "\n" for label in "78"]
    (tmp_path / "rows.csv").write_text("".join(lines) * 8_000)
    settings = [f"input.path={tmp_path}/rows.csv", "input.format=csv", "input.header=false", f"output={tmp_path}/out"]
    (tmp_path / "empty.yaml").write_text("")
    arguments = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "sparksplit.commands.cli", "preprocess", "--config", f"{tmp_path}/empty.yaml"]
    command += arguments
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        give_up = time.monotonic() + 400
        while not list(tmp_path.glob(".out.staging-*/train/.lanes-*")) and process.poll() is None:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 128 + signal.SIGTERM, printed
    assert "sparksplit preprocess: stopped by SIGTERM" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "empty.yaml"}


_CONFIGURATIONS = ("mnist", "mnist-csv", "text", "csv", "parquet", "hive-text", "hive-table")


@pytest.mark.parametrize("name", _CONFIGURATIONS)
def test_shipped_configurations_are_valid(name: str) -> None:

    check(load(PreprocessConfig, shipped(f"conf/preprocess-{name}.yaml")))


def test_the_hash_leaves_out_what_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {"input": {"path": "raw"}, "output": "a"}
    known = parse(PreprocessConfig, values).config_hash()
    assert parse(PreprocessConfig, {**values, "output": "b", "executors": 7}).config_hash() == known
    assert parse(PreprocessConfig, {**values, "input": {"path": f"{tmp_path}/raw"}}).config_hash() == known
    for change in ({"lanes": 7}, {"seed": 3}, {"input": {"path": "other"}}, {"scaling": "unit"}):
        assert parse(PreprocessConfig, {**values, **change}).config_hash() != known
    assert json.loads(json.dumps(known)) == known


def test_input_errors_name_what_a_model_was_trained_on(tmp_path: Path) -> None:
    from sparksplit.prepare.sources import open_source

    x, y = digits(9)
    description = from_arrays(f"{tmp_path}/data", {"train": (x.reshape(9, 12), y)}).description
    config = parse(InputConfig, {"path": f"{write_folder(tmp_path / 'raw', (x, y))}"})
    with pytest.raises(InputError, match=r"rows are uint8 \[4, 3\], but the model was trained on uint8 \[12\]"):
        open_source(config, description)
