"""Which strategies on one node a strategy on several is compared with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.controls import controls, rows_of_update
from sparksplit.comparison.plan import plan
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig

OUTER = {"strategy": "local", "sync": {"every": 8, "outer": "nesterov"}}


def train(values, nodes, **more):
    return parse(TrainConfig, {"data": "d", "output": "o", "batch_size": 64, "nodes": nodes, **values, **more})


def controls_of(values, nodes, **more):
    return controls(values, STRATEGIES[values["strategy"]], train(values, nodes, **more))


@given(st.integers(1, 64), st.integers(1, 500))
def test_rows_that_one_change_of_the_weights_is_made_of(nodes, rows):
    for name, expected in (("batch", rows), ("epoch", rows * nodes), ("epoch-delayed", rows)):
        config = train({"strategy": name}, nodes, batch_size=rows)
        assert rows_of_update(config, STRATEGIES[name]) == expected
    config = train({"strategy": "local", "local_batch_size": 7}, nodes, batch_size=rows)
    assert rows_of_update(config, STRATEGIES["local"]) == 7


def test_what_has_the_configured_mini_batch_and_no_outer_optimiser_has_none_but_single():
    single = [{"strategy": "single"}]
    assert controls_of({"strategy": "batch"}, 4) == single
    assert controls_of({"strategy": "epoch-delayed"}, 4) == single
    assert controls_of({"strategy": "local", "sync": {"every": 8}, "local_batch_size": 64}, 4) == single
    runs = planned(strategies=["batch", "epoch-delayed", {"strategy": "local", "local_batch_size": 64}], nodes=[1, 2])
    assert on_one_node(runs) == {"single"}


def test_what_a_strategy_has_keys_of_its_own_for_one_node_has_them_too():
    strategies = [
        {"strategy": "batch", "batch_size": 128},
        {"strategy": "local", "batch_size": 128},
        {"strategy": "epoch-delayed", "optimizer": {"learning_rate": 0.1}},
    ]
    found = [on_one_node(planned(strategies=[strategy], nodes=[1, 2])) - {"single"} for strategy in strategies]
    # The mini-batches of `local` have 64 rows, as those of `single`; alone on one node it has 128.
    assert found == [{"single, batch_size = 128"}, {"single, batch_size = 128"}, {"single, learning_rate = 0.1"}]


def test_the_mini_batch_of_a_strategys_own_updates_on_one_node():
    small = {"strategy": "single", "batch_size": 16}
    assert controls_of({"strategy": "local", "sync": {"every": 8}}, 4) == [small]
    assert controls_of({**OUTER, "jit_compile": True}, 4) == [
        {**OUTER, "jit_compile": True}, {**small, "jit_compile": True}
    ]  # fmt: skip


def test_a_control_has_at_most_a_micro_batch_for_each_row():
    """Was refused as an error of the strategy, which accepts these keys."""
    keys = {"strategy": "local", "sync": {"every": 8}}
    found = [controls_of(keys, nodes, accumulate=16) for nodes in (2, 4, 8)]
    assert found == [
        [{"strategy": "single", "batch_size": 32}],
        [{"strategy": "single", "batch_size": 16}],
        [{"strategy": "single", "batch_size": 8, "accumulate": 8}],
    ]
    own = {"strategy": "local", "local_batch_size": 4, "accumulate": 16}
    assert controls_of(own, 8) == [{"strategy": "single", "batch_size": 4, "accumulate": 4}]
    runs = planned(strategies=["batch", "local"], nodes=[1, 8], accumulate=16)
    assert {(run.name, run.config.batch_size, run.config.accumulate) for run in runs} == {
        ("single", 64, 16), ("single, batch_size = 8, accumulate = 8", 8, 8), ("batch", 64, 16),
        ("local, H = 32", 64, 16),
    }  # fmt: skip


def test_a_rate_that_grows_with_the_nodes_grows_on_one_node_too():
    large = {"strategy": "single", "batch_size": 256}
    rate = {"name": "adam", "learning_rate": 0.01}
    found = controls_of({"strategy": "epoch"}, 4, optimizer=rate)
    assert found == [{**large, "optimizer": {"learning_rate": pytest.approx(0.04)}}]
    found = controls_of({"strategy": "epoch", "optimizer": rate}, 4)
    assert found == [{**large, "optimizer": {"name": "adam", "learning_rate": pytest.approx(0.04)}}]
    schedule = {"learning_rate": {"name": "CosineDecay", "initial_learning_rate": 0.1, "decay_steps": 9}}
    assert controls_of({"strategy": "epoch"}, 4, optimizer=schedule) == [large]


def planned(**keys):
    return plan(parse(CompareConfig, {"data": "d", "output": "o", "batch_size": 64, "seeds": 2, **keys}))


def on_one_node(runs):
    return {run.name for run in runs if run.config.node_count == 1}


def test_they_are_runs_of_their_own_on_one_node_with_the_same_seeds():
    runs = planned(strategies=["batch", "epoch", OUTER], nodes=[1, 2, 4], epochs=4)
    on_one = {
        "single", "single, batch_size = 128, learning_rate = 0.02", "single, batch_size = 256, learning_rate = 0.04",
        "local, H = 8, nesterov", "single, batch_size = 32", "single, batch_size = 16",
    }  # fmt: skip
    for seed in (1, 2):
        assert on_one_node(run for run in runs if run.config.seed == seed) == on_one
    small = next(run.config for run in runs if run.name == "single, batch_size = 32")
    assert (small.batch_size, small.nodes, small.strategy) == (32, 1, "single")


def test_what_is_compared_anyway_is_not_run_twice():
    own = {"strategy": "single", "batch_size": 32}
    with_own = planned(strategies=[own, {"strategy": "local"}], nodes=[1, 2])
    assert {run.key for run in with_own} == {
        run.key for run in planned(strategies=[{"strategy": "local"}], nodes=[1, 2])
    }


def test_without_one_node_or_on_virtual_ones_there_is_none():
    assert on_one_node(planned(strategies=["epoch", OUTER], nodes=[2])) == set()
    runs = planned(strategies=["epoch", OUTER], nodes=[1], virtual=[4], epochs=4)
    assert {run.name for run in runs} == {"single", "epoch", "local, H = 8, nesterov"}
    assert on_one_node(runs) == {"single", "local, H = 8, nesterov"}
