"""benchmarks/preprocess.py: its arithmetic and its inputs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from sparksplit.prepare.config import InputConfig
from sparksplit.prepare.sources import open_source
from sparksplit.prepare.sources.base import ParsedRows

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "preprocess.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    # A script, not a package's module: it runs where only the product is installed.
    spec = importlib.util.spec_from_file_location("preprocess_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_ratios_are_of_the_same_input_and_only_of_what_was_measured(benchmark: ModuleType) -> None:
    rates = {"mnist/ours": 80.0, "mnist/tfos": 20.0, "table/ours": 30.0, "table/spark": 60.0, "csv/spark": 10.0}
    assert benchmark.ratios(rates) == {"mnist_ratio_to_tfos": 4.0, "table_ratio_to_spark_write": 0.5}


def test_the_table_has_the_same_rows_as_csv_and_as_parquet(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "FILE_ROWS", 30)
    for name in ("table.csv", "table.parquet"):
        benchmark.write_table(tmp_path / name, 70)
    parts = [pc.read_csv(file) for file in sorted((tmp_path / "table.csv").iterdir())]
    assert [part.num_rows for part in parts] == [30, 30, 10]
    csv = np.concatenate([np.stack([column.to_numpy() for column in part.columns], 1) for part in parts])
    table = pq.read_table(tmp_path / "table.parquet")
    # The float32 that is nearest to what the CSV says.
    for place, column in enumerate(table.columns):
        assert (csv[:, place].astype(column.to_numpy().dtype) == column.to_numpy()).all()
    assert table.column_names == [*(f"c{place}" for place in range(20)), "label"]


def test_mnist_is_all_its_rows_in_four_files(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "MNIST_TEST", 5)
    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (12, 784), np.uint8), random.integers(0, 10, 12, np.uint8)
    benchmark.write_idx(tmp_path / "mnist", x, y)
    source = open_source(InputConfig(format="idx", path=str(tmp_path / "mnist")))
    found = [(task.part, rows) for task in source.tasks() for rows in source.read(task)]
    assert [part for part, _ in found] == ["train", "test"]
    rows = [rows for _, rows in found if isinstance(rows, ParsedRows)]
    assert (np.concatenate([part.tensors[0] for part in rows]).reshape(12, 784) == x).all()
    assert np.concatenate([np.asarray(part.label) for part in rows]).tolist() == y.tolist()
