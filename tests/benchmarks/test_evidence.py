"""benchmarks/evidence.py: what it makes up is what it says, and it finds what is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import evidence
from benchmarks import evidence_truths as truths
from sparksplit.collectives import Alone
from sparksplit.training.node.jackknife import jackknife


@pytest.mark.parametrize("most", [None, 20])
def test_large_effects_are_found_and_nothing_is_wrong(most: int | None) -> None:
    generator = np.random.default_rng(1)
    strategy, other = truths.STRATEGIES[1], truths.STRATEGIES[2]
    truth = truths.Truth(
        dict.fromkeys(truths.STRATEGIES, 0.0) | {strategy: -3 * truths.MARGIN},
        dict.fromkeys(truths.STRATEGIES, 0.0) | {other: 0.1},
        dict.fromkeys(truths.STRATEGIES, 0.01 * truths.MARGIN),
        1e-4,
        rows=200,
        by_row=0.01 * truths.MARGIN,
        run_by_row=0.01 * truths.MARGIN,
    )
    found = evidence.compared(generator, truth, evidence.Effort(most=most))
    assert found.metric.margin == pytest.approx(truths.MARGIN)
    counts: Counter[str] = Counter()
    evidence.count(found, truth, counts)
    # The three on one node and, on two nodes, the three strategies that are compared with `batch` differ from it.
    assert (counts["decided quality"], counts["of decided quality"]) == (6, 6)
    assert counts["decided time"] == counts["of decided time"] == 6  # to the target, and in all
    assert (counts["wrong"], counts["wrong same"], counts["comparisons"]) == (0, 0, 1)


def test_what_is_wrong_is_counted() -> None:
    """Verdicts on one truth are held against another truth."""
    generator = np.random.default_rng(2)
    truth = truths.drawn(generator, "noise", unequal=False)
    sure = replace(truth, noise=dict.fromkeys(truths.STRATEGIES, 1e-6), by_row=1e-6, run_by_row=1e-6)
    found = evidence.compared(generator, sure, evidence.Effort())
    counts: Counter[str] = Counter()
    evidence.count(found, replace(sure, worse=dict.fromkeys(truths.STRATEGIES, 0.0) | {("local", 2): 1.0}), counts)
    assert counts["wrong same"] == 1 and counts["covered"] < counts["of covered"]


def test_its_runs_tell_of_the_rows_what_real_ones_do() -> None:
    generator = np.random.default_rng(3)
    lane, values = generator.integers(0, truths.LANES, 150), generator.exponential(size=150)
    sums = {
        int(own): {"loss": [np.array(values[lane == own].sum()), np.array((lane == own).sum())]}
        for own in np.unique(lane)
    }
    found = jackknife(
        sums.items(), {"loss": [np.zeros(()), np.zeros(())]}, truths.LANES, lambda _, each: each[0] / each[1], Alone()
    )
    made = truths.jackknife(np.bincount(lane, values, truths.LANES), np.bincount(lane, minlength=truths.LANES))
    assert found["loss"] == pytest.approx(made, rel=1e-5)


def test_the_time_to_the_target_and_the_time_in_all_have_truths_of_their_own() -> None:
    """Was: each run reached the target at its end, so both times were one."""
    sure = truths.drawn(np.random.default_rng(5), "effects", unequal=False)
    own, early = ("batch", 2), frozenset([("batch", 2)])
    slower = dict.fromkeys(sure.worse, 0.0) | {own: -0.1}
    sure = replace(sure, slower=slower, early=early, time=1e-4)
    found = evidence.compared(np.random.default_rng(5), sure, evidence.Effort())
    times = {one.what: one.times for one in found.times if (one.name, one.nodes, one.against) == (*own, "single")}
    for what, shown in times.items():
        assert np.log(shown) == pytest.approx(sure.log_of(truths.SINGLE, what) - sure.log_of(own, what), abs=1e-3)
    assert times["to the target"] > 1.1 and times["in all"] < 1
    counts: Counter[str] = Counter()
    evidence.count(found, sure, counts)
    assert (counts["wrong"], counts["wrong least"]) == (0, 0)


def test_a_choice_on_one_node_and_a_false_stay_are_counted() -> None:
    """Was: recommendations of a row on one node were right, whatever it was."""
    sure, best = truths.drawn(np.random.default_rng(4), "one node best", unequal=False), (truths.LARGE, 1)
    tiny, none = (dict.fromkeys(sure.worse, value) for value in (1e-6, 0.0))
    sure = replace(sure, worse=none, slower={**none, best: -0.4}, noise=tiny, time=1e-4, by_row=1e-6, run_by_row=1e-6)
    found = evidence.compared(np.random.default_rng(4), sure, evidence.Effort())
    choice = found.answer.choice
    assert found.answer.decision == "stay" and choice is not None and (choice.name, choice.nodes) == best
    bad = replace(sure, worse={**sure.worse, best: 1.01 * truths.MARGIN})
    for truth, wrong in ((sure, 0), (bad, 1)):
        counts: Counter[str] = Counter()
        evidence.count(found, truth, counts)
        assert (counts["wrong use"], counts["wrong stay"]) == (wrong, 0)
    alone = replace(found, answer=replace(found.answer, choice=found.table[0]))
    fast = replace(sure, slower={**sure.slower, ("batch", 2): -1.0})
    counts = Counter()
    evidence.count(alone, fast, counts)
    assert (counts["wrong use"], counts["wrong stay"]) == (0, 1)


def test_a_slow_row_may_be_used_only_if_it_is_better_by_more_than_the_margin() -> None:
    """Was: however slow, if it was better at all."""
    sure, row = truths.drawn(np.random.default_rng(4), "one node best", unequal=False), ("local", 2)
    fast = dict.fromkeys(sure.worse, 0.0) | {(truths.LARGE, 1): -0.8, row: -0.4}
    for better, may in ((0.4, False), (1.01, True)):
        worse = dict.fromkeys(sure.worse, 0.0) | {row: -better * truths.MARGIN}
        assert replace(sure, worse=worse, slower=fast).may_be_used(row) == may


@pytest.mark.parametrize("kind", ["one node best", "nodes best"])
def test_which_rows_may_be_recommended_is_known(kind: str) -> None:
    for seed in range(20):
        truth = truths.drawn(np.random.default_rng(seed), kind, unequal=True)
        several = [row for row in truth.worse if row[1] > 1]
        best = min(truth.slower, key=lambda row: truth.slower[row])
        assert (best[1] > 1) == any(map(truth.may_be_used, several)) == (kind == "nodes best")
        assert kind == "nodes best" or all(truth.slower[row] < 0 for row in several)


def test_a_recommendation_that_a_row_on_one_node_beats_is_wrong() -> None:
    """The same clear comparison, held against its own truth and against one in which a control is as fast."""
    sure = truths.drawn(np.random.default_rng(4), "nodes best", unequal=False)
    tiny = dict.fromkeys(sure.worse, 1e-6)
    sure = replace(sure, worse=dict.fromkeys(sure.worse, 0.0), noise=tiny, time=1e-4, by_row=1e-6, run_by_row=1e-6)
    best = min(sure.slower, key=lambda row: sure.slower[row])
    found = evidence.compared(np.random.default_rng(4), sure, evidence.Effort())
    assert found.answer.decision == "use" and found.answer.choice is not None
    assert (found.answer.choice.name, found.answer.choice.nodes) == best
    counts: Counter[str] = Counter()
    evidence.count(found, sure, counts)
    assert (counts["used"], counts["of used"], counts["wrong use"]) == (1, 1, 0)
    other = replace(sure, slower={**sure.slower, (truths.LARGE, 1): sure.slower[best]})
    evidence.count(found, other, counts)
    assert (counts["used"], counts["of used"], counts["wrong use"]) == (1, 1, 1)
