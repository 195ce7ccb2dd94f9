"""The answer as data, from tables made by hand."""

import math
from dataclasses import replace

import pytest

from sparksplit.comparison.answer.content import Answer, Next, Note
from sparksplit.comparison.answer.decide import answer
from sparksplit.comparison.content import DataFacts
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Interval, Pair, TimePair, ToTarget
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
    """A difference that is enough to recommend the strategy if its verdict says so."""
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
        enough=verdict in (("better", "no difference", "not worse") if against == "single" else ("better",)),
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
        enough=known == "faster",
    )


def answered(table, pairs, seeds=5, name="accuracy", split="test", nodes=(1, 2), sure=None, margin=0.003, **fields):
    """The answer. sure: what is decided about all times, instead of what they are."""
    metric = metric_of(name, margin, split)
    base = next((one for one in table if (one.name, one.nodes) == ("single", 1) and one.runs), None)
    others = [one for one in table if base is not None and one is not base and one.seconds is not None]
    times = [speed(one, base.seconds, goal, sure) for one in others for goal in (TO_TARGET, IN_ALL)]
    given = {"times": times, "seeds": list(range(seeds)), "nodes": list(nodes), **fields}
    return answer(some_results(table, pairs, metric, **given))


def ran(strategy, nodes, seed, seconds):
    return compared_run(
        key=f"{strategy}{seed}", name=strategy, nodes=nodes, seed=seed, seconds=run_seconds(seconds, 0.0)
    )


CONFIG = {"strategies": ["single", "batch"]}


def chosen(found):
    return None if found.choice is None else (found.choice.name, found.choice.nodes)


def kinds(found):
    return [note.kind for note in found.notes]


SINGLE = row("single", 1, 10.0, 0.97)
LARGE = "single, batch_size = 64, learning_rate = 0.2"
AS_GOOD = pair("batch", "single", "no difference")


def test_the_fastest_that_is_as_good_is_used():
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9), row("epoch", 2, 4.0, 0.95, 5e8)]
    pairs = [AS_GOOD, pair("epoch", "single", "worse"), pair("epoch", "batch", "worse", -0.02)]
    found = answered(table, pairs)
    assert (found.decision, found.choice, found.runners_up) == ("use", table[1], [SINGLE])
    assert found.gain.quality == AS_GOOD
    assert (found.gain.speed.what, found.gain.speed.times) == (TO_TARGET, pytest.approx(10 / 6))
    assert found.open == [] and found.next is None


@pytest.mark.parametrize("verdict", ["no difference", "not worse", "better"])
def test_what_is_faster_and_not_worse_is_enough(verdict):
    found = answered([SINGLE, row("batch", 2, 6.0, 0.97)], [pair("batch", "single", verdict)])
    assert (found.decision, found.gain.quality.verdict) == ("use", verdict)


def test_one_node_stays_where_none_is_faster():
    found = answered([SINGLE, row("batch", 2, 12.0, 0.97, 1e9)], [pair("batch", "single", "better")])
    assert (found.decision, chosen(found), found.gain) == ("stay", ("single", 1), None)


def test_one_node_stays_with_the_keys_that_are_decided_to_be_faster_there():
    other = row(LARGE, 1, 5.0, 0.97)
    pairs = [replace(pair(LARGE, "single", "no difference"), nodes=1), pair("batch", "single", "worse")]
    found = answered([SINGLE, other, row("batch", 2, 4.0, 0.9)], pairs)
    assert (found.decision, chosen(found), found.gain.speed.times) == ("stay", (LARGE, 1), 2.0)


@pytest.mark.parametrize(("verdict", "decision"), [("undecided", "undecided"), ("worse", "stay")])
def test_what_is_faster_and_not_as_good_is_no_advice(verdict, decision):
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9), row("local", 2, 4.0, 0.96, 1e7)]
    found = answered(table, [AS_GOOD, pair("local", "single", verdict), pair("local", "batch", verdict)])
    assert (found.decision, chosen(found)) == (decision, ("single", 1))
    assert [(one.name, one.about) for one in found.open] == ([("local", "quality")] if verdict == "undecided" else [])


def test_what_is_only_measured_to_be_faster_is_the_fastest_so_far():
    table = [SINGLE, row("batch", 2, 9.9, 0.97, 1e9)]
    found = answered(table, [AS_GOOD], sure="undecided")
    assert (found.decision, chosen(found)) == ("undecided", ("batch", 2))
    assert [(one.about, one.against) for one in found.open] == [("speed", "single")]
    # Its mean is over other seeds than those of both, where some were measured elsewhere.
    assert answered(table, [AS_GOOD], sure="slower").decision == "stay"
    # Seed by seed it is faster, and not by what the table shows.
    slow = [SINGLE, row("batch", 2, 10.1, 0.97, 1e9)]
    found = answered(slow, [AS_GOOD], sure="faster")
    assert (found.decision, [(one.seeds, one.rows) for one in found.open]) == ("undecided", [(None, None)])


def test_one_seed_decides_nothing_and_five_are_next():
    """Each seed takes 30 and 20 s."""
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9)]
    known = replace(pair("batch", "single", "undecided"), low=None, high=None, seeds=1, of=1)
    slow = replace(speed(table[1], 20.0, TO_TARGET, "undecided"), low=None, high=None, seeds=1, of=1)
    fields = {"times": [slow], "runs": [ran("single", 1, 1, 30.0), ran("batch", 2, 1, 20.0)]}
    found = answered(table, [known], seeds=1, **fields)
    assert (found.decision, chosen(found)) == ("undecided", ("single", 1))
    assert found.next == Next(settings={"seeds": 5}, seeds=[5], seconds=[200.0])
    assert {one.seeds for one in found.open} == {None} and kinds(found)[0] == "one seed"
    more = answered(table, [known], seeds=1, config={**CONFIG, "max_seeds": 1}, **fields)
    assert more.next.settings == {"seeds": 5, "max_seeds": 5}
    # Fewer than are configured are refused. With `max_seeds` alone, it stops with 2 seeds or 4.
    more = answered(table, [known], seeds=1, config={**CONFIG, "max_seeds": 8}, looks=[1, 2, 4, 8], **fields)
    assert more.next == Next(settings={"seeds": 5, "max_seeds": 8}, seeds=[5, 8], seconds=[200.0, 350.0])


@pytest.mark.parametrize(("low", "planned"), [(0.97, [5]), (0.9, [5]), (0.9, [5, 10, 20])])
def test_further_seeds_are_a_look_to_come_that_is_large_enough(low, planned):
    """10 s a seed. The last look may spend half of the 5 %."""
    table, seeds = [SINGLE, row("batch", 2, 9.0, 0.97, 1e9)], planned[-1]
    error = math.log(1.25 / low) / 2 / 2.776  # by Student's t with four degrees of freedom
    unsure = replace(speed(table[1], 10.0, TO_TARGET, "undecided"), low=low, high=1.25, error=error)
    times = [replace(unsure, what=goal) for goal in (TO_TARGET, IN_ALL)]
    runs = [ran("single", 1, seed, 10.0) for seed in range(seeds)]
    found = answered(table, [AS_GOOD], times=times, runs=runs, looks=planned, seeds=seeds)
    (question,) = found.open
    most = found.next.settings["max_seeds"]
    assert question.seeds > seeds and question.seconds == pytest.approx(10.0 * question.seeds)
    assert most >= 1.3 * question.seeds and (most / 2 < 1.3 * question.seeds or most == 2 * seeds)
    assert found.next.seeds == [look for look in (10, 20, 40, 80, 160) if seeds < look <= most]
    assert found.next.seconds == pytest.approx([10.0 * (look - seeds) for look in found.next.seeds])


def test_the_next_command_is_sized_by_the_row_that_it_is_said_to_decide():
    """Was: for `epoch`, 48 days of runs for a question about `local`."""
    table = [SINGLE, row("batch", 2, 6.0, 0.97), row("epoch", 2, 4.0, 0.97), row("local", 2, 5.0, 0.97)]
    unsure = [replace(pair(name, "single", "undecided", 0.0), error=error)
              for name, error in (("epoch", 0.0015), ("local", 0.01))]  # fmt: skip
    runs = [ran("single", 1, seed, 10.0) for seed in range(5)]
    found = answered(table, [AS_GOOD, *unsure], runs=runs, looks=[5])
    assert (found.decision, [one.name for one in found.open]) == ("use", ["epoch", "local"])
    assert found.open[0].seeds < 10 and found.open[1].seeds > 100
    assert found.next == Next(settings={"max_seeds": 20}, seeds=[10, 20], seconds=[50.0, 150.0])


def test_what_more_seeds_would_decide_is_asked_before_what_they_would_not():
    """Was: "It is not known what would decide it. Next, to decide it: ..."."""
    table = [SINGLE, row("local", 2, 9.99, 0.97)]
    time = replace(speed(table[1], 10.0, TO_TARGET, "undecided"), times=1.001, error=0.5)
    unsure = replace(pair("local", "single", "undecided", 0.0), error=0.0015)
    runs = [ran("single", 1, seed, 10.0) for seed in range(5)]
    found = answered(table, [unsure], times=[time], runs=runs, looks=[5])
    assert [(one.about, one.seeds, one.more_than) for one in found.open] == [
        ("quality", 6, None), ("speed", None, 1000)
    ]  # fmt: skip
    assert found.next.settings == {"max_seeds": 10}


def test_more_references_are_run_with_more_seeds():
    """One with one seed, three with three and more."""
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9)]
    fields = {"runs": [ran("single", 1, 1, 20.0)], "references": [ran("single", 1, 1_000_001, 7.0)]}
    assert answered(table, [], seeds=1, **fields).next.seconds == [4 * 20.0 + 2 * 7.0]


def test_each_finished_comparison_of_several_seeds_adds_to_the_chance_of_being_wrong():
    for earlier, wrong in (([], 5), ([1], 5), ([5], 10), ([1, 5, 10], 15)):
        assert some_results([SINGLE], [], metric_of(), earlier=earlier).wrong_of_100 == wrong


def test_what_learns_better_is_noted_where_the_choice_does_not():
    table = [SINGLE, row("batch", 2, 6.0, 0.97), row("epoch", 2, 11.0, 0.98), row("local", 2, 12.0, 0.99)]
    better = [replace(pair(name, "single", "better"), mean=mean) for name, mean in (("epoch", 0.01), ("local", 0.02))]
    found = answered(table, [AS_GOOD, *better])
    assert (found.decision, chosen(found)) == ("use", ("batch", 2))
    notes = [note for note in found.notes if note.kind == "learns better"]
    assert notes == [Note(kind="learns better", name="local", nodes=2, number=0.02)]
    for choice in (row("local", 2, 6.0, 0.99), row("batch", 2, 6.0, 0.995)):
        pairs = [replace(AS_GOOD, mean=0.025), *better]
        own = answered([SINGLE, choice, table[2]], [one for one in pairs if one.name in (choice.name, "epoch")])
        assert "learns better" not in kinds(own) and chosen(own) == (choice.name, 2)


def test_a_target_that_not_every_run_reaches_is_not_reached():
    found = answered([SINGLE, row("batch", 2, 5.0, 0.97, reached=4)], [])
    assert (found.decision, chosen(found), found.notes[0]) == (
        "undecided", ("single", 1), Note(kind="unmet", name="batch", nodes=2, number=1, of=5)
    )  # fmt: skip
    assert [(one.name, one.seeds) for one in found.open] == [("batch", None)]


def test_a_row_that_never_reaches_the_target_and_takes_longer_in_all_is_ruled_out():
    """Was a "No winner" for ever. It reaches the target even later, and `single` no later than at its end."""
    slow = row("epoch", 2, 15.0, 0.97, reached=0)
    longer = replace(speed(slow, SINGLE.seconds, IN_ALL), times=0.7, verdict="slower", enough=False)
    found = answered([SINGLE, slow], [], times=[longer])
    assert (found.decision, chosen(found), kinds(found)) == ("stay", ("single", 1), ["unmet"])
    # In one run it reaches the target, perhaps earlier than `single`.
    once = replace(slow, to_target=replace(slow.to_target, reached=1))
    for other, times in ((once, [longer]), (slow, [replace(longer, verdict="undecided")])):
        assert answered([SINGLE, other], [], times=times).decision == "undecided"
    # Where `single` misses it too, the seconds in all count anyway. Where a control does, it rules nothing out.
    own = row(LARGE, 1, 5.0, 0.97, reached=3)
    beside = replace(longer, against=LARGE)
    pairs = [pair(LARGE, "single", "no difference", nodes=1), pair("epoch", LARGE, "worse")]
    other = replace(slow, controls=[LARGE])
    assert answered([SINGLE, own, other], pairs, times=[beside]).decision == "undecided"


def test_a_target_that_one_node_misses_is_no_measure():
    table = [row("single", 1, 10.0, 0.97, reached=4), row("batch", 2, 6.0, 0.97, reached=3)]
    found = answered(table, [AS_GOOD])
    assert (found.decision, found.gain.speed.what, found.gain.speed.times) == ("use", IN_ALL, 10.0 / 6.0)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ([SINGLE], "no other"),
        ([SINGLE, replace(row("local", 8, 6.0, 0.97), virtual=True)], "no other"),
        ([row("single, batch_size = 16", 1, 6.0, 0.97), row("batch", 2, 6.0, 0.97)], "no single"),
        ([row("batch", 2, 6.0, 0.97), row("batch", 4, 6.0, 0.97)], "no single"),
    ],
)
def test_one_row_is_no_comparison(table, kind):
    assert answered(table, []) == Answer(decision="nothing to compare", notes=[Note(kind=kind)])


@pytest.mark.parametrize(
    ("learnt", "sure", "decision", "choice", "asked"),
    [
        ("no difference", None, "stay", LARGE, []),
        ("worse", None, "stay", "single", []),
        ("no difference", "slower", "stay", "single", []),
        ("no difference", "undecided", "undecided", LARGE, ["speed"]),
        ("undecided", None, "undecided", LARGE, ["quality"]),
    ],
)
def test_rows_on_one_node_alone_are_a_comparison_too(learnt, sure, decision, choice, asked):
    """As `diagnose` proposes it for one node: the configuration, and the same with a larger mini-batch."""
    found = answered(
        [SINGLE, row(LARGE, 1, 5.0, 0.97)], [replace(pair(LARGE, "single", learnt), nodes=1)], nodes=(1,), sure=sure
    )
    assert (found.decision, chosen(found)) == (decision, (choice, 1))
    assert [one.about for one in found.open] == asked
    assert (found.until and found.until.name) == ("single" if decision == "undecided" else None)


def test_one_seed_on_one_node_alone_decides_nothing():
    found = answered([SINGLE, row(LARGE, 1, 5.0, 0.97)], [], seeds=1, nodes=(1,), sure="undecided")
    assert (found.decision, found.next.settings) == ("undecided", {"seeds": 5})


def test_the_slow_network_is_compared_with_batch_on_as_many_nodes():
    """On 4 nodes `batch` sends 1.5 GB, on 2 nodes 1.0 GB."""
    local = row("local", 4, 3.0, 0.97, 1.5e8)
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1.0e9), row("batch", 4, 4.0, 0.97, 1.5e9), local]
    pairs = [pair("local", name, "no difference", nodes=4) for name in ("batch", "single")]
    (note,) = (note for note in answered(table, pairs).notes if note.kind == "slow network")
    assert (note.name, note.nodes, note.number) == ("local", 4, pytest.approx(10))
    # Where it does not learn as well, sends as much, or has no `batch` beside it, there is nothing to say.
    for other in (
        answered(table, [pair("local", "batch", "worse", nodes=4)]),
        answered([*table[:3], replace(local, bytes_per_node=1.499e9)], pairs),
        answered([SINGLE, table[1], local], pairs),
    ):
        assert "slow network" not in kinds(other)


def test_a_strategy_that_diverges_is_not_recommended_and_the_answer_says_how_often():
    """`local` is 8 times as fast, and better, with the 2 seeds of 5 that are left of it."""
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9), row("local", 2, 1.25, 0.98, 1e7, diverged=3)]
    pairs = [AS_GOOD, *(pair("local", name, "better", 0.01, seeds=2) for name in ("single", "batch"))]
    found = answered(table, pairs)
    assert (found.decision, chosen(found)) == ("use", ("batch", 2))
    assert "local" not in {option.name for option in found.runners_up}
    assert found.notes[0] == Note(kind="diverged", name="local", nodes=2, number=3, of=5)
    # Nor does it stay: nobody has decided against the runs that did not diverge.
    alone = answered([SINGLE, table[2]], pairs[1:2])
    assert (alone.decision, [(one.name, one.seeds) for one in alone.open]) == ("undecided", [("local", None)])
    assert alone.until == SINGLE


@pytest.mark.parametrize(("diverged", "seeds"), [(2, 5), (5, 5), (1, 1)])
def test_where_single_diverged_neither_staying_nor_more_seeds_are_advice(diverged, seeds):
    single = row("single", 1, 10.0, 0.97, diverged=diverged)
    found = answered([single, row("batch", 2, 60.0, 0.97, 1e9)], [], sure="slower", seeds=seeds)
    assert (found.decision, found.until, found.open, found.next) == ("undecided", None, [], None)
    assert Note(kind="diverged", name="single", nodes=1, number=diverged, of=5) in found.notes


def test_what_wins_although_single_diverged_is_used():
    pairs = [pair("batch", "single", "no difference", seeds=3)]
    found = answered([row("single", 1, 10.0, 0.97, diverged=2), row("batch", 2, 6.0, 0.97, 1e9)], pairs)
    assert (found.decision, found.gain.quality.seeds, found.next) == ("use", 3, None)
    assert kinds(found)[0] == "diverged"


def test_the_fastest_so_far_is_on_one_node_where_that_is_as_fast():
    """As quickstart had it: `local` on two nodes was named, because the other row was the control of `epoch` alone."""
    local = replace(row("local", 2, 6.81, 0.97, 1e7), controls=[LARGE])
    table = [row("single", 1, 7.64, 0.97), row(LARGE, 1, 6.23, 0.97), local]
    pairs = [pair(name, against, "undecided") for name, against in (("local", "single"), ("local", LARGE))]
    pairs.append(replace(pair(LARGE, "single", "undecided"), nodes=1))
    found = answered(table, pairs, sure="undecided")
    assert (found.decision, chosen(found)) == ("undecided", (LARGE, 1))
    assert [option.name for option in found.runners_up] == ["single"]
    # What it learns is worse than the margin allows, or its time is as long: then it does not stand in the way.
    for other in (row(LARGE, 1, 6.23, 0.966), row(LARGE, 1, 6.82, 0.97)):
        assert chosen(answered([table[0], other, local], pairs, sure="undecided")) == ("local", 2)


@pytest.mark.parametrize(
    ("seconds", "verdict", "decision"),
    [
        (8.0, "faster", "use"),
        (8.0, "undecided", "undecided"),
        (4.0, "faster", "undecided"),  # seed by seed, and not by what the table shows
        (4.0, "slower", "stay"),
    ],
)
def test_several_nodes_are_used_only_if_decided_to_be_ahead_of_all_on_one(seconds, verdict, decision):
    local = replace(row("local", 2, 5.0, 0.97, 1e7), controls=[LARGE])
    large = row(LARGE, 1, seconds, 0.97)
    pairs = [pair("local", name, "no difference") for name in ("single", LARGE)]
    pairs.append(pair(LARGE, "single", "no difference", nodes=1))
    beside = replace(speed(local, 2 * seconds, TO_TARGET, verdict), against=LARGE)
    times = [*(speed(one, SINGLE.seconds, TO_TARGET) for one in (local, large)), beside]
    found = answered([SINGLE, large, local], pairs, times=times)
    assert found.decision == decision
    assert [one.against for one in found.open if one.name == "local"] == ([LARGE] if decision == "undecided" else [])


def test_a_row_that_one_on_one_node_rules_out_is_not_used():
    """Was: "Use 2 nodes with local: 1.25 times", which learns a little better than a row that is twice as fast."""
    large, local = row(LARGE, 1, 4.0, 0.97), replace(row("local", 2, 8.0, 0.97), controls=[LARGE])
    pairs = [pair("local", "single", "no difference"), pair(LARGE, "single", "no difference", nodes=1)]
    times = [speed(large, SINGLE.seconds, TO_TARGET), speed(local, SINGLE.seconds, TO_TARGET)]
    times.append(replace(speed(local, large.seconds, TO_TARGET), against=LARGE))
    for verdict, choice in (("no difference", (LARGE, 1)), ("better", ("local", 2))):
        found = answered([SINGLE, large, local], [*pairs, pair("local", LARGE, verdict)], times=times)
        assert chosen(found) == choice
        # The quicker row may be used too, and is named first. Was the last, which no line shows.
        assert found.runners_up == [local if choice[1] == 1 else large, SINGLE]


def test_a_row_on_one_node_that_is_decided_against_rules_nothing_out():
    """Was: "Stay", although `local` is shown to be faster without learning worse. By the means, it hid it too."""
    large, local = row(LARGE, 1, 4.0, 0.968), replace(row("local", 2, 6.0, 0.97), controls=[LARGE])
    pairs = [pair("local", name, "no difference") for name in ("single", LARGE)]
    pairs.append(pair(LARGE, "single", "worse", nodes=1))
    times = [speed(large, SINGLE.seconds, TO_TARGET), speed(local, SINGLE.seconds, TO_TARGET)]
    times.append(replace(speed(local, large.seconds, TO_TARGET), against=LARGE))
    found = answered([SINGLE, large, local], pairs, times=times)
    assert (found.decision, chosen(found), found.until) == ("undecided", ("local", 2), SINGLE)
    assert [(one.against, one.about) for one in found.open] == [(LARGE, "quality")]


def test_single_is_no_advice_where_a_row_beats_it_that_an_undecided_row_rules_out():
    """Was: "Stay on 1 node as configured", with `local` decided to be faster and as good."""
    large, local = row(LARGE, 1, 4.0, 0.968), replace(row("local", 2, 6.0, 0.97), controls=[LARGE])
    pairs = [pair("local", name, "no difference") for name in ("single", LARGE)]
    pairs.append(pair(LARGE, "single", "undecided", nodes=1))
    times = [speed(large, SINGLE.seconds, TO_TARGET), speed(local, SINGLE.seconds, TO_TARGET)]
    times.append(replace(speed(local, large.seconds, TO_TARGET), against=LARGE))
    found = answered([SINGLE, large, local], pairs, times=times)
    assert (found.decision, chosen(found), found.until) == ("undecided", (LARGE, 1), SINGLE)
    assert [(one.name, one.against, one.about) for one in found.open] == [(LARGE, "single", "quality")]


def test_a_slower_winner_on_one_node_is_no_advice_where_a_row_beats_it_that_an_undecided_row_rules_out():
    """Was: "Use 1 node with batch_size 32", with `local` decided to be faster than that, and as good as `single`."""
    large, slow = row(LARGE, 1, 4.0, 0.968), row("single, batch_size = 32", 1, 9.0, 0.97)
    local = replace(row("local", 2, 6.0, 0.97), controls=[LARGE, slow.name])
    pairs = [pair("local", name, "no difference") for name in ("single", LARGE)]
    pairs += [pair(LARGE, "single", "undecided", nodes=1), pair(slow.name, "single", "no difference", nodes=1)]
    times = [speed(one, SINGLE.seconds, TO_TARGET) for one in (large, slow, local)]
    times += [replace(speed(local, own.seconds, TO_TARGET), against=own.name) for own in (large, slow)]
    found = answered([SINGLE, large, slow, local], pairs, times=times)
    assert (found.decision, chosen(found), found.until) == ("undecided", (LARGE, 1), slow)
    assert [(one.name, one.against, one.about) for one in found.open] == [(LARGE, "single", "quality")]
    # Nobody has decided that `local` is faster than the winner: then the winner is used.
    times[-1] = replace(times[-1], enough=False)
    assert chosen(answered([SINGLE, large, slow, local], pairs, times=times)) == (slow.name, 1)


@pytest.mark.parametrize("lacking", ["speed", "quality"])
def test_a_verdict_recommends_nothing(lacking):
    """Verdicts and recommendations share no chance of being wrong: either would add 5 of 100."""
    batch = row("batch", 2, 6.0, 0.97)
    quality = replace(AS_GOOD, enough=lacking != "quality")
    times = [replace(speed(batch, SINGLE.seconds, TO_TARGET), enough=lacking != "speed")]
    found = answered([SINGLE, batch], [quality], times=times)
    assert (found.decision, [one.about for one in found.open]) == ("undecided", [lacking])


def test_what_is_worse_and_yet_enough_is_used():
    """It is decided to be within the margin."""
    found = answered([SINGLE, row("batch", 2, 6.0, 0.97)], [replace(pair("batch", "single", "worse"), enough=True)])
    assert (found.decision, found.gain.quality.verdict) == ("use", "worse")


def test_a_row_on_one_node_that_is_decided_is_used_until_several_nodes_are():
    """Was: nothing said what to use until then."""
    large, unsure = row(LARGE, 1, 5.0, 0.97), row("batch", 2, 6.0, 0.97)
    pairs = [AS_GOOD, pair(LARGE, "single", "no difference", nodes=1)]
    times = [speed(large, SINGLE.seconds, TO_TARGET), speed(unsure, SINGLE.seconds, TO_TARGET, "undecided")]
    found = answered([SINGLE, large, unsure], pairs, times=times)
    assert (found.decision, found.until) == ("undecided", large)


def test_single_with_other_keys_is_no_baseline():
    """Its batch size is not the comparison's; it comes first."""
    other = row("single, batch_size = 16", 1, 100.0, 0.99)
    found = answered([other, SINGLE, row("batch", 2, 6.0, 0.97)], [AS_GOOD])
    assert found.decision == "use" and found.gain.speed.against == "single"
    assert found.runners_up[-1].name == "single"


@pytest.mark.parametrize(
    ("strategies", "untuned"),
    [(["single", "batch"], False), (["single", {"strategy": "batch", "collective": "ring"}], False),
     (["single", "epoch"], True), (["batch", {"strategy": "batch", "batch_size": 9}], True)],
)  # fmt: skip
def test_it_is_noted_that_nothing_was_tuned_where_a_rate_may_favour_a_strategy(strategies, untuned):
    table = [SINGLE, row("batch", 2, 6.0, 0.97)]
    runs = [ran(name, nodes, seed, 10.0) for name, nodes in (("single", 1), ("batch", 2)) for seed in range(5)]
    data = DataFacts("d", "e", {"train": 1000, "validation": 10})
    rate: dict[str, object] = {"strategies": strategies, "optimizer": {"learning_rate": 0.1}}
    found = answered(table, [AS_GOOD], config=rate, runs=runs, data=data)
    # Eight tries take as long as eight seeds, and are followed by the comparison.
    assert found.notes == ([Note(kind="untuned", number=260.0)] if untuned else [])
    # What `tune` would refuse is not advised.
    schedule = {**rate, "optimizer": {"learning_rate": {"name": "CosineDecay"}}}
    own = {**rate, "strategies": [*strategies, {"strategy": "epoch", "optimizer": schedule["optimizer"]}]}
    for facts in ({"config": schedule, "data": data}, {"config": rate}):
        assert answered(table, [AS_GOOD], runs=runs, **facts).notes == ([Note(kind="untuned")] if untuned else [])
    assert answered(table, [AS_GOOD], runs=runs, config=own, data=data).notes == [Note(kind="untuned")]


def test_it_is_noted_that_the_validation_rows_decide():
    assert kinds(answered([SINGLE, row("batch", 2, 6.0, 0.97)], [AS_GOOD], split="validation")) == ["no test rows"]


def test_it_is_noted_that_seeds_alone_are_counted_where_rows_depend_on_each_other():
    """The answer said `of 100 such answers at most 5 are wrong`, and not of which rows."""
    data = DataFacts("d", "e", {"train": 1000}, "windows")
    table = [SINGLE, row("batch", 2, 6.0, 0.97)]
    found = answered(table, [AS_GOOD], split="validation", data=data)
    assert found.notes == [Note(kind="seeds alone", key="windows"), Note(kind="no test rows")]
    # One seed has no interval.
    assert kinds(answered(table, [AS_GOOD], seeds=1, data=data)) == ["one seed"]


MOVED = replace(row("batch", 2, 6.0, 0.97), seconds=None, timed=0, to_target=ToTarget(None, 3.0, 5, 5))
"""A row of which no run was timed where most were."""
ONE_LOST = row("batch", 2, 6.0, 0.97, diverged=1)
ONE_MISSED = row("batch", 2, 6.0, 0.97, reached=4)


@pytest.mark.parametrize(
    ("incomplete", "kind"), [(MOVED, "other place"), (ONE_LOST, "diverged"), (ONE_MISSED, "unmet")]
)
def test_one_node_stays_only_if_every_row_on_several_nodes_is_decided_against(incomplete, kind):
    """Was: "Stay on 1 node: no strategy on several nodes is faster", of which none had been compared."""
    slow = row("epoch", 2, 12.0, 0.97)
    # Beside a row that is decided to be slower.
    for table in ([SINGLE, incomplete], [SINGLE, slow, incomplete]):
        times = [speed(slow, SINGLE.seconds, TO_TARGET)] if slow in table else []
        found = answered(table, [AS_GOOD], times=times)
        assert (found.decision, chosen(found)) == ("undecided", ("single", 1))
        assert [(one.name, one.about, one.seeds) for one in found.open] == [("batch", "faults", None)]
        assert (found.notes[0].kind, found.notes[0].name, found.until.name) == (kind, "batch", "single")
    # It learns worse, wherever it was timed.
    assert answered([SINGLE, incomplete], [pair("batch", "single", "worse")], times=[]).decision == "stay"
    # A row that is faster and as good is still used.
    won = row("local", 2, 5.0, 0.97)
    pairs, times = [AS_GOOD, pair("local", "single", "no difference")], [speed(won, SINGLE.seconds, TO_TARGET)]
    assert answered([SINGLE, incomplete, won], pairs, times=times).decision == "use"
    # A row whose times leave it open is asked about first.
    unsure = [speed(won, SINGLE.seconds, TO_TARGET, "undecided")]
    assert [one.name for one in answered([SINGLE, incomplete, won], pairs, times=unsure).open] == ["local"]


def test_a_row_that_diverged_hides_no_winner_on_one_node():
    large = row("single, batch_size = 128", 1, 5.0, 0.97)
    found = answered([SINGLE, large, ONE_LOST], [pair(large.name, "single", "no difference", nodes=1)])
    assert (found.decision, chosen(found)) == ("stay", (large.name, 1))
    assert kinds(found) == ["diverged"]


def test_one_node_stays_where_the_strategy_on_several_always_diverged():
    found = answered([SINGLE, row("batch", 2, 6.0, 0.97, diverged=5)], [])
    assert (found.decision, chosen(found)) == ("stay", ("single", 1))
