"""benchmarks/slow_link.py: its arithmetic."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def _load(name: str) -> ModuleType:
    # Scripts, not a package's modules: they run where only the product is installed.
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def slow_link() -> ModuleType:
    return _load("slow_link")


def _run(**more: Any) -> dict[str, Any]:
    return {
        "nodes": 2,
        "hosts": ["10.77.0.1", "10.77.0.2"],
        "rows_per_second": 2000.0,
        "sync_bytes_per_node": 30_000_000,
        "seconds": {"feed": 0.5, "train": 3.5, "sync": 2.5, "waiting": 0.5, "validation": 0.5},
        "metrics": {"validation": {"accuracy": [0.5, 0.75]}, "test": {"accuracy": 0.9}},
        **more,
    }


def test_time_holds_the_exchanges_of_every_way_and_not_validation(slow_link: ModuleType) -> None:
    row = slow_link.figures("local H=8", _run(), "100 Mbit/s")
    assert (row["seconds"], row["rows_per_second"]) == (4.0, 2000.0)
    assert (row["sync_seconds"], row["waiting_seconds"], row["bytes_per_node"]) == (2.5, 0.5, 30_000_000)
    assert (row["nodes"], row["hosts"]) == (2, 2)


def test_accuracy_is_of_the_test_split_or_else_of_the_last_validation(slow_link: ModuleType) -> None:
    def accuracy(**metrics: Any) -> Any:
        return slow_link.figures("batch", _run(metrics=metrics), "loopback")["accuracy"]

    assert accuracy(validation={"accuracy": [0.5, 0.75]}, test={"accuracy": 0.9}) == 0.9
    assert accuracy(validation={"accuracy": [0.5, 0.75]}, test={}) == 0.75
    assert accuracy(test={}) is None


def test_the_ratio_is_of_the_slow_link_alone(slow_link: ModuleType) -> None:
    rows = [
        {"way": way, "hosts": hosts, "rows_per_second": rate}
        for way, hosts, rate in (
            ("batch", 2, 100.0),
            ("local H=32", 2, 1550.0),
            ("batch", 1, 9.0),
            ("local H=32", 1, 9.0),
        )
    ]
    assert slow_link.ratio(rows) == 15.5


def test_the_table_has_a_line_for_each_row_and_the_rate_on_the_wire(slow_link: ModuleType) -> None:
    rows = [slow_link.figures(way, _run(), slow_link.link_name(2, 100)) for way in ("batch", "local H=8")]
    head, *lines = slow_link.table(rows)
    assert len(lines) == 2 and {len(line) for line in lines} == {len(head)}
    # 30 MB in 4 s.
    assert lines[0].split() == [
        "batch",
        "2",
        "100",
        "Mbit/s",
        "4.00",
        "2,000",
        "2.50",
        "0.50",
        "30.0",
        "7.50",
        "0.9000",
    ]


def test_links_are_named_by_their_limit(slow_link: ModuleType) -> None:
    assert [slow_link.link_name(*of) for of in ((1, 100), (2, 100), (2, 0))] == [
        "loopback",
        "100 Mbit/s",
        "not limited",
    ]


@pytest.mark.parametrize(("mbit", "burst"), [(1, 32_768), (100, 62_500), (1000, 625_000)])
def test_the_bucket_holds_five_milliseconds(mbit: int, burst: int) -> None:
    words = _load("slow_link_hosts").limits(mbit)
    assert words[words.index("rate") + 1] == f"{mbit}mbit"
    assert int(words[words.index("burst") + 1]) == burst
