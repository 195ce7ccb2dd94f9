"""Which values are best, and what is said about it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.comparison_record import DivergedRun
from sparksplit.comparison.content import Deciding
from sparksplit.comparison.numbers import compact
from sparksplit.comparison.plan import plan
from sparksplit.comparison.tuning import said
from sparksplit.comparison.tuning.choice import best, choice, tuning
from sparksplit.comparison.tuning.space import Range, extremes, tried
from sparksplit.comparison.tuning.tries import tries
from sparksplit.comparison.tuning.tuning_record import Tried, TunedStrategy
from sparksplit.training.run_record import RunMetrics
from tests.comparison.records import compared_run, run_seconds

RATE = "optimizer.learning_rate"
SINGLE, EPOCH, FAR = ("single", 1, False), ("epoch", 2, False), ("epoch", 4, True)
ACCURACY = Deciding("accuracy", True, "test", 1e-3)


def one(metric, loss=1.0):
    return Tried(values={RATE: 0.1}, metric=metric, loss=loss)


def test_the_best_is_the_best_and_a_lower_loss_decides_between_equals():
    assert choice([one(0.8), one(0.9), one(None), one(0.7)], True) == 1
    assert choice([one(0.8), one(0.9), one(None), one(0.7)], False) == 3
    assert choice([one(0.9, 0.3), one(0.9, 0.2), one(0.9, None), one(0.9, 0.2)], True) == 1
    assert choice([one(None, None), one(None, 0.1)], True) is None


values = st.one_of(st.none(), st.floats(-1e6, 1e6))


@given(st.lists(values, min_size=1, max_size=9), st.booleans())
def test_what_diverged_is_never_chosen_where_something_did_not(found, higher):
    place = choice([one(value) for value in found], higher)
    known = [value for value in found if value is not None]
    assert (place is None) == (not known)
    if place is not None:
        assert found[place] == (max if higher else min)(known)


def made(accuracies, seeds=1, **keys):
    """What tuning of three tries each came to. accuracies: by strategy, of each try; NaN ends the run."""
    given = {"data": "d", "output": "o", "strategies": ["batch", "epoch"], "nodes": [1, 2], "virtual": [4], "seeds": 1}
    config = parse(CompareConfig, {**given, "epochs": 4, "tune": {"tries": 3, "seeds": seeds}, **keys})
    runs = plan(config)
    found, records, places = tries(config, runs), {}, dict.fromkeys(accuracies, 0)
    for each in found:
        if each.group not in accuracies:
            values = [0.5] * seeds
        else:
            value = accuracies[each.group][places[each.group]]
            values = value if isinstance(value, list) else [value] * seeds
            places[each.group] += 1
        for run, value in zip(each.runs, values, strict=True):
            records[run.key] = record(run, value)
    return found, tuning(found, records, ACCURACY, runs)


def record(run, value):
    """The test rows say the opposite."""
    if math.isnan(value):
        return DivergedRun(key=run.key, name=run.name, config_hash="h", diverged="the loss is nan",
                           nodes=run.config.node_count, virtual=run.config.virtual, seed=run.config.seed)  # fmt: skip
    measured = {"accuracy": [0.1, value], "loss": [2.0, 1 - value]}
    return compared_run(
        key=run.key, name=run.name, nodes=run.config.node_count, virtual=run.config.virtual, passes=4,
        metrics=RunMetrics(validation=measured, test={"accuracy": 1 - value}), seconds=run_seconds(10.0, 0.0),
    )  # fmt: skip


def test_the_validation_rows_decide_whatever_the_test_rows_say():
    found, result = made({SINGLE: [0.7, 0.6, 0.9], EPOCH: [0.8, 0.7, 0.6], FAR: [0.5, 0.6, 0.55]})
    assert best(found, result) == {
        SINGLE: {RATE: 0.0316}, EPOCH: {RATE: 0.01}, FAR: {RATE: 0.00316},
        ("single, batch_size = 128, learning_rate = 0.002 to 0.2", 1, False): {RATE: 0.02},
    }  # fmt: skip
    tuned = result.strategies[0]
    assert (tuned.name, tuned.chosen, tuned.edges, tuned.also) == ("single", 2, [RATE], ["`batch` on 2"])
    assert [each.metric for each in tuned.tries] == [0.7, 0.6, 0.9] and tuned.ranges == {RATE: [0.001, 0.1]}
    assert next(tuned for tuned in result.strategies if (tuned.name, tuned.nodes) == ("epoch", 2)).edges == []


def test_a_try_with_one_seed_that_diverged_is_worse_than_any_other():
    nan = math.nan
    found, result = made({SINGLE: [[0.9, nan], [0.2, 0.4], [0.3, 0.2]], EPOCH: [nan, nan, nan]}, seeds=2)
    assert [each.metric for each in result.strategies[0].tries] == [None, pytest.approx(0.3), pytest.approx(0.25)]
    chosen = best(found, result)
    assert chosen[SINGLE] == {RATE: 0.00316} and EPOCH not in chosen
    (kept,) = said.kept(result)
    assert kept.endswith("for `epoch` on 2.")


def test_what_it_cost():
    _, result = made({EPOCH: [math.nan, 0.7, 0.6]})
    # Of each of 4 strategies 3 tries; one of them diverged. Virtual nodes are one process.
    assert (result.runs, result.diverged, result.passes) == (12, 1, 44)
    assert result.node_seconds == 10.0 * (3 + 3 + 2 * 2 + 3)
    assert said.cost(result) == (
        "Tuning took 12 runs on a seed of their own, 44 passes and 2.17 min of node time, without 1 that diverged."
    )
    compared = [compared_run(nodes=2, seconds=run_seconds(30.0, 0.0))]
    assert said.cost(result, compared).endswith("1 that diverged; the runs that are compared took 60.0 s.")


ENDS = st.tuples(st.floats(1e-5, 1e2), st.floats(1.5, 1e3), st.booleans())


@given(ENDS, st.integers(2, 9), st.data())
def test_an_edge_is_of_what_was_tried_and_says_what_is_left_of_the_range(ends, number, data):
    low, times, whole = ends
    own = Range(max(1.0, round(low)), max(2.0, round(low * times)), True) if whole else Range(low, low * times)
    found = tried({"sync.every": own}, number)
    chosen = data.draw(st.integers(0, len(found) - 1))
    tuned = TunedStrategy(
        name="local", nodes=2, virtual=False, ranges={"sync.every": [own.low, own.high]}, chosen=chosen,
        tries=[Tried(values=one, metric=0.5, loss=1.0) for one in found], edges=extremes(found, chosen), also=[],
    )  # fmt: skip
    all_tried, best = [one["sync.every"] for one in found], found[chosen]["sync.every"]
    if min(all_tried) < best < max(all_tried):
        assert said.edges_of(tuned) == []
        return
    (text,) = said.edges_of(tuned)
    side = "lowest" if best == min(all_tried) else "highest"
    end = own.low if side == "lowest" else own.high
    left = {"lowest": "down to", "highest": "up to"}[side]
    assert text == f"H {compact(best)}, " + (
        "the end of its range"
        if compact(best) == compact(end)
        else f"the {side} tried of a range {left} {compact(end)}"
    )
