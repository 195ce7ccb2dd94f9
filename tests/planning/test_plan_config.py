"""The keys of `plan`."""

from __future__ import annotations

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.planning.plan_config import PlanConfig, candidates

REQUIRED = {"data": "d", "output": "o"}


@pytest.mark.parametrize(
    ("text", "gbit"), [("1Gbit", 1.0), ("100Mbit", 0.1), ("2.5 gbit/s", 2.5), ("10Gbit/s", 10.0), ("1500Mbit", 1.5)]
)
def test_a_link_is_a_bandwidth(text, gbit):
    link = parse(PlanConfig, {**REQUIRED, "link": text}).planned_link
    assert link is not None and link.per_byte == pytest.approx(
        (1538 + 45) / 1448 * 8e-9 / gbit
    )  # frames, headers, acks


@pytest.mark.parametrize("text", ["fast", "1", "1GB", "0Gbit", "-1Gbit", "1 Gbit per second"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="link: must be a bandwidth such as 1Gbit or 100Mbit"):
        parse(PlanConfig, {**REQUIRED, "link": text})


def test_without_a_link_it_is_measured_or_assumed():
    assert parse(PlanConfig, REQUIRED).planned_link is None


@pytest.mark.parametrize("listed", [{"nodes": 2}, {"strategy": 3}])
def test_a_strategy_needs_its_name(listed):
    config = parse(PlanConfig, {**REQUIRED, "strategies": [listed]})
    with pytest.raises(ConfigError, match=r"strategies\.0: must name its strategy"):
        candidates(config)


def test_a_typing_error_is_refused():
    config = parse(PlanConfig, {**REQUIRED, "strategies": ["bacth"]})
    with pytest.raises(ConfigError, match=r"strategies\.0: .*bacth"):
        candidates(config)


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ({"strategy": "local", "nodes": 8}, "must not have `nodes`"),
        ({"strategy": "single", "batch_size": 256}, "single is planned for as configured"),
        ({"strategy": "auto", "batch_size": 256}, "auto is planned for as configured"),
        ({"strategy": "batch", "dtype": "bfloat16"}, "must not have `dtype`: .* the configuration's own value"),
        ({"strategy": "local", "epochs": 3}, "must not have `epochs`"),
        ({"strategy": "batch", "cache_mb": 0}, "must not have `cache_mb`"),
        ({"strategy": "batch", "model": {"params": {"units": 8}}}, "must not have `model`"),
        ({"strategy": "batch", "optimizer": {"learning_rate": 0.1, "name": "adam"}}, r"must not have `optimizer\.name"),
    ],
)
def test_keys_that_would_not_count_are_refused(listed, told):
    config = parse(PlanConfig, {**REQUIRED, "strategies": ["single", listed]})
    with pytest.raises(ConfigError, match=rf"strategies\.1: {told}"):
        candidates(config)


def test_keys_that_change_no_step_may_differ():
    keys = {"batch_size": 128, "local_batch_size": 8, "sync": {"every": 4}, "optimizer": {"learning_rate": 0.2}}
    config = parse(PlanConfig, {**REQUIRED, "strategies": [{"strategy": "local", **keys}]})
    found = candidates(config)[-1].config
    assert (found.batch_size, found.local_batch_size, found.sync.every) == (128, 8, 4)
    assert found.optimizer.learning_rate == 0.2


def test_a_key_that_does_not_exist_is_refused():
    config = parse(PlanConfig, {**REQUIRED, "strategies": [{"strategy": "local", "bach_size": 3}]})
    with pytest.raises(ConfigError, match=r"strategies\.0: .*bach_size"):
        candidates(config)


def test_a_strategy_that_chooses_its_nodes_is_planned_for_as_batch():
    names = [each.name for each in candidates(parse(PlanConfig, {**REQUIRED, "strategy": "auto"}))]
    assert names == [each.name for each in candidates(parse(PlanConfig, REQUIRED))]


def test_what_does_not_fit_is_left_out_where_nobody_asked_for_it():
    ftrl = {**REQUIRED, "optimizer": {"name": "ftrl"}}
    assert [each.name for each in candidates(parse(PlanConfig, ftrl))] == ["batch", "epoch"]
    with pytest.raises(ConfigError, match=r"strategies\.0: .*ftrl"):
        candidates(parse(PlanConfig, {**ftrl, "strategies": ["local"]}))


def test_a_strategy_of_ones_own_comes_from_its_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from sparksplit import BatchSplit, StepSync, Strategy\n\n\n"
        "def mine():\n    return Strategy(BatchSplit(), StepSync)\n"
    )
    config = parse(PlanConfig, {**REQUIRED, "strategies": [f"{file}:mine"]})
    assert [each.name for each in candidates(config)] == ["batch", "mine"]
    missing = parse(PlanConfig, {**REQUIRED, "strategies": [f"{file}:yours"]})
    with pytest.raises(ConfigError, match=r"strategies\.0: .*yours"):
        candidates(missing)
