"""How far each lane's rows move a metric: the variance that comes of it, on any number of nodes."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base import measures
from sparksplit.collectives import Alone
from sparksplit.training.node.jackknife import jackknife
from tests.nodes import in_threads
from tests.training.node.compiled.test_step import linear, step_of
from tests.training.node.stand_ins import Together
from tests.training.node.steps import FEATURES, chunk_of, rows


def mean_of(name, state):
    return float(state[0] / state[1]) if state[1] else float("nan")


def sums_of(values, weights=None):
    """What a lane with these rows' losses has."""
    weights = np.ones(len(values)) if weights is None else weights
    return {"loss": [np.array((values * weights).sum()), np.array(weights.sum())]}


NOTHING = sums_of(np.zeros(0))
by_lane = st.lists(st.lists(st.floats(-3, 3), max_size=6), min_size=2, max_size=12).filter(
    lambda lanes: sum(map(bool, lanes)) > 1
)


@given(by_lane, st.integers(1, 4))
def test_its_squares_are_the_delete_m_jackknife_on_any_number_of_nodes(lanes, nodes):
    """Pseudo-values and their weights, as Busing, Meijer and van der Leeden write them."""
    every = np.concatenate([np.array(lane) for lane in lanes])
    filled = [np.array(lane) for lane in lanes if lane]
    h = np.array([len(every) / len(lane) for lane in filled])
    without = np.array([(every.sum() - lane.sum()) / (len(every) - len(lane)) for lane in filled])
    pseudo = h * every.mean() - (h - 1) * without
    expected = ((pseudo - every.mean()) ** 2 / (h - 1)).mean()

    def work(rank, gather):
        own = [(lane, sums_of(np.array(lanes[lane]))) for lane in range(rank, len(lanes), nodes) if lanes[lane]]
        return jackknife(own, NOTHING, len(lanes), mean_of, Together(rank, nodes, gather))["loss"]

    for found in in_threads(nodes, work):
        assert len(found) == len(filled)
        assert np.mean(np.square(found)) == pytest.approx(expected, rel=1e-4, abs=1e-12)


def test_it_estimates_the_variance_of_a_mean_over_rows_without_bias():
    """Skewed values in lanes of very different sizes, weighted by how often they are drawn."""
    generator = np.random.default_rng(1)
    found, means = [], []
    for _ in range(2000):
        lanes = np.array_split(generator.exponential(size=60), np.sort(generator.integers(0, 60, 11)))
        own = [(lane, sums_of(values)) for lane, values in enumerate(lanes) if len(values)]
        found.append(np.mean(np.square(jackknife(own, NOTHING, 12, mean_of, Alone())["loss"])))
        means.append(np.mean(np.concatenate(lanes)))
    assert np.mean(found) == pytest.approx(1 / 60, rel=0.05)
    assert np.var(means) == pytest.approx(1 / 60, rel=0.1)


def test_weights_count_like_repeated_rows_of_a_lane():
    values, weights = np.array([1.0, 2.0, 5.0]), np.array([3.0, 1.0, 2.0])
    other = sums_of(np.array([4.0, 7.0]))
    found = [
        jackknife([(0, one), (1, other)], NOTHING, 2, mean_of, Alone())
        for one in (sums_of(values, weights), sums_of(np.repeat(values, weights.astype(int))))
    ]
    assert found[0] == found[1] and len(found[0]["loss"]) == 2


def test_an_area_under_a_curve_has_one_and_a_count_has_none():
    """The variance of an AUC, as an exact one has it: of pairs of positives and negatives (DeLong and others, 1988)."""
    generator = np.random.default_rng(3)
    label = generator.integers(0, 2, 600)
    odds = generator.normal(size=600) + 1.2 * label
    place = generator.integers(0, 96, 600)
    bins = measures.bins_of(odds)

    def sums(which):
        parts = [np.bincount(bins[which & (label == one)], minlength=measures.BINS).astype(float) for one in (0, 1)]
        count = np.array(which.sum())
        hits = [np.array(label[which].sum()), count]
        return {"loss": [np.array(0.0), count], "auc": [*parts, count], "hits": hits}

    def value(name, state):
        if name == "loss":
            return mean_of(name, state)
        return measures.auc(*state[:2])[0] if name == "auc" else float(state[0])

    lanes = [(lane, sums(place == lane)) for lane in range(96)]
    found = jackknife(lanes, sums(place < 0), 96, value, Alone())
    wins = (odds[label == 1][:, None] > odds[label == 0][None]).astype(float)
    exact = sum(wins.mean(axis=axis).var(ddof=1) / wins.shape[1 - axis] for axis in (0, 1))
    assert np.mean(np.square(found["auc"])) == pytest.approx(exact, rel=0.25)
    assert set(found) == {"loss", "auc"}


def test_of_many_lanes_some_tell_what_all_would():
    generator = np.random.default_rng(4)
    lanes = [(lane, sums_of(generator.normal(size=50))) for lane in range(1000)]
    found = jackknife(lanes, NOTHING, 1000, mean_of, Alone())["loss"]
    assert len(found) == 128 and np.mean(np.square(found)) == pytest.approx(1 / 50_000, rel=0.3)


def test_without_rows_in_two_lanes_or_a_value_without_one_nothing_is_told():
    assert jackknife([(1, sums_of(np.ones(5)))], NOTHING, 3, mean_of, Alone()) == {}
    assert jackknife([], NOTHING, 3, mean_of, Alone()) == {}
    two = [(0, sums_of(np.array([1.0]))), (2, sums_of(np.array([np.nan])))]
    assert jackknife(two, NOTHING, 3, mean_of, Alone()) == {}


def test_a_steps_own_sums_are_those_of_its_lanes_and_leave_its_metrics_as_they_were():
    x, y = rows(60, 5)
    models, lanes = [linear(), linear()], np.arange(60) % 7

    def work(rank, gather):
        collective = Together(rank, 2, gather)
        step = step_of(models[rank], keras.optimizers.SGD(0.1), collective, {"mse": keras.metrics.MeanSquaredError()})
        own = {lane: (x[lanes == lane], y[lanes == lane]) for lane in range(rank, 7, 2)}
        found = step.jackknife([(lane, [chunk_of(*some, [0, 3, len(some[0])])]) for lane, some in own.items()], 7)
        assert step.metric_results() == {"mse": 0}
        mine = np.concatenate([some[0] for some in own.values()]), np.concatenate([some[1] for some in own.values()])
        return found, step.evaluate([chunk_of(*mine, [0, len(mine[0])])])

    squares = (x @ np.ones(FEATURES) - y) ** 2
    alone = jackknife(
        [(lane, sums_of(squares[lanes == lane])) for lane in range(7)], NOTHING, 7, mean_of, Alone()
    )["loss"]  # fmt: skip
    for found, evaluation in in_threads(2, work):
        assert found["loss"] == pytest.approx(alone, rel=1e-3)
        assert found["mse"] == pytest.approx(alone, rel=1e-3)
        assert evaluation.loss == pytest.approx(squares.mean(), rel=1e-5)
        assert evaluation.metrics["mse"] == pytest.approx(squares.mean(), rel=1e-5)
