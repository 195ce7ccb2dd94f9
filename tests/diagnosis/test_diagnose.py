"""Whole diagnoses, on forked nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, NodeFailed
from sparksplit.diagnosis.diagnose import diagnose
from sparksplit.diagnosis.measured import VARIANTS, Measured
from sparksplit.diagnosis.messages import Effort
from sparksplit.training.train_config import TrainConfig

OWN = str(Path(__file__).with_name("transforms.py"))
SHORT = Effort(
    block=0.05,
    reading=0.05,
    rounds=3,
    most_rounds=3,
    sweep_rounds=1,
    most_sweep_rounds=1,
    tried_rounds=3,
    readers=[0, 2],
)


def config(digits, output, **keys):
    values = {"data": str(digits), "output": str(output), "nodes": 2, "strategy": "batch", **keys}
    return parse(TrainConfig, values)


def per_row(found, name):
    # Other work on the machine only adds.
    return min(found.seconds[name])


@pytest.mark.slow
def test_a_slow_transform_shows_where_it_is_left_out(forked, digits, tmp_path, monkeypatch):
    found = diagnose(config(digits, tmp_path / "run", transform=f"{OWN}:slow"), SHORT)
    assert set(found.seconds) == set(VARIANTS) - {"no_reading"}
    assert {len(values) for values in found.seconds.values()} == {3}
    assert all(value > 0 for values in found.seconds.values() for value in values)
    # Each of the two nodes sleeps for the rows that are its own.
    slow = ("full", "no_sync", "no_compute", "reading")
    assert all(per_row(found, name) > 2.7e-4 for name in slow)
    assert all(per_row(found, name) < per_row(found, "full") for name in ("no_transform", "compute"))
    assert [one.readers for one in found.readers] == [0, 1, 2]
    assert min(found.readers[0].seconds) > 2.7e-4
    facts = found.facts
    assert (facts.nodes, facts.rows, facts.kept, facts.row_bytes) == (2, 1300, True, 80)
    assert facts.first_reading > 0 and facts.free_mb > 0 and facts.sync_bytes > 0.9 * facts.model_bytes
    assert found.checkpoint > 0 and found.handoff is None and len(facts.hosts) == 2 and facts.held_out_bytes > 0
    assert list(tmp_path.iterdir()) == []
    assert Measured.from_json(found.to_json(), "this") == found


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(
            {"strategy": "local", "sync": {"every": 4, "outer": "nesterov"}, "cache_mb": 0}, marks=pytest.mark.slow
        ),
        pytest.param({"strategy": "epoch-delayed", "nodes": 3}, marks=pytest.mark.slow),
        {"strategy": "single", "nodes": 1, "checkpoint": {"seconds": None}},
    ],
    ids=["local", "epoch-delayed", "single"],
)
def test_every_strategy_is_measured(forked, digits, tmp_path, keys):
    found = diagnose(config(digits, tmp_path / "run", **keys), SHORT)
    names = set(VARIANTS) - {"no_transform", "reading_only"}
    if keys["strategy"] == "single":
        names -= {"no_sync", "no_compute"}
        assert found.checkpoint is None and found.facts.sync_bytes == 0
    if found.facts.kept:
        names -= {"no_reading"}
    assert set(found.seconds) == names and found.facts.kept == ("cache_mb" not in keys)


@pytest.mark.slow
def test_rows_that_spark_hands_over_are_timed_on_their_way(fed, digits, tmp_path):
    found = diagnose(config(digits, tmp_path / "run", input_mode="spark"), SHORT)
    # So few rows may be there before a node is ready to wait for them.
    assert found.handoff is None or (found.handoff and all(value > 0 for value in found.handoff))
    # Spooled rows are mapped into memory, and these are few enough to be kept besides.
    assert found.facts.kept and set(found.seconds) == set(VARIANTS) - {"no_transform", "reading_only", "no_reading"}


@pytest.mark.slow
def test_a_setting_with_which_a_node_ends_is_left_out_and_the_rest_measured(forked, digits, tmp_path):
    keys = {"nodes": 1, "strategy": "single", "transform": f"{OWN}:only_one", "checkpoint": {"seconds": None}}
    found = diagnose(config(digits, tmp_path / "run", **keys), SHORT)
    (failed,) = found.failed
    assert failed.settings == {"readers": 2} and failed.error.startswith("node 0 on ")
    assert [one.readers for one in found.readers] == [0, 1] and {len(one.seconds) for one in found.readers} == {1}
    assert {len(values) for values in found.seconds.values()} == {3}


@pytest.mark.slow
def test_what_fails_is_said_as_in_training(forked, digits, tmp_path):
    with pytest.raises(NodeFailed, match=r"node \d .*KeyError: 'out'"):
        diagnose(config(digits, tmp_path / "run", transform=f"{OWN}:failing"), SHORT)
    wild = {"name": "sgd", "learning_rate": 1e30}
    with pytest.raises(NodeFailed, match=r"the loss is (nan|inf); a smaller optimizer.learning_rate may help"):
        diagnose(config(digits, tmp_path / "run", optimizer=wild), SHORT)
    with pytest.raises(ConfigError, match=re.escape("nodes: must be real ones to be diagnosed")):
        diagnose(config(digits, tmp_path / "run", nodes={"virtual": 4}), SHORT)
    assert list(tmp_path.iterdir()) == []
