"""What is enough to recommend a row: each of its own differences, and not that all differences are decided together."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from benchmarks.evidence_truths import LARGE, MARGIN, METRIC, REFERENCE, SHARE, STRATEGIES, made
from sparksplit.comparison.analysis.analyse import Analysis, analyse
from sparksplit.comparison.answer.decide import answer
from sparksplit.comparison.answer.words import words
from sparksplit.comparison.content_table import TO_TARGET, Pair, TimePair
from sparksplit.comparison.intervals import LEVEL
from tests.comparison.records import some_results

ROWS = [*STRATEGIES, (LARGE, 1)]
BEST, SINGLE, SEEDS = ("batch", 2), ("single", 1), 5
SHARE_OF_ROW = (1 - LEVEL) / (len(ROWS) - 1)


def analysed(faster: dict[tuple[str, int], float], better: float = 0.0) -> Analysis:
    """Noise alone, but for rows whose seconds are shorter by that logarithm, and a loss of BEST that is lower."""
    random, runs = np.random.default_rng(7), []
    for row in ROWS:
        for seed in range(SEEDS):
            log, loss = 0.02 * random.normal(), 0.05 * MARGIN * random.normal()
            lower = better if row == BEST else 0.0
            runs.append(made(row, seed, 1 + loss - lower, 10 * math.exp(log - faster.get(row, 0.0))))
    return analyse(runs, [REFERENCE], METRIC, SHARE)


def time_of(found: Analysis, row: tuple[str, int], against: tuple[str, int]) -> TimePair:
    return next(
        one for one in found.times if (one.name, one.nodes, one.against) == (*row, against[0]) and one.what == TO_TARGET
    )


def pair_of(found: Analysis, row: tuple[str, int], against: tuple[str, int]) -> Pair:
    key = (*row, *against)
    return next(one for one in found.pairs if (one.name, one.nodes, one.against, one.against_nodes) == key)


def effect(chance: float, against: tuple[str, int], elsewhere: float = 0.0) -> float:
    """How much faster BEST must be for that p-value. A shift changes no standard deviation."""
    flat = time_of(analysed({BEST: elsewhere}), BEST, against)
    assert flat.error is not None and flat.low is not None and flat.high is not None
    reach = math.log(flat.high / flat.low) / 2
    # The degrees of freedom follow from the interval.
    many = np.linspace(1, 200, 20_000)
    freedom = many[np.argmin(np.abs(special.stdtrit(many, 0.975) * flat.error - reach))]
    return float(special.stdtrit(freedom, 1 - chance) * flat.error - math.log(flat.times) + elsewhere)


def result(found: Analysis):
    fields = {"target": found.target, "grid": found.grid, "place": found.place, "times": found.times}
    return some_results(found.table, found.pairs, found.metric, seeds=list(range(SEEDS)), **fields)


@pytest.mark.parametrize(("part", "enough"), [(0.8, True), (1.2, False)])
def test_against_single_each_row_has_its_share_of_the_chance(part: float, enough: bool) -> None:
    found = analysed({BEST: effect(part * SHARE_OF_ROW, SINGLE)})
    time = time_of(found, BEST, SINGLE)
    assert (time.verdict, time.enough) == ("undecided", enough)
    assert (time.at_least is not None and time.at_least > 1) == enough


def test_a_bound_of_the_speed_up_is_above_one_where_there_is_but_one_other_row() -> None:
    """Was: 1.05 times as fast (0.988 to 1.12). All 5 % are on one side."""
    random, runs = np.random.default_rng(1), []
    for row, log in ((SINGLE, 0.0), (BEST, 0.06)):
        runs += [made(row, seed, 1.0, 10 * math.exp(0.05 * random.normal() - log)) for seed in range(SEEDS)]
    time = time_of(analyse(runs, [REFERENCE], METRIC, SHARE), BEST, SINGLE)
    assert time.enough and time.low is not None and time.low < 1 < (time.at_least or 0.0) < time.times


def test_no_worse_than_single_is_enough_and_another_row_must_be_beaten() -> None:
    found = analysed({})
    assert pair_of(found, BEST, SINGLE).enough and not pair_of(found, BEST, (LARGE, 1)).enough
    found = analysed({}, better=2 * MARGIN)
    assert pair_of(found, BEST, (LARGE, 1)).enough
    # What is better by less than the margin counts as the same. Was enough, however slow the row is.
    found = analysed({}, better=0.4 * MARGIN)
    assert pair_of(found, BEST, (LARGE, 1)).verdict in ("better", "no difference")
    assert not pair_of(found, BEST, (LARGE, 1)).enough
    assert pair_of(analysed({}, better=-2 * MARGIN), BEST, SINGLE).verdict == "worse"
    assert not pair_of(analysed({}, better=-2 * MARGIN), BEST, SINGLE).enough


@pytest.mark.parametrize(("part", "enough"), [(0.4, True), (0.6, False)])
def test_against_another_row_on_one_node_speed_has_half_of_the_share(part: float, enough: bool) -> None:
    found = analysed({BEST: effect(part * SHARE_OF_ROW, (LARGE, 1))})
    assert time_of(found, BEST, (LARGE, 1)).enough == enough


def test_a_row_is_recommended_as_soon_as_all_that_it_needs_is_enough() -> None:
    alone = [row for row in ROWS if row[1] == 1]
    needed = max(effect(0.4 * SHARE_OF_ROW, other) for other in alone)
    found = analysed({BEST: needed})
    assert "undecided" in {time_of(found, BEST, other).verdict for other in alone}
    results = result(found)
    said = answer(results)
    assert (said.decision, said.choice and (said.choice.name, said.choice.nodes)) == ("use", BEST)
    assert "times as fast as 1 node as configured (" in words(replace(results, answer=said))[0]
    # One row on one node that is as fast is enough to recommend nothing.
    said = answer(result(analysed({BEST: needed, (LARGE, 1): needed})))
    assert said.decision == "undecided" or (said.choice is not None and said.choice.nodes == 1)
    # Nothing is enough with one seed.
    runs = [replace(one, seed=0) for one in (made(row, 0, 1.0, 10.0) for row in ROWS)]
    one_seed = analyse(runs, [REFERENCE], METRIC, SHARE)
    assert not any(one.enough for one in (*one_seed.pairs, *one_seed.times))
