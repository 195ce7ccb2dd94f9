"""The seeds or rows that would decide what is not decided, and how long the runs take."""

import math
from dataclasses import replace
from operator import truediv
from statistics import stdev

import pytest
from scipy import special

from sparksplit.comparison.analysis.analyse import analyse
from sparksplit.comparison.analysis.needed import in_search, in_time, undecided, with_needs
from sparksplit.comparison.analysis.verdicts import Errors, seeds_to_decide
from sparksplit.comparison.answer.content import Answer, Question
from sparksplit.comparison.comparison_record import DivergedRun
from sparksplit.comparison.content import DataFacts
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Pair
from tests.comparison.answer.test_decide import SINGLE, answered, pair, ran, row, speed
from tests.comparison.records import metric_of, some_results
from tests.comparison.truth.made_up import made_up

UNSURE = replace(pair("batch", "single", "undecided", 0.002), low=-0.003, high=0.007)
FAST = row("batch", 2, 9.0, 0.97, 1e9)
TIME = replace(speed(FAST, 10.0, TO_TARGET, "undecided"), times=10 / 9, low=0.9, high=1.37)


def with_error(difference):
    """The standard error that an interval has which is not pooled."""
    if difference.low is None or difference.error is not None:
        return difference
    ends = difference.low, difference.high
    low, high = ends if isinstance(difference, Pair) else map(math.log, ends)
    return replace(difference, error=(high - low) / 2 / special.stdtrit(difference.seeds - 1, 0.975))


def results_of(pairs=(), times=(), seeds=8, metric=None, **fields):
    pairs, times = ([with_error(one) for one in some] for some in (pairs, times))
    return some_results([SINGLE, FAST], pairs, metric or metric_of(), times=times, seeds=list(range(seeds)), **fields)


def asked(results, about):
    """The (seeds, rows, too few seeds) of the first difference, judged with all differences of the results."""
    question = Question(name="batch", nodes=2, against="single", about=about)
    found = with_needs(question, next(iter(results.pairs if about == "quality" else results.times), None), results)
    return found.seeds, found.rows, found.more_than


UNKNOWN = (None, None, None)


def test_seeds_that_tell_nothing_of_both_are_run_all_the_same():
    """Three of eight seeds tell of both: whatever takes 12 of these takes 32 runs of each strategy."""
    unsure, time = replace(UNSURE, seeds=3, of=8), replace(TIME, seeds=3, of=8)
    error = 0.005 / special.stdtrit(2, 0.975)
    both = seeds_to_decide(Errors(error, 0.0, 3, 0.5), 0.005, 1000)
    assert asked(results_of([unsure]), "quality") == (math.ceil(both * 8 / 3), None, None)
    error = math.log(1.37 / 0.9) / 2 / special.stdtrit(2, 0.975)
    both = seeds_to_decide(Errors(error, 0.0, 3, 0.5), math.log(10 / 9), 1000)
    assert asked(results_of([], [time]), "speed") == (math.ceil(both * 8 / 3), None, None)
    # One more of both than there are is enough: more than the eight.
    clear = replace(unsure, low=0.0019, high=0.0021)
    assert asked(results_of([clear]), "quality") == (11, None, None)


def test_where_one_seed_tells_or_all_tell_the_same_it_says_so():
    alone = replace(UNSURE, low=None, high=None, seeds=1, of=8)
    lone = replace(TIME, low=None, high=None, seeds=1, of=8)
    assert asked(results_of([alone]), "quality") == asked(results_of([], [lone]), "speed") == UNKNOWN
    assert asked(results_of(), "speed") == UNKNOWN
    same, twin = replace(UNSURE, low=0.002, high=0.002), replace(TIME, low=1.1, high=1.1)
    results = results_of([same], [twin], metric=metric_of(resolution=None))
    assert {asked(results, about) for about in ("speed", "quality")} == {UNKNOWN}
    # By rows alone it is not 0 either, and without any chance between seeds it is never decided.
    known = replace(same, error=0.001, rows_error=0.001)
    assert asked(results_of([known]), "quality") == UNKNOWN


def test_what_is_chance_by_rows_takes_more_rows():
    """0.6 points from what is to be ruled out first, with a standard error of 0.4 by rows and little by seeds: by hand,
    (1.64 * 0.4 / 0.6)^2 = 1.2 times as many rows."""
    metric, data = metric_of(margin=0.001, resolution=0.001), DataFacts("d", "e", {"train": 1000, "test": 1000})
    some = replace(pair("batch", "single", "undecided", 0.005), low=-0.003, high=0.013, error=0.00401, rows_error=0.004)

    def found(one):
        results = results_of([one], seeds=5, metric=metric, data=data)
        return *asked(results, "quality"), undecided(results)

    assert found(some) == (None, 1200, None, 0)
    # Mostly by seeds: by hand, 1.86 * 0.87 / sqrt(9) and 1.64 * 0.1 together are 0.56 points.
    assert found(replace(some, error=0.004, rows_error=0.001)) == (9, None, None, 1)
    # By both: neither alone.
    assert found(replace(some, error=0.006, rows_error=0.004)) == (None, None, None, 0)


def test_a_difference_that_is_small_beside_its_spread_is_not_decided_by_1000_seeds():
    """Was told as unknown."""
    far = replace(TIME, low=0.1, high=10.0, times=1.001)
    assert asked(results_of([], [far]), "speed") == (None, None, 1000)


def test_what_only_more_rows_can_tell_is_not_waited_for_with_more_seeds():
    metric = metric_of(margin=0.003, resolution=0.004)
    few = replace(pair("local", "single", "undecided", 0.0005), low=-0.01, high=0.01)
    assert undecided(some_results([], [few], metric)) == 0
    assert undecided(some_results([], [replace(few, mean=0.0045)], metric)) == 1
    assert undecided(some_results([], [few], replace(metric, resolution=0.001))) == 1
    assert undecided(some_results([], [replace(few, verdict="worse")], replace(metric, resolution=0.001))) == 0
    # Without an interval nothing is known of it yet.
    assert undecided(some_results([], [replace(few, low=None, high=None)], metric)) == 1


def test_all_runs_count_and_those_that_are_there_once_are_counted_once():
    runs = [ran(strategy, nodes, seed, 10.0) for strategy, nodes in (("single", 1), ("batch", 2)) for seed in range(4)]
    once = [replace(ran("local", 8, 0, 70.0), virtual=True)]
    gone = [
        replace(ran("local", 2, 0, 4.0), diverged="the loss is nan"),
        DivergedRun(
            key="b", name="b", config_hash="c", diverged="the loss is nan", nodes=2, virtual=False, seed=2
        ),
    ]  # fmt: skip
    fields = {"runs": runs, "virtual": once, "diverged": gone, "references": [ran("single", 1, 99, 30.0)]}
    assert in_time(results_of(seeds=4, **fields), 12) == pytest.approx((80 + 4) / 4 * 12 + 100)
    assert in_time(results_of(), 12) == 0


def test_a_search_tries_each_strategy_once_that_learns_the_same_on_any_number_of_nodes():
    """Was: eight tries for each run of the first seed, 192 where the search has 80. As `plan` has it: `batch` takes the
    values of `single` with the same keys, and virtual nodes are tuned once."""
    keys = {"batch_size": 128}
    rows = [("single", 1, False, {}), ("single", 1, False, keys), ("batch", 2, False, {}), ("batch", 4, False, {}),
            ("batch", 2, False, {**keys, "collective": "ring"}), ("epoch", 2, False, {}), ("epoch", 4, False, {}),
            ("epoch", 16, True, {})]  # fmt: skip
    table = [
        replace(row(f"{name}, {more}" if more else name, nodes, 1.0, 0.9), strategy=name, virtual=virtual,
                settings={"strategy": name, "nodes": {"virtual": nodes} if virtual else nodes, **more})
        for name, nodes, virtual, more in rows
    ]  # fmt: skip
    runs = [replace(ran(one.name, one.nodes, seed, 10.0), virtual=one.virtual) for one in table for seed in range(3)]
    real, virtual = ([run for run in runs if run.virtual == which] for which in (False, True))
    results = some_results(table, [], metric_of(), runs=real, virtual=virtual, seeds=[0, 1, 2])
    assert in_search(results, 8) == 8 * 10.0 * len(["single", "single, 128", "epoch 2", "epoch 4", "epoch 16"])
    assert in_search(replace(results, runs=[], virtual=[]), 8) == 0


def test_the_rows_that_may_be_recommended_share_the_chance() -> None:
    """So more seeds are needed with more rows; the number of differences does not matter."""
    near = replace(TIME, times=1.02, seeds=8, of=8)
    error = math.log(1.37 / 0.9) / 2 / special.stdtrit(7, 0.975)
    some = results_of([], [near])
    more = replace(some, table=[*some.table, row("epoch", 2, 9.0, 0.97), row("local", 2, 9.0, 0.97)])
    wanted = [seeds_to_decide(Errors(error, 0.0, 8, parts), math.log(1.02), 1000) for parts in (0.5, 1.5)]
    assert [asked(results, "speed")[0] for results in (some, more)] == wanted and wanted[0] < wanted[1]
    assert asked(results_of([], [near, replace(near, what=IN_ALL)]), "speed")[0] == wanted[0]


@pytest.mark.parametrize(("number", "is_pooled"), [(0, True), (1, False)])
def test_the_error_of_a_time_is_its_own_also_where_the_interval_is_of_several_strategies(number, is_pooled):
    """A pooled interval has more degrees of freedom than its own seeds: to divide by their t tells too few seeds."""
    recipe = {"number": number, "higher": True, "resolution": None, "seeds": 5, "spread": 3e-3, "wobble": 0.3}
    metric, runs, references = made_up(**recipe, by_row=None, troubled=0.0, moved=0.0, earlier=0.0)
    times = analyse(runs, references, metric, 0.003).times
    times = [time for time in times if (time.what, time.against) == (IN_ALL, "single")]
    took = {(one.name, one.nodes, one.seed): one.history[-1].seconds for one in runs}
    assert times
    for time in times:
        whose = ((time.name, time.nodes), (time.against, 1))
        own, other = ([took[strategy, nodes, seed] for seed in range(1, 6)] for strategy, nodes in whose)
        found = stdev(map(math.log, map(truediv, own, other))) / math.sqrt(5)
        assert time.pooled == is_pooled and math.isclose(time.error, found) != is_pooled
        reach = math.log(time.high / time.low) / 2
        assert (reach < 0.99 * special.stdtrit(4, 0.975) * time.error) == is_pooled
        one = replace(time, name="batch", nodes=2, verdict="undecided", times=1.1)
        others = [replace(one, name="epoch")] * (len(times) - 1)
        told = [asked(results_of([], [some, *others], seeds=5), "speed")[0] for some in (one, replace(one, error=None))]
        assert told[0] == seeds_to_decide(Errors(time.error, 0.0, 5, 0.5), math.log(1.1), 1000)
        assert (told[0] > told[1]) == is_pooled


@pytest.mark.parametrize(
    ("gain", "gap"), [(-0.005, 0.005), (-0.001, 0.002), (0.0, 0.003), (0.002, 0.001), (0.003, 0.0), (0.005, 0.002)]
)
def test_another_row_on_one_node_is_beaten_by_more_than_the_margin_or_as_good(gain, gap):
    """Was: as many seeds as rule out that the row is worse by the margin, which decides nothing there."""
    metric, error = metric_of(resolution=None), 0.001
    one = replace(pair("batch", "single, batch_size = 64", "undecided", gain), low=-1.0, high=1.0, error=error, of=8)
    one = replace(one, against_nodes=1, seeds=8)
    assert asked(results_of([one], metric=metric), "quality")[0] == seeds_to_decide(Errors(error, 0.0, 8, 1), gap, 1000)


def test_more_seeds_are_run_for_a_decided_answer_only_if_they_could_change_it():
    """Was: five seeds recommended a row, and 20 were run because two bad rows were undecided."""
    unsure = [replace(UNSURE, name=name, error=0.002) for name in ("epoch", "local")]
    results = some_results([], unsure, metric_of())
    question = Question(name="local", nodes=2, against="single", about="quality", seeds=9)
    for decision, asked, wanted in (
        ("use", [], 0), ("stay", [replace(question, seeds=None)], 0), ("use", [question], 1), ("undecided", [], 2)
    ):  # fmt: skip
        answer = Answer(decision=decision, open=asked)
        assert undecided(replace(results, answer=answer)) == wanted


def test_a_control_that_misses_the_target_is_compared_in_all_passes():
    """In all it may be the quicker one: then only what is learnt can bring the strategy ahead of it."""
    control = row("local", 1, 5.0, 0.97, reached=4)
    strategy = replace(row("local", 2, 6.0, 0.97, 1e7), controls=["local"])
    beside = replace(pair("local", "local", "no difference"), against_nodes=1)
    alone = replace(pair("local", "single", "no difference"), against_nodes=1)
    for verdict, about in (("slower", "quality"), ("undecided", "speed")):
        other = replace(speed(strategy, 5.0, IN_ALL, verdict), against="local", low=0.75, high=0.92)
        times = [speed(strategy, 20.0, TO_TARGET), other]
        found = answered([SINGLE, control, strategy], [alone, beside], times=times)
        assert [(one.name, one.against, one.about) for one in found.open] == [("local", "local", about)]
