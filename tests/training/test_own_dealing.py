"""A user's own strategy, whose nodes own neighbouring lanes, in every place that must ask it who owns a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksplit.base.options import Options
from tests.comparison.comparisons import compared
from tests.forked import nodes_of
from tests.training.references import EPOCHS, LINEAR, ROWS, check, longest_round, neighbouring, prepared, rows_split
from tests.training.runs import run, without_end

OWN = str(Path(__file__).with_name("strategies_of_ones_own.py"))
EVERY, AFTER = 3, 5
APART = {"strategy": f"{OWN}:neighbours_apart", "sync": {"every": EVERY, "outer": "momentum", "after": AFTER}}
"""After one epoch in which the nodes share every mini-batch."""
KEPT = {"checkpoint": {"every": "epoch", "keep": 99}}
SAME = ("weights", "metrics", "ledger", "updates", "steps", "syncs")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("dealing") / "data", test=9)


@pytest.fixture(scope="module")
def read(zygote, data, tmp_path_factory):
    """(folder, result) of a run that reads the files."""
    folder = tmp_path_factory.mktemp("dealing") / "read"
    with nodes_of(zygote):
        return folder, run(data.path, folder, nodes=2, **KEPT, **APART, **LINEAR)


def expected(data, nodes):
    """What NumPy says, and the counts by arithmetic."""
    longest = longest_round(data, nodes, neighbouring)
    updates = 7 + (EPOCHS - 1) * -(-longest // EVERY)
    counts = {"updates": updates, "syncs": updates, "steps": 7 + (EPOCHS - 1) * longest, "passes": EPOCHS}
    return rows_split(data, nodes, EVERY, "momentum", 1, neighbouring), counts


def assert_is(folder, result, data, nodes):
    reference, counts = expected(data, nodes)
    check(folder, result, reference)
    assert {name: result[name] for name in counts} == counts
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": EPOCHS * ROWS}


def test_the_dealing_makes_a_difference(data):
    """Otherwise this file would test nothing."""
    assert longest_round(data, 2, neighbouring) != longest_round(data, 2)


def test_files(read, data):
    assert_is(*read, data, 2)


@pytest.mark.slow
def test_rows_from_spark(fed, read, data, tmp_path):
    found = run(data.path, tmp_path / "run", input_mode="spark", nodes=2, **APART, **LINEAR)
    assert [found[name] for name in SAME] == [read[1][name] for name in SAME]


@pytest.mark.slow
def test_virtual_nodes(forked, data, tmp_path):
    assert_is(tmp_path / "run", run(data.path, tmp_path / "run", nodes={"virtual": 3}, **APART, **LINEAR), data, 3)


@pytest.mark.slow
@pytest.mark.parametrize("done", [1, 3])
def test_resume(forked, read, data, tmp_path, done):
    """From the epoch that the nodes shared, and from one that they did not."""
    without_end(read[0], tmp_path / "run", keep=done)
    resumed = run(data.path, tmp_path / "run", Options(resume=True), nodes=2, **KEPT, **APART, **LINEAR)
    assert resumed["resumed"][0]["nodes_before"] == 2
    assert [resumed[name] for name in SAME] == [read[1][name] for name in SAME]


@pytest.mark.slow
def test_compare(forked, read, data, tmp_path):
    """Beside one of the same dealing whose nodes share every mini-batch: that is `batch`, whoever owns the rows."""
    strategies = [APART, f"{OWN}:neighbours", "batch"]
    results = compared(data.path, tmp_path / "out", strategies=strategies, nodes=[2], seeds=1, **LINEAR)
    apart, shared, batch = results["runs"]
    assert [apart[name] for name in SAME] == [read[1][name] for name in SAME]
    assert shared["metrics"]["train"]["loss"] == pytest.approx(batch["metrics"]["train"]["loss"], abs=1e-9)
    assert [record["ledger"]["exact"] for record in results["runs"]] == [True] * 3
    assert [row["name"] for row in results["table"]] == [
        "neighbours_apart, H = 3, momentum, after 5 updates",
        "neighbours",
        "batch",
    ]
