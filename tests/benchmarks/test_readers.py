"""benchmarks/readers.py: its arithmetic, its model, and its transform."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def _load(name: str) -> ModuleType:
    # Scripts, not a package's modules: they run where only the product is installed.
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def readers() -> ModuleType:
    return _load("readers")


@pytest.fixture(scope="module")
def rows() -> ModuleType:
    return _load("readers_rows")


def test_both_transforms_give_the_same_rows_by_their_seeds(rows: ModuleType) -> None:
    random = np.random.default_rng(0)
    x = random.random((300, 28, 28), np.float32)
    label, seeds = np.arange(300), random.integers(0, 2**63, 300, np.uint64)
    one, of_one = rows.one_by_one({"x": x}, label, seeds)
    many, of_many = rows.together({"x": x}, label, seeds)
    assert (one["x"] == many["x"]).all() and of_one is of_many is label
    assert one["x"].dtype == many["x"].dtype == x.dtype and one["x"].shape == x.shape
    # Seeds 2 + 5 * 2 are the middle: only normalised.
    (middle,) = rows.together({"x": x[:1]}, label, np.array([12], np.uint64))[0]["x"]
    assert np.allclose(middle, (x[0] - rows.MEAN) / rows.DEVIATION, atol=1e-6)
    assert len(np.unique(seeds % 25)) == 25


def test_the_transform_is_repeated_until_it_costs_what_is_asked(readers: ModuleType, tmp_path: Path) -> None:
    x = np.zeros((64, 28, 28), np.float32)
    file, cost = readers.costing(1e4, tmp_path, x)
    times = int(Path(file).read_text().split("\nTIMES = ")[1].split()[0])
    assert times > 1 and cost == pytest.approx(1e4, rel=0.5)


def test_seconds_are_of_the_fastest_epoch_but_the_first(readers: ModuleType) -> None:
    epochs = [{"rows": 6000, "seconds": {"train": seconds}} for seconds in (0.5, 1.5, 2.0)]
    assert readers.seconds_of(epochs) == 15.0


def test_the_knee_is_the_fewest_readers_near_the_fastest(readers: ModuleType) -> None:
    # The article's own sweep.
    assert readers.knee({0: 12.96, 2: 6.17, 4: 4.04, 6: 3.77, 8: 3.94}) == 4
    assert readers.knee({0: 5.0, 1: 5.1}) == 0


def test_the_serial_share_is_amdahls(readers: ModuleType) -> None:
    assert [readers.serial_share(8.0, two) for two in (8.0, 6.0, 4.0, 3.5, 9.0)] == [1.0, 0.5, 0.0, 0.0, 1.0]


def test_the_slowest_of_step_reading_and_cores_decides(readers: ModuleType) -> None:
    def sweep(step: float, preprocessing: float, serial: float, cores: int) -> list[float]:
        return [readers.predicted(step, preprocessing, serial, cores, each) for each in (0, 1, 2, 4, 8)]

    # On eight cores reading scales until the step decides; on two, both share them.
    assert sweep(4.0, 9.0, 0.0, 8) == [13.0, 9.0, 4.5, 4.0, 4.0]
    assert sweep(4.0, 9.0, 0.0, 2) == [13.0, 9.0, 6.5, 6.5, 6.5]
    # What only one thread at a time can do ends it earlier.
    assert sweep(4.0, 9.0, 1.0, 8) == [13.0, 9.0, 9.0, 9.0, 9.0]
    assert sweep(4.0, 0.0, 0.5, 8) == [4.0] * 5


def test_the_summary_is_of_the_fastest(readers: ModuleType) -> None:
    found = {
        **{
            str(count): [99.0, value, value + 1] for count, value in ((0, 13.0), (1, 9.0), (2, 6.0), (4, 6.2), (8, 6.6))
        },
        "together": [4.5],
        "without_preprocessing": [4.0],
        "one_batch": [3.75],
    }
    result = readers.summary(found, 0.0)
    assert (result["knee"], result["ratio"], result["one_batch"]) == (2, 2.17, 3.75)
    assert result["predicted"]["8"] == {"0": 13.0, "1": 9.0, "2": 4.5, "4": 4.0, "8": 4.0}
    assert result["predicted_knee"] == {"2": 2, "8": 4}
    head, *lines = readers.table(result)
    assert [line.split()[0] for line in lines[:2]] == ["0", "1"] and len(lines) == 8
    assert "8 cores" in head
