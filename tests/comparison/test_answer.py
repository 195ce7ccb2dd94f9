"""The answer, from tables made by hand."""

import math
from dataclasses import asdict, replace

import pytest
from scipy import special

from sparksplit.comparison.analysis.frontier import frontier
from sparksplit.comparison.analysis.verdicts import Errors, seeds_to_decide
from sparksplit.comparison.answer import answer
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Interval, Pair, TimePair, ToTarget
from sparksplit.comparison.numbers import duration
from tests.comparison.records import compared_run, metric_of, run_seconds, some_results, table_row


def row(strategy, nodes, seconds, value, sent=0.0, reached=5, diverged=0):
    runs = 5 - diverged
    reached = min(reached, runs)
    if not runs:
        return table_row(name=strategy, nodes=nodes, runs=0, diverged=diverged)
    return table_row(
        name=strategy,
        nodes=nodes,
        runs=runs,
        diverged=diverged,
        seconds=2 * seconds,
        bytes_per_node=sent,
        metric=Interval(value, None, None),
        to_target=ToTarget(seconds if reached else None, 3.0, reached, 5),
    )


def pair(strategy, against, verdict, mean=0.001, nodes=2, seeds=5):
    return Pair(
        name=strategy,
        nodes=nodes,
        virtual=False,
        against=against,
        against_nodes=nodes,
        quantity="accuracy",
        seeds=seeds,
        of=5,
        mean=mean,
        low=mean - 0.001,
        high=mean + 0.001,
        pooled=False,
        verdict=verdict,
    )


def speed(one, alone, goal, verdict=None):
    """How a strategy's time compares with `single`'s."""
    times = alone / one.seconds
    known = verdict or ("faster" if times > 1 else "slower")
    return TimePair(
        name=one.name,
        nodes=one.nodes,
        against="single",
        against_nodes=1,
        what=goal,
        seeds=5,
        of=5,
        times=times,
        low=0.9 * times,
        high=1.1 * times,
        at_least=0.85 * times if known == "faster" else None,
        pooled=False,
        verdict=known,
    )


def answered(table, pairs, seeds=5, name="accuracy", split="test", nodes=(1, 2), sure=None, margin=0.003):
    """The `answer` of results.json. sure: what is decided about all times, instead of what they are."""
    metric = metric_of(name, margin, split)
    base = next((one for one in table if (one.name, one.nodes) == ("single", 1) and one.runs), None)
    others = [one for one in table if base is not None and one is not base and one.runs]
    times = [speed(one, base.seconds, goal, sure) for one in others for goal in (TO_TARGET, IN_ALL)]
    results = some_results(
        table, pairs, metric, times=times, frontier=frontier(table, pairs, times, metric),
        seeds=list(range(seeds)), nodes=list(nodes),
    )  # fmt: skip
    return asdict(answer(results))


def told(text, begin):
    """The sentence that begins so."""
    (found,) = (sentence for sentence in text if sentence.startswith(begin))
    return found


SINGLE = row("single", 1, 10.0, 0.97)


def test_the_fastest_that_is_as_good():
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9), row("epoch", 2, 4.0, 0.95, 5e8)]
    pairs = [
        pair("batch", "single", "no difference"),
        pair("epoch", "single", "worse"),
        pair("epoch", "batch", "worse", -0.02),
    ]
    first, few, second = answered(table, pairs)["text"]
    assert first.startswith("Split the work by `batch` on 2 nodes: it takes 6.00 s to the target, where one node takes")
    assert "(1.67 times as fast, 95 % interval 1.5 to 1.83, and at least 1.41 times)" in first
    assert few == (
        "Of what is decided, fastest is `batch` on 2 (6.00 s and 12.0 node-seconds to the target, accuracy 97.00 %); "
        "cheapest and best is `single` on 1 (10.0 s and 10.0 node-seconds to the target, accuracy 97.00 %)."
    )
    assert "same as `single`'s within the margin (+0.10 points" in first
    assert (
        second.startswith("On a slow network `epoch` sends 2 times fewer bytes than `batch`") and "is worse" in second
    )


def test_stay_on_one_node_where_none_is_faster():
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9)]
    first, few, second = answered(table, [pair("batch", "single", "better")])["text"]
    assert few.startswith("Of what is decided, fastest and cheapest is `single` on 1 (10.0 s and")
    assert "; best is `batch` on 2 (12.0 s and 24.0 node-seconds" in few
    assert first == (
        "Stay on one node: the fastest strategy on several, `batch` on 2, takes 12.0 s to the target, where one node "
        "takes 10.0 s."
    )
    assert "takes `batch` and another strategy" in second


def test_the_best_needs_no_time():
    """One of its runs missed the target; it learns better all the same."""
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9), row("local", 2, 4.0, 0.99, 1e7, reached=4)]
    few = answered(table, [pair("batch", "single", "no difference"), pair("local", "single", "better")])["text"][1]
    assert few.endswith("; best is `local` on 2 (reached the target in 4 of 5 runs, accuracy 99.00 %).")


@pytest.mark.parametrize(
    ("verdict", "begin", "words"),
    [
        (
            "undecided",
            "Not decided yet: whether `local` on 2 learns as well as one node: it takes 4.00 s",
            "is undecided",
        ),
        ("worse", "Stay on one node: `local` on 2 takes 4.00 s", "is worse than"),
    ],
)
def test_what_is_faster_and_not_as_good_is_no_advice(verdict, begin, words):
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9), row("local", 2, 4.0, 0.96, 1e7)]
    pairs = [
        pair("batch", "single", "no difference"),
        pair("local", "single", verdict),
        pair("local", "batch", verdict),
    ]
    first, few, second = answered(table, pairs)["text"]
    assert few.startswith(
        "Of the strategies that are decided to learn as well as `single`, none is decided to be faster, che"
    )
    assert first.startswith(begin) and words in first
    assert "sends 100 times fewer bytes than `batch`" in second and words in second


def test_what_is_only_measured_to_be_faster_is_no_advice():
    table = [SINGLE, row("batch", 2, 9.9, 0.97, 1e9)]
    text = answered(table, [pair("batch", "single", "no difference")], sure="undecided")["text"]
    assert text[0].startswith(
        "Not decided yet: whether `batch` on 2 is faster than one node: it takes 9.90 s to the target, where one node "
        "takes 10.0 s (1.01 times as fast, 95 % interval 0.909 to 1.11), and its acc"
    )
    assert text[0].endswith(
        "Best guess until then: `batch` on 2, by the means alone, which takes 9.90 s to the target."
    )
    assert "faster, cheaper or better. `single` takes 10.0 s and 10.0 node-seconds to the target" in text[1]
    # Its mean is over other seeds than those of both, where some were measured elsewhere.
    text = answered(table, [pair("batch", "single", "no difference")], sure="slower")["text"]
    assert text[0].startswith("Stay on one node: `batch` on 2 takes 9.90 s to the target, where one node takes 10.0 s")
    assert ", but seed by seed it is slower (1.01 times as fast" in text[0]


def ran(strategy, nodes, seed, seconds):
    return compared_run(
        key=f"{strategy}{seed}", name=strategy, nodes=nodes, seed=seed, seconds=run_seconds(seconds, 0.0)
    )


def test_one_seed_decides_nothing_and_the_answer_begins_with_that():
    """And with what it would take: five seeds, of which each takes 30 and 20 s."""
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9)]
    known = replace(pair("batch", "single", "undecided"), low=None, high=None, seeds=1, of=1)
    slow = replace(speed(table[1], 20.0, TO_TARGET, "undecided"), low=None, high=None, seeds=1, of=1)
    fields = {"seeds": [1], "runs": [ran("single", 1, 1, 30.0), ran("batch", 2, 1, 20.0)]}
    metric = metric_of()
    first = answer(some_results(table, [known], metric, times=[slow], frontier=[], **fields)).text[0]
    assert first == (
        "Not decided yet: whether `batch` on 2 is faster than one node: it takes 12.0 s to the target, where one node "
        "takes 10.0 s (0.833 times as fast), and whether its accuracy differs from `single`'s is undecided "
        "(+0.10 points). One seed tells nothing about chance: that takes more, such as `seeds: 5`, about 4.17 min of "
        "runs in all. Best guess until then: `single` on one node, which takes 10.0 s to the target."
    )


def test_what_is_undecided_says_how_many_seeds_it_would_take_and_how_long():
    """By hand, with one more difference than two: an error of 0.049 by five seeds against log(1.1) = 0.095."""
    one = row("batch", 2, 10.0 / 1.1, 0.97, 1e9)
    some = replace(speed(one, 20.0, TO_TARGET, "undecided"), low=1.1 * 0.873, high=1.1 / 0.873)
    runs = [ran(strategy, nodes, seed, 10.0) for strategy, nodes in (("single", 1), ("batch", 2)) for seed in range(5)]
    more = {"seeds": [1, 2, 3, 4, 5], "runs": runs, "times": [some], "frontier": []}
    said = answer(some_results([SINGLE, one], [pair("batch", "single", "no difference")], metric_of(), **more)).text[0]
    errors = Errors(math.log(1 / 0.873) / special.stdtrit(4, 0.975), 0.0, 5, 2)
    seeds = seeds_to_decide(errors, math.log(1.1), 1000)
    assert seeds > 5
    assert f"It would take about {seeds} seeds (`seeds: {seeds}`), about {duration(seeds * 20)} of runs in all." in said


def test_what_is_faster_and_not_worse_is_enough():
    """The seeds do not show that it is no better."""
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9)]
    first = answered(table, [pair("batch", "single", "not worse", 0.003)])["text"][0]
    assert first.startswith("Split the work by `batch`") and "is not worse than `single`'s by more than" in first


def test_two_nodes_that_are_three_times_as_fast_are_cheaper():
    table = [SINGLE, row("batch", 2, 3.0, 0.97, 1e9), row("local", 4, 2.9, 0.98, 1e7)]
    pairs = [pair("batch", "single", "no difference"), pair("local", "single", "better", 0.01, nodes=4)]
    few = told(answered(table, pairs)["text"], "Of what is decided")
    assert "fastest and best is `local` on 4 (2.90 s" in few and "cheapest is `batch` on 2 (3.00 s" in few


def test_a_target_that_not_every_run_reaches_is_not_reached():
    table = [SINGLE, row("batch", 2, 5.0, 0.97, reached=4)]
    assert answered(table, [])["text"][0] == (
        "Stay on one node: no strategy on several reached the target of 95.00 % accuracy in every run."
    )


def test_a_target_that_one_node_misses_is_no_measure():
    table = [row("single", 1, 10.0, 0.97, reached=4), row("batch", 2, 6.0, 0.97, reached=3)]
    first = answered(table, [pair("batch", "single", "no difference")])["text"][0]
    assert first.startswith("Split the work by `batch` on 2 nodes: it takes 12.0 s in all, where one node takes 20.0 s")


def test_how_sure_it_is():
    table = [SINGLE, row("batch", 2, 6.0, 0.97)]
    pairs = [pair("batch", "single", "no difference"), pair("epoch", "single", "undecided")]
    assert "2 of 3 differences are decided" in answered(table, pairs)["certainty"]
    assert "within 0.30 points" in answered(table, pairs)["certainty"]
    assert "One seed" in answered(table, pairs, seeds=1)["certainty"]


def test_it_says_how_many_seeds_would_decide_and_what_none_would():
    """The interval reaches 0.1 points to each side, as far as one row of a thousand does."""
    table, margin = [SINGLE, row("batch", 2, 6.0, 0.97)], 0.003
    small = pair("batch", "single", "undecided", 0.0)
    never = answered(table, [small], margin=0.0005)["certainty"]
    assert "More seeds alone would not decide 1 of the undecided differences" in never
    assert "learn would take" not in never
    # Its own interval is clear of 0; that of all together was not: more seeds than the 5 there are.
    far = pair("batch", "single", "undecided", -0.0035)
    certainty = answered(table, [far], margin=margin)["certainty"]
    assert "To decide how all strategies learn would take about 6 seeds" in certainty
    both = answered(table, [small, far], margin=0.0005)["certainty"]
    assert "would not decide 1 of the undecided" in both and "To decide how the others learn would take" in both
    same = replace(pair("batch", "single", "undecided", -0.0035), low=-0.0035, high=-0.0035)
    said = answered(table, [same], margin=margin)["certainty"]
    assert said.endswith(" 1 of the undecided is the same with every seed, which tells nothing about chance.")
    near = replace(pair("batch", "single", "undecided"), low=-1.0, high=1.0)
    assert "would take more than 1,000 seeds, so small" in answered(table, [near], margin=0.003)["certainty"]


def test_one_number_of_nodes_is_no_comparison():
    nothing = "Whether several nodes help was not compared: that takes `single` and a strategy on several. "
    assert answered([SINGLE], [], nodes=(1,))["text"][0] == nothing + "Add a number above 1 to `nodes`."
    # Two numbers were given, and are not what is missing.
    lone = answered([SINGLE], [], nodes=(1, 2))["text"][0]
    assert lone == nothing + "Add a strategy for several nodes to `strategies`."
    # Strategies of one node were compared with each other, and the answer goes on with them.
    small = row("single, batch_size = 16", 1, 6.0, 0.97)
    text = answered([SINGLE, small], [replace(pair(small.name, "single", "better"), nodes=1)], nodes=(1,))["text"]
    assert text[0] == nothing + "Add a number above 1 to `nodes`."
    assert text[1].startswith("Of what is decided, fastest and cheapest and best is `single, batch_size = 16` on 1")
    two, four = row("batch", 2, 6.0, 0.97, 1e9), row("batch", 4, 6.0, 0.97, 1e9)
    assert answered([two, four], [], nodes=(2, 4))["text"][0] == nothing + "Add 1 to `nodes`."


def test_the_slow_network_is_compared_with_batch_on_as_many_nodes():
    """On 4 nodes `batch` sends 1.5 GB, on 2 nodes 1.0 GB."""
    table = [
        SINGLE, row("batch", 2, 6.0, 0.97, 1.0e9), row("batch", 4, 4.0, 0.97, 1.5e9), row("local", 4, 3.0, 0.97, 1.5e8)
    ]  # fmt: skip
    pairs = [pair("local", "batch", "no difference", nodes=4), pair("local", "single", "no difference", nodes=4)]
    second = answered(table, pairs)["text"][2]
    assert second.startswith("On a slow network `local` sends 10 times fewer bytes than `batch` on 4 nodes, and its")
    assert "same as `batch`'s within the margin" in second


def test_without_batch_on_as_many_nodes_the_slow_network_is_not_compared():
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9), row("local", 4, 3.0, 0.97, 1.5e9)]
    assert "was not compared" in told(answered(table, [])["text"], "What a slow network")


def test_what_sends_more_than_batch_is_no_advice_for_a_slow_network():
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9), row("mine", 2, 3.0, 0.97, 1.5e9)]
    second = answered(table, [pair("mine", "batch", "better")])["text"][2]
    # Nor is one that sends only a hundredth less: "1 times fewer".
    as_many = [*table[:2], row("mine", 2, 3.0, 0.97, 0.999e9)]
    assert answered(as_many, [pair("mine", "batch", "better")])["text"][2] == second
    assert second == "On a slow network nothing is gained: no strategy sends fewer bytes than `batch` on as many nodes."


def test_a_strategy_that_diverges_is_not_recommended_and_the_answer_says_how_often():
    """`local` is 8 times as fast, and better, with the 2 seeds of 5 that are left of it."""
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9), row("local", 2, 1.25, 0.98, 1e7, diverged=3)]
    pairs = [
        pair("batch", "single", "no difference"),
        pair("local", "single", "better", 0.01, seeds=2),
        pair("local", "batch", "better", 0.01, seeds=2),
    ]
    found = answered(table, pairs)
    assert found["text"][0].startswith("Split the work by `batch` on 2 nodes")
    assert "`local`" not in " ".join(found["text"][:2])
    assert found["text"][3] == (
        "Not recommended, because the loss or the metric was no longer a number: `local` on 2 (3 of 5 seeds)."
    )
    assert found["certainty"].startswith("5 seeds for each strategy, the same for all, less 3 that diverged;")
    alone = answered([SINGLE, table[2]], pairs[1:2])["text"]
    assert alone[0] == "Stay on one node: every strategy on several nodes diverged in some of its runs."


def test_where_every_single_diverged_that_is_the_answer():
    table = [row("single", 1, 10.0, 0.97, diverged=5), row("batch", 2, 6.0, 0.97, 1e9, diverged=5)]
    text = answered([*table, row("local", 2, 4.0, 0.9, 1e7)], [])["text"]
    assert text[0].startswith("Every run of `single` diverged (5 of 5 seeds), so that no strategy can be compared")
    assert text[0].endswith("No run diverged of: `local` on 2.")
    assert "`single` on 1 (5 of 5 seeds), `batch` on 2 (5 of 5 seeds)" in text[2]
    assert answered(table, [])["text"][0].endswith("No strategy was safe.")


def test_where_some_of_single_diverged_staying_is_no_advice_and_pairs_say_their_seeds():
    single, pairs = row("single", 1, 10.0, 0.97, diverged=2), [pair("batch", "single", "no difference", seeds=3)]
    stay = answered([single, row("batch", 2, 60.0, 0.97, 1e9)], pairs)["text"][0]
    assert stay.startswith("Nothing is recommended, since `single` diverged, too (2 of 5 seeds): the fastest strategy")
    split = answered([single, row("batch", 2, 6.0, 0.97, 1e9)], pairs)["text"][0]
    assert split.startswith("Split the work by `batch`") and "over the 3 of 5 seeds that both finished" in split
    assert split.endswith("where `single` diverged with 2 of 5 seeds.")


def test_single_with_other_keys_is_no_baseline():
    """Its batch size is not the comparison's; it comes first."""
    other = row("single, batch_size = 16", 1, 100.0, 0.99)
    both = answered([other, SINGLE, row("batch", 2, 6.0, 0.97)], [pair("batch", "single", "no difference")])
    assert "where one node takes 10.0 s" in both["text"][0]
    text = answered([other, row("batch", 2, 6.0, 0.97)], [])["text"]
    assert text[0] == (
        "Whether several nodes help was not compared: that takes `single` and a strategy on several. On one node only "
        "`single, batch_size = 16` was run, with keys of its own: add `single` to `strategies`."
    )


def test_it_says_which_rows_decide():
    table, pairs = [SINGLE, row("batch", 2, 6.0, 0.97)], [pair("batch", "single", "no difference")]
    assert (
        "in accuracy of the test rows, and in the logarithm of time, are paired" in answered(table, pairs)["certainty"]
    )
    assert "reach at least 0.10 points, the least that can differ" in answered(table, pairs)["certainty"]
    certainty = answered(table, pairs, split="validation")["certainty"]
    assert "accuracy of the validation rows (there are no test rows; the target comes from them too)" in certainty


def test_a_strategy_whose_name_has_virtual_in_it_is_counted():
    table, mine = [SINGLE, row("virtual_vote", 2, 6.0, 0.97)], pair("virtual_vote", "single", "better")
    far = replace(pair("epoch", "single", "better"), virtual=True)
    assert "2 of 2 differences are decided" in answered(table, [mine, far])["certainty"]
