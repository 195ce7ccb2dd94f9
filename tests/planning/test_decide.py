"""The answer of a plan, from made-up measurements."""

from __future__ import annotations

from typing import Any

from sparksplit.base.config import parse
from sparksplit.comparison.costs import Network, ethernet
from sparksplit.planning.decide import Planner, planned
from sparksplit.planning.fitting import works
from sparksplit.planning.plan_config import PlanConfig, candidates, on_nodes
from sparksplit.planning.predicted import Predictor
from tests.planning.made_up import measured

LANES = [1000] * 16


def config(**keys: Any) -> PlanConfig:
    return parse(PlanConfig, {"data": "d", "output": "o", "batch_size": 64, "epochs": 8, **keys})


def made(link: Network | None = None, most: int = 16, **keys: Any):
    asked = config(**keys)
    planner = Planner(Predictor(measured(), link), on_nodes(asked, {"strategy": "single"}, 1), LANES)
    return planned(planner, [(each, works(each, LANES, most)) for each in candidates(asked)], most)


def test_a_fast_network_is_worth_several_nodes():
    rows, worth, answer = made(ethernet(100), strategies=["batch"])
    assert answer.decision == "use" and answer.choice.nodes == worth[0].nodes > 1
    assert answer.settings == {"strategy": "batch", "nodes": answer.choice.nodes}
    assert answer.choice.speed_up > 1 and answer.others == []
    assert [row.nodes for row in rows] == sorted({row.nodes for row in rows})


def test_a_slow_network_is_worth_one_node():
    rows, worth, answer = made(ethernet(0.01))
    assert answer.decision == "stay" and answer.choice is rows[0]
    assert answer.settings == {"strategy": "single", "nodes": 1}
    assert next(each.nodes for each in worth if each.name == "batch") == 1


def test_strategies_that_learn_differently_are_told_but_not_chosen():
    _, worth, answer = made(ethernet(0.01))
    assert {each.name for each in worth} == {"batch", "epoch", "epoch-delayed", "local, H = 32, nesterov"}
    assert answer.others and answer.others[0].name == "epoch-delayed"
    assert all(row.seconds.mean < answer.choice.seconds.mean for row in answer.others)


def test_only_two_nodes_were_measured():
    rows, *_ = made(most=8)
    assert {row.nodes for row in rows if not row.extrapolated} == {1, 2}


def test_the_configurations_own_strategy_comes_first_with_its_keys():
    own = config(strategy="local", nodes=2, sync={"every": 7})
    assert [each.name for each in candidates(own)][:2] == ["batch", "local, H = 7"]
    assert [each.name for each in candidates(config(strategy="batch", nodes=2))].count("batch") == 1


def test_another_batch_size_is_no_equal_result():
    rows, _, answer = made(ethernet(100), strategies=[{"strategy": "batch", "batch_size": 32}])
    assert {row.extrapolated for row in rows if row.name == "batch, batch_size = 32"} == {True}
    assert not any(row.extrapolated for row in rows if row.name == "batch" and row.nodes == 2)
    _, _, answer = made(ethernet(100), strategies=[{"strategy": "batch", "batch_size": 512}])
    assert answer.choice.name == "batch" and [row.name for row in answer.others] == ["batch, batch_size = 512"]
