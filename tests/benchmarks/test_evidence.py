"""benchmarks/evidence.py: what it makes up is what it says, and it finds what is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import evidence
from sparksplit.collectives import Alone
from sparksplit.training.node.jackknife import jackknife


@pytest.mark.parametrize("most", [None, 20])
def test_large_effects_are_found_and_nothing_is_wrong(most: int | None) -> None:
    generator = np.random.default_rng(1)
    strategy, other = evidence.STRATEGIES[1], evidence.STRATEGIES[2]
    truth = evidence.Truth(
        dict.fromkeys(evidence.STRATEGIES, 0.0) | {strategy: -3 * evidence.MARGIN},
        dict.fromkeys(evidence.STRATEGIES, 0.0) | {other: 0.1},
        dict.fromkeys(evidence.STRATEGIES, 0.01 * evidence.MARGIN),
        1e-4,
        rows=200,
        by_row=0.01 * evidence.MARGIN,
        run_by_row=0.01 * evidence.MARGIN,
    )
    found = evidence.compared(generator, truth, most)
    assert found.metric.margin == pytest.approx(evidence.MARGIN)
    counts: Counter[str] = Counter()
    evidence.count(found, truth, counts)
    # The three on one node and, on two nodes, the three strategies that are compared with `batch` differ from it.
    assert (counts["decided quality"], counts["of decided quality"]) == (6, 6)
    assert counts["decided time"] == counts["of decided time"] == 6  # to the target, and in all
    assert (counts["wrong"], counts["wrong same"], counts["comparisons"]) == (0, 0, 1)


def test_what_is_wrong_is_counted() -> None:
    """Verdicts on one truth are held against another truth."""
    generator = np.random.default_rng(2)
    truth = evidence.drawn(generator, effects=False, unequal=False)
    sure = replace(truth, noise=dict.fromkeys(evidence.STRATEGIES, 1e-6), by_row=1e-6, run_by_row=1e-6)
    found = evidence.compared(generator, sure, None)
    counts: Counter[str] = Counter()
    evidence.count(found, replace(sure, worse=dict.fromkeys(evidence.STRATEGIES, 0.0) | {("local", 2): 1.0}), counts)
    assert counts["wrong same"] == 1 and counts["covered"] < counts["of covered"]


def test_its_runs_tell_of_the_rows_what_real_ones_do() -> None:
    generator = np.random.default_rng(3)
    lane, values = generator.integers(0, evidence.LANES, 150), generator.exponential(size=150)
    sums = {
        int(own): {"loss": [np.array(values[lane == own].sum()), np.array((lane == own).sum())]}
        for own in np.unique(lane)
    }
    found = jackknife(
        sums.items(), {"loss": [np.zeros(()), np.zeros(())]}, evidence.LANES, lambda _, each: each[0] / each[1], Alone()
    )
    made = evidence.jackknife(np.bincount(lane, values, evidence.LANES), np.bincount(lane, minlength=evidence.LANES))
    assert found["loss"] == pytest.approx(made, rel=1e-5)
