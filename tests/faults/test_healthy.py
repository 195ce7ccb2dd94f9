"""Healthy runs that take longer than their limits for something: each ends without a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.runs import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]

SLOW = str(Path(__file__).with_name("slow.py"))


def is_finished(record: dict[str, Any]) -> bool:
    return record["ledger"]["exact"] and record["restarts"] == 0


def test_who_waits_for_a_straggler_that_gets_on(digits: Path, tmp_path: Path) -> None:
    """A node makes an update a second and falls far behind; the other waits for longer than it may stand still."""
    keys = {"strategy": "epoch", "nodes": 2, "epochs": 2, "batch_size": 100}
    record = run(digits, tmp_path, transform=f"{SLOW}:straggler", stall_timeout=5, **keys)
    assert is_finished(record)
    assert record["seconds"]["total"] > 10, "twice as long as a node may stand still"


def test_virtual_nodes_are_measured_by_their_updates(digits: Path, tmp_path: Path) -> None:
    """Not by start_timeout, though one process has started them and plays them to their end."""
    keys = {"strategy": "epoch", "nodes": {"virtual": 2}, "epochs": 2, "batch_size": 100, "start_timeout": 10}
    assert is_finished(run(digits, tmp_path, transform=f"{SLOW}:a_long_one", **keys))


def test_graphs_that_take_long_to_make(digits: Path, tmp_path: Path) -> None:
    model = {"build": f"{SLOW}:slow_to_trace", "params": {"seconds": 8}}
    record = run(digits, tmp_path, model=model, epochs=1, stall_timeout=5)
    assert is_finished(record)


def test_a_cache_that_takes_long_to_read(digits: Path, tmp_path: Path) -> None:
    model = {"build": f"{SLOW}:from_a_slow_disk"}
    record = run(digits, tmp_path, model=model, epochs=1, stall_timeout=5, readers=1)
    assert is_finished(record)
    assert record["seconds"]["total"] > 15
