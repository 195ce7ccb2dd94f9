"""What it would take to decide what is not: how many seeds in all, and how long their runs take."""

import math
import re
from dataclasses import replace
from operator import truediv
from statistics import stdev

import pytest
from scipy import special

from sparksplit.comparison.analysis.analyse import analyse
from sparksplit.comparison.analysis.verdicts import Errors, seeds_to_decide
from sparksplit.comparison.answer import answer
from sparksplit.comparison.certainty import certainty
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET
from sparksplit.comparison.needed import needs, to_decide
from sparksplit.comparison.numbers import Quantity, duration
from sparksplit.comparison.record import DivergedRun
from sparksplit.comparison.tuning.record import Tuning
from tests.comparison.records import metric_of, some_results
from tests.comparison.test_answer import SINGLE, answered, pair, ran, row, speed
from tests.comparison.truth.made_up import made_up

UNSURE = replace(pair("batch", "single", "undecided", 0.002), low=-0.003, high=0.007)
FAST = row("batch", 2, 9.0, 0.97, 1e9)
TIME = replace(speed(FAST, 10.0, TO_TARGET, "undecided"), times=10 / 9, low=0.9, high=1.37)


def results_of(pairs=(), times=(), seeds=8, metric=None, **fields):
    return some_results(
        [SINGLE, FAST], list(pairs), metric or metric_of(), times=list(times), seeds=list(range(seeds)), **fields
    )


def test_seeds_that_tell_nothing_of_both_are_run_all_the_same():
    """Three of eight seeds tell of both: whatever takes 12 of these takes 32 runs of each strategy."""
    unsure, time = replace(UNSURE, seeds=3, of=8), replace(TIME, seeds=3, of=8)
    error = 0.005 / special.stdtrit(2, 0.975)
    both = seeds_to_decide(Errors(error, 0.0, 3, 1), 0.005, 1000)
    results = results_of([unsure])
    assert needs(results, [unsure], []).seeds == [math.ceil(both * 8 / 3)]
    assert f"`seeds: {math.ceil(both * 8 / 3)}`" in certainty(results, Quantity("accuracy"))
    error = math.log(1.37 / 0.9) / 2 / special.stdtrit(2, 0.975)
    both = seeds_to_decide(Errors(error, 0.0, 3, 1), math.log(10 / 9), 1000)
    assert needs(results_of([], [time]), [], [time]).seeds == [math.ceil(both * 8 / 3)]
    # One more of both than there are is enough: more than the eight, and what is run begins anew.
    clear = replace(unsure, low=0.0019, high=0.0021)
    said = to_decide(results_of([clear], runs=[ran("single", 1, seed, 2.0) for seed in range(8)]), [clear], [])
    assert said == f"It would take about 11 seeds (`seeds: 11`), about {duration(22)} of runs in all."


def test_where_one_seed_tells_or_all_tell_the_same_it_says_so():
    alone = replace(UNSURE, low=None, high=None, seeds=1, of=8)
    lone = replace(TIME, low=None, high=None, seeds=1, of=8)
    said = "It would take more seeds with which both finish, and are timed where most runs were."
    for pairs, times in (([alone], []), ([], [lone]), ([None], []), ([], [None])):
        assert to_decide(results_of(), pairs, times) == said
    same, twin = replace(UNSURE, low=0.002, high=0.002), replace(TIME, low=1.1, high=1.1)
    results = results_of([same], [twin], metric=metric_of(resolution=None))
    for pairs, times in (([same], []), ([], [twin])):
        assert to_decide(results, pairs, times) == (
            "One difference is the same with every seed, which tells nothing about chance: no number of seeds decides "
            "it."
        )
    assert "2 differences are the same" in to_decide(results, [same], [twin])
    # By rows alone it is not 0 either, and without any chance between seeds it is never decided.
    assert needs(results, [replace(same, error=0.001, rows_error=0.001)], []).same == 1


def test_it_does_not_contradict_itself():
    rows = replace(UNSURE, mean=0.0, low=-0.03, high=0.03, error=0.015, rows_error=0.014)
    far = replace(TIME, low=0.1, high=10.0, times=1.001)
    said = to_decide(results_of([rows], [far]), [rows], [])
    assert said == "It would take more test rows, and perhaps more seeds."
    said = to_decide(results_of([rows], [far]), [rows], [far])
    assert said == (
        "It would take more test rows, and more than 1,000 seeds, so small is a difference beside how much it varies."
    )


def test_the_top_of_a_page_and_its_table_tell_the_same_seeds():
    """Was: about 12 seeds at the top, and below more than 1,000, which one other difference takes."""
    far = replace(pair("epoch", "single", "undecided", 0.0), mean=0.0029, low=-0.5, high=0.5058, error=None)
    results = results_of([UNSURE, far])
    assert needs(results, [UNSURE, far], []).seeds[1] is None
    top = to_decide(results, [UNSURE], [])
    number = re.search("about .* seeds [(]`seeds: [0-9]+`[)]", top).group()
    assert f"learn would take {number}, for 1 of 2 differences, and for the rest more than 1,000 seeds" in certainty(
        results, Quantity("accuracy")
    )


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
    seeds = needs(results_of([UNSURE], seeds=4), [UNSURE], []).seeds[0]
    whole = f"about {duration((80 + 4) / 4 * seeds + 100)} of runs in all"
    assert to_decide(results_of([UNSURE], seeds=4, **fields), [UNSURE], []).endswith(f"{whole}.")
    tuning = Tuning(
        metric="accuracy", tries=2, seeds=[1], strategies=[], runs=9, diverged=0, passes=9, node_seconds=1.0
    )  # fmt: skip
    tuned = to_decide(results_of([UNSURE], seeds=4, tuning=tuning, **fields), [UNSURE], [])
    assert tuned.endswith(f"{whole}, without those that tune.")


def test_both_kinds_of_times_are_judged():
    """So each has its part of the 5 %, and more seeds are needed than for one kind."""
    near = replace(TIME, times=1.02, seeds=8, of=8)
    one, both = ([near], [near, replace(near, what=IN_ALL)])
    assert needs(results_of([], one), [], [near]).seeds[0] < needs(results_of([], both), [], [near]).seeds[0]
    error = math.log(1.37 / 0.9) / 2 / special.stdtrit(7, 0.975)
    wanted = seeds_to_decide(Errors(error, 0.0, 8, 2), math.log(1.02), 1000)
    assert needs(results_of([], both), [], [near]).seeds == [wanted]
    unsure = replace(UNSURE, mean=-0.0005, low=-0.02, high=0.02, seeds=8, of=8)
    fewer, more = (needs(results_of([unsure], times), [unsure], []).seeds[0] for times in (one, both))
    assert fewer < more
    number = f"learn would take about {more} seeds (`seeds: {more}`)"
    assert number in certainty(results_of([unsure], both), Quantity("accuracy"))


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
        one = replace(time, verdict="undecided", times=1.1)
        results = results_of([], times, seeds=5)
        told = needs(results, [], [one]).seeds
        assert told == [seeds_to_decide(Errors(time.error, 0.0, 5, len(times)), math.log(1.1), 1000)]
        assert (told[0] > needs(results, [], [replace(one, error=None)]).seeds[0]) == is_pooled


def test_faster_seed_by_seed_and_slower_over_all_runs_is_not_decided():
    """There is no control that it could be behind."""
    slow = row("batch", 2, 12.0, 0.97, 1e9)
    known = replace(speed(slow, 10.0, TO_TARGET, "faster"), times=1.2, low=1.1, high=1.3, seeds=4)
    results = some_results(
        [SINGLE, slow], [pair("batch", "single", "no difference")], metric_of(), times=[known], seeds=list(range(5))
    )
    first = answer(results).text[0]
    assert first.startswith("Not decided yet: whether `batch` on 2 is faster than one node: it takes 12.0 s")
    assert "but against" not in first
    assert "It would take more seeds with which both finish, and are timed where most runs were." in first


def test_a_control_that_misses_the_target_is_compared_in_all_passes():
    """In all it may be the quicker one: then no number of seeds brings the strategy ahead of it."""
    control = row("local", 1, 5.0, 0.97, reached=4)
    strategy = replace(row("local", 2, 6.0, 0.97, 1e7), controls=["local"])
    beside = replace(pair("local", "local", "no difference"), against_nodes=1)
    alone = replace(pair("local", "single", "no difference"), against_nodes=1)
    for verdict, needed in (
        ("slower", "It would take a control that reaches the target in every run. Best guess"),
        ("undecided", "It would take about "),
    ):
        other = replace(speed(strategy, 5.0, IN_ALL, verdict), against="local", low=0.75, high=0.92)
        times = [speed(strategy, 20.0, TO_TARGET), other]
        results = some_results(
            [SINGLE, control, strategy], [alone, beside], metric_of(), times=times, seeds=list(range(5))
        )
        text = answer(results).text
        assert "whether `local` on 2 is ahead of what one node can do" in text[0] and needed in text[0]
        assert any("One node alone, by `local`, reached the target in 4 of 5 runs, and" in said for said in text)


def test_a_slow_network_asks_for_what_is_missing():
    """A strategy that is not there cannot diverge."""
    lone = answered([SINGLE, FAST], [])["text"]
    assert lone[-1].endswith("that takes `batch` and another strategy on as many nodes.")
    lost = answered([SINGLE, FAST, row("local", 2, 6.0, 0.97, 1e7, diverged=1)], [])["text"]
    assert lost[-2].endswith("that takes `batch` and another strategy on as many nodes, of which no run diverges.")
