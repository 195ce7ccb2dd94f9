"""What is tried of each strategy."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import nested, parse
from sparksplit.comparison.compare_config import TuneConfig
from sparksplit.comparison.tuning.space import Range, called, extremes, points, ranges, tried, value_at
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig

RATE = "optimizer.learning_rate"


def found(strategy="batch", rate=0.1, keys=None, shared=0.1, **more):
    own = {"data": "d", "output": "o", "strategy": strategy, "nodes": 2, "optimizer": {"learning_rate": rate}, **more}
    tuning = parse(TuneConfig, {"tries": 2, "keys": keys or {}})
    return ranges(tuning, parse(TrainConfig, own), STRATEGIES[strategy], shared)


def test_the_first_rates_by_hand():
    """Van der Corput's sequence in base 2, from 1/10 to 10 times the rate."""
    assert points(5, 1) == [[1 / 2], [1 / 4], [3 / 4], [1 / 8], [5 / 8]]
    rates = [values[RATE] for values in tried(found(), 8)]
    assert rates == [0.1, 0.0316, 0.316, 0.0178, 0.178, 0.0562, 0.562, 0.0133]


@given(st.integers(2, 64), st.integers(1, 4))
def test_more_tries_go_on_from_fewer_and_leave_no_gap(tries, dimensions):
    some = points(tries, dimensions)
    assert points(tries + 5, dimensions)[:tries] == some
    assert all(0 < part < 1 for point in some for part in point)
    first = sorted([0.0, *(point[0] for point in some), 1.0])
    assert max(high - low for low, high in pairwise(first)) <= 2 / (tries + 1)


@given(st.floats(1e-6, 1e3), st.floats(1.01, 1e4), st.lists(st.floats(0, 1), min_size=2, max_size=9), st.booleans())
def test_values_lie_in_their_range_in_order(low, times, parts, whole):
    own = Range(low, low * times, whole)
    values = [own.at(part) for part in sorted(parts)]
    assert values == sorted(values)
    for value in values:
        if whole:
            assert isinstance(value, int) and low - 0.51 <= value <= low * times + 0.51
        else:
            assert 0.99 * low <= value <= 1.01 * low * times
    assert Range(low, low * times).at(0.5) == pytest.approx(low * math.sqrt(times), rel=0.01)


def test_a_rate_of_a_strategys_own_has_a_range_of_its_own():
    assert found(rate=0.001) == {RATE: Range(0.0001, 0.01)}
    wide = {RATE: [0.01, 4.0]}
    assert found(keys=wide) == {RATE: Range(0.01, 4)}
    # The control of an epoch strategy has N times the rate, and N times the range.
    assert found(rate=0.2, keys=wide) == {RATE: Range(0.02, 8)}


def test_a_strategy_is_tuned_in_what_it_heeds():
    keys = {"sync.every": [4, 128], "sync.outer_momentum": [0.5, 0.95], "optimizer.momentum": [0.5, 0.99]}
    assert list(found("batch", keys=keys)) == [RATE, "optimizer.momentum"]
    assert list(found("local", keys=keys)) == [RATE, "sync.every", "optimizer.momentum"]
    outer = found("local", keys=keys, sync={"outer": "nesterov"})
    assert list(outer) == [RATE, *keys]
    assert outer["sync.every"] == Range(4, 128, whole=True) and not outer["sync.outer_momentum"].whole
    assert all(isinstance(values["sync.every"], int) for values in tried(outer, 8))


def test_values_are_whole_where_the_key_counts_something():
    keys = {"optimizer.momentum": [0.5, 0.9], "optimizer.clipnorm": [1, 10]}
    own = found(keys=keys, optimizer={"learning_rate": 0.1, "momentum": 0, "clipnorm": 1})
    assert not own["optimizer.momentum"].whole and not own["optimizer.clipnorm"].whole
    assert found("local", keys={"sync.every": [4, 7.5]})["sync.every"].whole
    counted = "optimizer.ema_overwrite_frequency"  # not given: would be tried at 2.52
    assert all(isinstance(values[counted], int) for values in tried(found(keys={counted: [2, 8]}), 8))
    registered = {"name": "mine>Fancy", "learning_rate": 0.1, "depth": 2, "width": 2.0}
    own = found(keys={"optimizer.depth": [1, 4], "optimizer.width": [1, 4]}, optimizer=registered)
    assert own["optimizer.depth"].whole and not own["optimizer.width"].whole


@given(st.integers(1, 40), st.integers(1, 60), st.integers(2, 30))
def test_whole_numbers_are_tried_once_each(low, more, tries):
    own = {"sync.every": Range(low, low + more, whole=True)}
    values = [each["sync.every"] for each in tried(own, tries)]
    assert len(set(values)) == len(values) == min(tries, more + 1)
    assert [each["sync.every"] for each in tried(own, tries + 3)][: len(values)] == values


def test_of_a_schedule_must_be_said_what_is_tuned():
    schedule, key = {"name": "CosineDecay", "initial_learning_rate": 0.1, "decay_steps": 9}, f"{RATE}.decay_steps"
    with pytest.raises(ValueError, match=r"optimizer.learning_rate is a schedule: give the range of one of"):
        found(rate=schedule, shared=schedule)
    assert found(rate=schedule, shared=schedule, keys={key: [5, 50]}) == {key: Range(5, 50, whole=True)}
    assert list(found(keys={key: [5, 50]})) == [RATE]


def test_dotted_keys_and_nested_values_are_the_same():
    values = {RATE: 0.1, "optimizer.momentum": 0.9, "sync.every": 8}
    inner = nested(values)
    assert inner == {"optimizer": {"learning_rate": 0.1, "momentum": 0.9}, "sync": {"every": 8}}
    assert {key: value_at(inner, key) for key in values} == values
    assert value_at(inner, "sync.every.more") is value_at(inner, "none.there") is None


def test_a_name_tells_the_range_of_what_is_tuned():
    own = {RATE: Range(0.01, 1), "sync.every": Range(4, 128, whole=True)}
    assert called({"strategy": "batch"}, own, every=False) == {"strategy": "batch"}
    said = {"strategy": "local", "optimizer": {"learning_rate": 0.1, "momentum": 0.5}}
    assert called(said, own, every=True) == {
        "strategy": "local", "optimizer": {"learning_rate": "0.01 to 1", "momentum": 0.5}, "sync": {"every": "4 to 128"}
    }  # fmt: skip


def test_the_ends_of_what_was_tried():
    values = [{"a": 0.1, "b": 5.0}, {"a": 0.2, "b": 4.0}, {"a": 0.3, "b": 6.0}]
    assert [extremes(values, chosen) for chosen in range(3)] == [["a"], ["b"], ["a", "b"]]
