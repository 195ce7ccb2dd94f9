"""The steps, rows and exchanges of a run, counted as the run itself counts them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.planning.workload import Stage, numbers, sampled_sizes, step_sizes, workload
from sparksplit.rows.shares import largest_share
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig

LANES = [100] * 8


def config(**keys: Any) -> TrainConfig:
    return parse(TrainConfig, {"data": "d", "output": "o", "batch_size": 64, "epochs": 6, **keys})


def of(lanes: list[int] = LANES, **keys: Any):
    made = config(**keys)
    return workload(made, STRATEGIES[made.strategy], lanes)


def test_one_node_makes_all_steps_and_exchanges_nothing():
    work = of()
    assert work.stages == (Stage(800 / 13, 6 * 13, "gradients", 0, 6, 12 / 13),)
    assert (work.passes, work.pass_rows, work.exchanges) == (6, 800, 0)


def test_batch_shares_the_rows_of_each_step():
    work = of(strategy="batch", nodes=4)
    assert work.stages == (Stage(200 / 13, 6 * 13, "gradients", 6 * 13, 6, 12 / 13),)
    assert (work.passes, work.pass_rows) == (6, 200)


def test_epoch_shares_the_rounds():
    work = of(strategy="epoch", nodes=4)
    assert work.stages == (Stage(800 / 13, 2 * 13, "own gradients", 2 * 13, 2, 12 / 13),)
    assert (work.passes, work.pass_rows) == (8, 800)


def test_epoch_delayed_exchanges_once_in_a_round():
    assert of(strategy="epoch-delayed", nodes=3).stages == (Stage(800 / 13, 2 * 13, "weights", 2, 2, 12 / 13),)


def test_local_steps_are_smaller_and_syncs_are_rounded_up():
    work = of(strategy="local", nodes=2, sync={"every": 4})
    assert work.stages == (Stage(400 / 13, 6 * 13, "weights", 6 * 4, 6, 0.0),)
    own = of(strategy="local", nodes=2, sync={"every": 4}, local_batch_size=64)
    assert own.stages == (Stage(400 / 7, 6 * 7, "weights", 6 * 2, 6, 0.0),)


def test_a_run_that_begins_as_batch_has_two_stages():
    first, second = of(strategy="local", nodes=2, sync={"every": 4, "after": 14}).stages
    assert first == Stage(400 / 13, 2 * 13, "gradients", 2 * 13, 2, 12 / 13)
    assert second == Stage(400 / 13, 4 * 13, "weights", 4 * 4, 4, 0.0)


def test_an_outer_optimiser_makes_another_kind_of_exchange():
    assert of(strategy="local", nodes=2, sync={"outer": "nesterov"}).stages[0].kind == "weights, outer optimiser"


def test_steps_are_even_until_a_lane_ends_if_all_nodes_have_as_many_rows():
    assert of(strategy="batch", nodes=3, batch_size=60).stages[0].even == 0
    assert of([*LANES[1:], 60], strategy="batch", nodes=2).stages[0].even == 7 / 12


@given(
    lanes=st.lists(st.integers(0, 300), min_size=8, max_size=8).filter(any),
    nodes=st.integers(2, 8),
    strategy=st.sampled_from(["batch", "epoch", "epoch-delayed", "local"]),
    epochs=st.integers(1, 9),
)
def test_no_row_is_forgotten(lanes, nodes, strategy, epochs):
    work = of(lanes, strategy=strategy, nodes=nodes, epochs=epochs)
    (stage,) = work.stages
    rows = stage.step_rows * stage.steps
    of_node = work.passes * sum(lanes) / nodes
    assert rows >= of_node * (1 - 1e-9)  # the node with the most rows
    assert rows >= stage.rounds * work.pass_rows * (1 - 1e-9)
    if strategy.startswith("epoch"):
        assert rows == pytest.approx(of_node)


def test_a_shared_step_has_the_rows_of_the_fullest_node():
    """Most rows of one lane are left when all other lanes have ended. Then one node has all rows of a mini-batch."""
    (stage,) = of([1000] + [10] * 15, strategy="batch", nodes=2).stages
    assert stage.step_rows == pytest.approx(59.4, abs=0.05)
    assert stage.step_rows == largest_share(np.array([1000] + [10] * 15), np.arange(16) % 2, 64)


@given(st.integers(1, 500))
def test_the_numbers_end_with_the_most(most):
    assert numbers(most)[0] == 1 and numbers(most)[-1] == most and numbers(most) == sorted(set(numbers(most)))


def test_the_numbers_are_powers_of_two_and_the_middles():
    assert numbers(64) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def test_the_whole_batch_and_its_smallest_part_are_measured_first():
    assert step_sizes(config(), 64)[:3] == [64, 1, 32]
    assert sorted(step_sizes(config(), 64)) == [1, 2, 4, 8, 16, 32, 64]
    assert step_sizes(config(batch_size=1), 64) == [1]
    assert 100 in step_sizes(config(strategy="local", nodes=2, local_batch_size=100), 8)


@given(st.integers(1, 4096), st.integers(1, 64), st.integers(1, 4096))
def test_two_sizes_of_different_steps_are_measured_however_small_the_sample_is(batch, most, rows):
    sizes = sampled_sizes(step_sizes(config(batch_size=batch), most), rows)
    assert sizes[0] == min(batch, rows) and len(sizes) == len({*sizes}) and max(sizes) == sizes[0]
    mean_rows = [rows / math.ceil(rows / size) for size in sizes[:2]]
    assert sizes[0] == 1 or mean_rows[1] < mean_rows[0]
