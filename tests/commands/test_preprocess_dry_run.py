"""`preprocess --dry-run` as a user calls it: it tells what `preprocess` then makes, and leaves nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.prepare import sample
from tests.commands.preprocessing import CSV, run
from tests.prepare.idx_files import digits, write_folder
from tests.prepare.tfrecords import example, write

OWN = """
def rows(spark, path):
    return spark.range(40).selectExpr("id % 3 AS y", "id / 2 AS a")
"""


def told(tmp_path: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> dict[str, list[str]]:
    """What a dry run prints, by the word that each line begins with; it has left nothing."""
    before = sorted(tmp_path.rglob("*"))
    assert run(tmp_path, *settings, options=("--dry-run",)) == 0
    (tmp_path / "preprocess.yaml").unlink()
    assert sorted(tmp_path.rglob("*")) == before
    found: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        found.setdefault(line[:11].strip(), []).append(line[11:])
    return found


@pytest.mark.slow
def test_of_a_csv_all_is_told_and_preprocess_makes_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text(CSV + "".join(f"r{row},{row}.5,1,{'cd'[row % 2]}\n" for row in range(4, 60)) + "r60,x,1,cat\n")
    settings = [f"input.path={raw}", "input.format=csv", "input.label=kind", "input.keep=[id]", "test=0.2"]
    found = told(tmp_path, capsys, *settings)
    assert (
        found["tensors"] == ["x: float32 [2]"] and found["label"] == ["kind: class (text)"] and found["kept"] == ["id"]
    )
    assert found["sample"] == ["all 60 rows"]
    assert found["row"][0] == "x = [1.5 2.0], label = 'cat', id = r1"
    assert found["rejected"][0].startswith("2 of 60: ")
    assert found["feature"] == ["a: number", "b: number"] and found[""][1].startswith("3 different in 58 rows, none")
    rejected = found[""][2:]
    assert [f"{raw}: row {line}: " in text for line, text in zip((3, 61), rejected, strict=False)] == [True, True]
    assert found[""][-1].startswith("preprocess will refuse this input")
    assert found["classes"] == ["3 in the sample: c: 28, cat: 2, d: 28"]

    assert run(tmp_path, *settings, "input.max_bad_rows=2") == 0
    made = PreparedDataSet.open(f"{tmp_path}/out").manifest.splits
    counts = ", ".join(f"{name} {split.rows:,}" for name, split in made.items())
    assert found["splits"] == [f"{counts} rows"]


@pytest.mark.slow
def test_a_number_that_a_table_predicts_is_scaled(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text("job,kind,price\n" + "".join(f"j{row % 3},k{row % 2},{1000 + row}.5\n" for row in range(60)))
    settings = [f"input.path={raw}", "input.format=csv"]
    assert told(tmp_path, capsys, *settings, "input.label=price")["label"] == [
        "price: number, scaled to mean 0 and standard deviation 1"
    ]
    assert told(tmp_path, capsys, *settings, "input.label=kind")["label"] == ["kind: class (text)"]
    assert run(tmp_path, *settings, "input.label=price", "validation=0") == 0
    label = PreparedDataSet.open(f"{tmp_path}/out").description.label
    assert label is not None and label.offset == pytest.approx(1030)


@pytest.mark.slow
def test_parts_of_large_inputs_are_enough(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, values in (("TASK_ROWS", 50), ("TASKS", 1)):
        monkeypatch.setattr(sample, name, values)
    random = np.random.default_rng(0)
    for part in range(4):
        (tmp_path / "raw").mkdir(exist_ok=True)
        columns = {"a": random.normal(size=400), "b": random.integers(0, 9, 400), "y": random.integers(0, 2, 400)}
        pq.write_table(pa.table(columns), tmp_path / "raw" / f"{part}.parquet")
    keys = [f"input.path={tmp_path}/raw", "input.label=y"]
    found = told(tmp_path, capsys, *keys, "input.format=parquet")
    assert found["columns"] == ["a double, b bigint, y bigint"]
    (line,) = found["sample"]
    assert re.fullmatch(r"(50|100) rows of about 1,600", line)  # the footers say how many
    assert found["classes"][0].startswith("2 in the sample: 0: ")
    assert re.fullmatch(r"train about 1,[345]\d\d, validation about \d+, test about 0 rows", found["splits"][0])
    assert found["time"][0].startswith("about ") and "estimate" in found["time"][0]

    train, test = digits(300), digits(90, seed=1)
    folder = write_folder(tmp_path / "idx", train, test)
    found = told(tmp_path, capsys, f"input.path={folder}")
    assert found["sample"] == ["50 rows of about 390"] or found["sample"] == ["100 rows of about 390"]
    assert found["splits"][0].endswith("test about 90 rows")

    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.setattr(sample, "TASK_ROWS", 5)
    found = told(tmp_path, capsys, f"input.format={tmp_path}/own.py:rows", "input.path=x", "input.label=y")
    assert found["sample"][0].endswith(" rows of an unknown number") and found["time"][0].startswith("unknown")
    assert re.fullmatch(r"train \d+\.\d%, validation \d+\.\d%, test 0\.0%", found["splits"][0])


@pytest.mark.slow
def test_each_way_that_spark_reads_is_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = spark.createDataFrame([(row / 2, row, row % 2) for row in range(30)], "a float, b bigint, y int")
    rows.coalesce(1).write.orc(f"{tmp_path}/orc")
    rows.createOrReplaceTempView("dry_run_rows")
    write(tmp_path / "rows.tfrecord", [example(a=[row / 2], b=[row], y=[row % 2]) for row in range(30)])
    for name, *place in (
        ("orc", f"input.path={tmp_path}/orc"),
        ("tfrecord", f"input.path={tmp_path}/rows.tfrecord"),
        ("table", "input.table=dry_run_rows"),
        ("sql", "input.query=SELECT * FROM dry_run_rows WHERE b < 30"),
    ):
        found = told(tmp_path, capsys, f"input.format={name}", *place, "input.label=y")
        assert found["columns"][0].startswith("a "), name
        assert (found["tensors"], found["sample"]) == (["x: float32 [2]"], ["all 30 rows"])
        assert found["classes"] == ["2 in the sample: 0: 15, 1: 15"]


def test_what_is_wrong_is_told_as_by_preprocess(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for settings, message in (
        (["input.path=nothere", "input.format=csv"], "nothere: does not exist"),
        (["input.path=nothere", "input.format=csv", "validation=0.6", "test=0.5"], "or no training rows are left"),
    ):
        assert run(tmp_path, *settings, options=("--dry-run",)) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["preprocess.yaml"]


def test_no_other_command_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    from sparksplit.commands import train

    assert train.main(["--dry-run"]) == 2
    assert "unrecognized arguments: --dry-run" in capsys.readouterr().err
