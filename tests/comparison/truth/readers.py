"""Reads each sentence of an answer back, and compares it with what the runs say."""

from __future__ import annotations

import re

from sparksplit.comparison.numbers import compact, duration, node_time
from sparksplit.comparison.record import DivergedRun
from tests.comparison.truth.made_up import TEST_ROWS

STRATEGY = r"`([^`]+)` on (\d+)"
QUALITY = re.compile(
    r"(?:its (?:accuracy|loss) is (?P<same>the same as|better than|worse than|not worse than)|whether its (?:accuracy|"
    r"loss) (?P<unsure>differs) from) `(?P<against>single|batch)`'s"
)
SAID = {
    "the same as": "no difference", "better than": "better", "worse than": "worse", "not worse than": "not worse",
    "differs": "undecided",
}  # fmt: skip


def check_quality(truth, group, sentence):
    if "there is nothing to compare its" in sentence:
        assert not any(key[:2] == group for key in truth.verdict if key[2] == "single" or "slow" in sentence)
        return
    found = QUALITY.search(sentence)
    pair = truth.verdict[(*group, found["against"])]
    assert SAID[found["same"] or found["unsure"]] == pair.verdict
    values = [
        {
            one.seed: one.metrics.test[truth.metric.name]
            for one in truth.groups[each]
            if not isinstance(one, DivergedRun)
        }
        for each in (group, (found["against"], pair.against_nodes))
    ]
    both = values[0].keys() & values[1].keys()
    mean = sum(values[0][seed] - values[1][seed] for seed in both) / len(both)
    assert f"({truth.quantity.difference(mean)}" in sentence
    sign = 1 if truth.metric.higher_is_better else -1
    if pair.verdict in ("better", "worse"):
        assert sign * mean > 0 if pair.verdict == "better" else sign * mean < 0
    if pair.verdict == "no difference":
        assert abs(mean) < truth.found.metric.margin
    if len(both) < pair.of:
        assert f"over the {len(both)} of {pair.of} seeds that both finished" in sentence
    if len(both) < 2:
        assert pair.verdict == "undecided" and "interval" not in sentence[found.start() :]


def check_split(truth, sentence):
    name, nodes = re.match(rf"Split the work by {STRATEGY} nodes: ", sentence).groups()
    best, goal = (name, int(nodes)), truth.goal()
    alone, took = truth.seconds(("single", 1), goal), truth.seconds(best, goal)
    assert f"it takes {duration(took)} {goal}, where one node takes {duration(alone)} (" in sentence and took < alone
    ready = [group for group in truth.ready() if all(truth.is_ahead(group, own) for own in truth.controls(group))]
    assert best in ready and took == min(truth.seconds(group, goal) for group in ready)
    speed = truth.speed[(*best, goal)]
    assert speed.low > 1 and f"({compact(speed.times)} times as fast, 95 % interval" in sentence
    least = re.search(r"at least ([\d.]+) times", sentence)
    assert (least is None) == (speed.at_least is None)
    assert least is None or (1 < speed.at_least <= speed.times and 0 <= speed.at_least - float(least[1]) < 0.1)
    check_quality(truth, best, sentence)
    if gone := truth.diverged(("single", 1)):
        assert f"where `single` diverged with {gone} of {len(truth.groups['single', 1])} seed" in sentence


def steady_times(truth):
    """Seconds of the strategies on several nodes of which no run diverged, where they have any that count."""
    steady = [group for group in truth.groups if group[1] > 1 and not truth.diverged(group)]
    return {group: seconds for group in steady if (seconds := truth.seconds(group, truth.goal())) is not None}


def check_stay(truth, sentence):
    if "Not decided besides" in sentence:
        check_undecided(truth, sentence)
        return
    single, goal = ("single", 1), truth.goal()
    assert sentence.startswith("Stay on one node") == (truth.diverged(single) == 0)
    alone, times = truth.seconds(single, goal), steady_times(truth)
    steady = [group for group in truth.groups if group[1] > 1 and not truth.diverged(group)]
    if "every strategy on several nodes diverged" in sentence:
        assert not steady
        return
    if "no strategy on several reached the target" in sentence:
        assert not times and goal == "to the target"
        assert not any(all(truth.hit(one) is not None for one in truth.groups[group]) for group in steady)
        return
    # All others are decided not to be worth having.
    assert times and all(truth.is_ruled_out(group) for group in times)
    name, nodes = re.search(rf": (?:the fastest strategy on several, )?{STRATEGY},? takes", sentence).groups()
    fastest = (name, int(nodes))
    assert times[fastest] == min(times.values())
    assert f"takes {duration(times[fastest])} {goal}, where one node takes {duration(alone)}" in sentence
    assert ("the fastest strategy on several" in sentence) == (times[fastest] >= alone)
    if times[fastest] >= alone:
        return
    if "seed by seed it is slower" in sentence:
        assert truth.speed[(*fastest, goal)].verdict == "slower"
        check_quality(truth, fastest, sentence)
    elif beaten := re.search(r", but (.*) on one node is decided to be faster, and to", sentence):
        controls = [f"`{own[0]}`" for own in truth.controls(fastest) if truth.is_beaten(fastest, own)]
        assert beaten[1].split(" and ") == controls != []
    else:
        check_quality(truth, fastest, sentence)
        assert truth.verdict[(*fastest, "single")].verdict == "worse"


def check_undecided(truth, sentence):
    """What is not decided of the most promising strategy, what it would take, and the best guess."""
    single, goal, times = ("single", 1), truth.goal(), steady_times(truth)
    alone = truth.seconds(single, goal)
    unsettled = [group for group in times if not truth.is_ruled_out(group)]
    assert sentence.startswith("Not decided yet") == (truth.diverged(single) == 0)
    assert not any(all(truth.is_ahead(group, own) for own in truth.controls(group)) for group in truth.ready())

    def is_faster(group):
        speed = truth.speed.get((*group, goal))
        return speed is not None and speed.verdict == "faster" and times[group] < alone

    name, nodes, what = re.search(rf"whether {STRATEGY} (is faster|learns as well|is ahead)", sentence).groups()
    group = (name, int(nodes))
    assert group in unsettled
    faster = [own for own in unsettled if is_faster(own)]
    good = [own for own in faster if truth.is_good(own)]
    first = good or faster or unsettled
    assert group in first and times[group] == min(times[own] for own in first)
    assert what == ("is ahead" if good else "learns as well" if faster else "is faster")
    assert f"it takes {duration(times[group])} {goal}, where one node takes {duration(alone)}" in sentence
    check_quality(truth, group, sentence)
    if what == "is ahead":
        behind = re.search(r"but against (.*?) on one node it is neither", sentence)[1].split(" and ")
        assert behind == [f"`{own[0]}`" for own in truth.controls(group) if not truth.is_ahead(group, own)] != []
    seeds = max(len(runs) for runs in truth.groups.values())
    assert ("One seed tells nothing about chance: that takes more, such as `seeds: 5`" in sentence) == (seeds < 2)
    check_needed(truth, group, sentence, seeds)
    if not truth.diverged(single):
        best = truth.looks_best()
        guess = sentence.partition("Best guess until then: ")[2]
        assert guess == (
            f"`single` on one node, which takes {duration(alone)} {goal}."
            if best is None
            else f"`{best[0]}` on {'one node' if best[1] == 1 else best[1]}, by the means alone, which takes "
            f"{duration(truth.seconds(best, goal))} {goal}."
        )


def check_needed(truth, group, sentence, seeds):
    """Whether what it would take is more than there is, and its time that of all runs."""
    ran = [one for runs in truth.groups.values() for one in runs if not isinstance(one, DivergedRun)]
    needed = re.search(r"`seeds: (\d+)`\)?(, about ([^,.]+(?:\.\d+)? \S+) of runs in all)?", sentence)
    if needed is not None:
        assert int(needed[1]) > seeds
        whole = int(needed[1]) * sum(one.seconds.total for one in ran) / seeds
        assert needed[3] in (
            duration(whole * (1 - 1e-9)),
            duration(whole * (1 + 1e-9)),
        )  # whatever the order of the sum
    if seeds < 2:
        return
    assert "It would take " in sentence or "the same with every seed, which tells nothing about chance: no" in sentence
    about = re.search(r"about ([\d,]+) seeds", sentence)
    assert (about is None) == (needed is None) and (about is None or about[1].replace(",", "") == needed[1])
    rows = re.search(r"about ([\d,]+) test rows, where there are 1,000", sentence)
    assert rows is None or int(rows[1].replace(",", "")) > TEST_ROWS
    needs = sentence.partition("It would take ")[2].partition(". ")[0]
    assert "perhaps more seeds" not in needs or needs.count(" seeds") == 1
    if "more seeds with which both finish" in sentence:
        against = ["single", *(own[0] for own in truth.controls(group))]
        goals = (truth.goal(), "in all")
        both = [truth.verdict.get((*group, own)) for own in against]
        both += [truth.beside.get((*group, goal, own)) for goal in goals for own in against]
        is_few = any(one is None or one.seeds < 2 for one in both)
        assert is_few or truth.speed[(*group, truth.goal())].verdict == "faster"


def check_alone(truth, sentence):
    own, goal = (re.match(r"One node alone, by `([^`]+)`, ", sentence)[1], 1), truth.goal()
    assert any(own in truth.controls(group) for group in truth.groups if group[1] > 1 and not truth.diverged(group))
    seconds, speed = truth.seconds(own, goal), truth.speed.get((*own, goal))
    if seconds is None:
        assert f"`, {untimed(truth, own, goal)}, and" in sentence
    else:
        assert f"`, takes {duration(seconds)} {goal}" in sentence
    assert (speed is not None) == ("where `single` takes" in sentence)
    if speed is not None:
        alone = truth.seconds(("single", 1), goal)
        assert f", where `single` takes {duration(alone)} ({compact(speed.times)} times as fast" in sentence
        assert (speed.verdict == "undecided") == (", undecided)" in sentence)
    check_quality(truth, own, sentence)


def untimed(truth, group, goal):
    """Why a strategy has no time."""
    hits = [not isinstance(one, DivergedRun) and truth.hit(one) is not None for one in truth.groups[group]]
    if goal == "to the target" and not all(hits):
        return f"reached the target in {sum(hits)} of {len(hits)} runs"
    return "was not timed where most runs were"


def check_few(truth, sentence):
    single, goal = ("single", 1), truth.goal()
    alone = truth.seconds(single, goal)
    assert not truth.diverged(single)
    parts = {}
    if sentence.startswith("Of what is decided"):
        for part in sentence.removeprefix("Of what is decided, ").removesuffix(".").split("; "):
            roles, name, nodes, cost = re.fullmatch(rf"([a-z ]+) is {STRATEGY} \((.*)\)", part).groups()
            parts |= {role: ((name, int(nodes)), cost) for role in roles.split(" and ")}
        assert {group for group, _ in parts.values()} != {single}
    else:
        cost = sentence.partition("better. `single` takes ")[2].removesuffix(".")
        parts = dict.fromkeys(("fastest", "cheapest", "best"), (single, cost))
    assert set(parts) == {"fastest", "cheapest", "best"}
    for role, (group, cost) in parts.items():
        took = truth.seconds(group, goal)
        hours = "" if took is None else f"{node_time(took * group[1] / 3600)} {goal}"
        worth = f", {truth.quantity.label} {truth.quantity.value(truth.mean(group))}"
        assert cost == (untimed(truth, group, goal) if took is None else f"{duration(took)} and {hours}") + worth
        if group == single:
            # Whatever is better and safe is the best, with a time or without.
            assert role != "best" or not any(
                key[2] == "single"
                and pair.verdict == "better"
                and not truth.diverged(key[:2])
                and all(truth.is_ahead(key[:2], own) for own in truth.controls(key[:2]))
                for key, pair in truth.verdict.items()
            )
            continue
        assert not truth.diverged(group) and truth.is_good(group)
        assert all(truth.is_ahead(group, own) for own in truth.controls(group))
        speed = truth.speed.get((*group, goal))  # the best need not have any
        if role == "fastest":
            assert speed.verdict == "faster" and took < alone
        elif role == "cheapest":
            assert speed.at_least > group[1] and took * group[1] < alone
        else:
            assert truth.verdict[(*group, "single")].verdict == "better"


def check_slow(truth, sentence):
    def sent(group):
        done = [one.sync_bytes_per_node for one in truth.groups[group] if not isinstance(one, DivergedRun)]
        return sum(done) / len(done) if done else None

    others = [
        group for group in truth.groups
        if group[1] > 1 and group[0] != "batch" and not truth.diverged(group) and ("batch", group[1]) in truth.groups
        and sent(("batch", group[1])) is not None
    ]  # fmt: skip
    fewer = [group for group in others if sent(("batch", group[1])) >= 1.05 * sent(group)]
    if "was not compared" in sentence:
        assert not others
        assert ("of which no run diverges" in sentence) == any(
            truth.diverged(group) for group in truth.groups if group[1] > 1
        )
    elif "nothing is gained" in sentence:
        assert others and not fewer
    else:
        name, times, nodes = re.search(
            r"`([^`]+)` sends ([\d,.]+) times fewer bytes than `batch` on (\d+)", sentence
        ).groups()
        group = (name, int(nodes))
        assert group in fewer and times == compact(sent(("batch", group[1])) / sent(group))
        check_quality(truth, group, sentence)


def check_diverged(truth, sentence):
    said = re.findall(rf"{STRATEGY} \((\d+) of (\d+) seeds?\)", sentence)
    assert {((name, int(nodes)), int(gone), int(of)) for name, nodes, gone, of in said} == {
        (group, gone, len(members)) for group, members in truth.groups.items() if (gone := truth.diverged(group))
    }


def check_nothing(truth, sentence):
    has_single, several = ("single", 1) in truth.groups, any(nodes > 1 for _, nodes in truth.groups)
    assert not (has_single and several)
    if "On one node only" in sentence:
        assert not has_single and several and any(nodes == 1 for _, nodes in truth.groups)


def check_lost(truth, sentence):
    """Every run of `single` diverged."""
    members = truth.groups["single", 1]
    assert truth.diverged(("single", 1)) == len(members)
    assert f"({len(members)} of {len(members)} seed" in sentence
    steady = [group for group in truth.groups if group[1] > 1 and not truth.diverged(group)]
    assert ("No strategy was safe." in sentence) == (not steady)
    assert set(re.findall(STRATEGY, sentence)) == {(name, str(nodes)) for name, nodes in steady}


def check_not_timed(truth, sentence):
    assert truth.seconds(("single", 1), "in all") is None


def check_none_timed(truth, sentence):
    """Some strategy on several nodes might have a time, and all were measured elsewhere."""
    goal = truth.goal()
    steady = [group for group in truth.groups if group[1] > 1 and not truth.diverged(group)]
    assert steady and all(truth.seconds(group, goal) is None for group in steady)
    hits = [group for group in steady if all(truth.hit(one) is not None for one in truth.groups[group])]
    assert ("reached the target" in sentence) == (goal == "to the target")
    assert all(one.place != truth.found.place for group in (hits if goal == "to the target" else steady)
               for one in truth.groups[group])  # fmt: skip


def check_certainty(truth, text, seeds, gone):
    if seeds < 2:
        assert text.startswith("One seed for each strategy")
        assert all(pair.verdict == "undecided" for pair in (*truth.found.pairs, *truth.found.times))
        return
    times = [pair for pair in truth.found.times if pair.what == truth.goal()] if ("single", 1) in truth.groups else []
    verdicts = [pair.verdict for pair in (*truth.found.pairs, *times)]
    decided = sum(verdict != "undecided" for verdict in verdicts)
    assert f" {decided} of {len(verdicts)} differences are decided" in text
    assert (f"less {gone} that diverged" in text) == bool(gone)
    check_rows(truth, text)
    metric = truth.found.metric
    undecided = [pair for pair in truth.found.pairs if pair.verdict == "undecided" and pair.low is not None]
    sign, step = 1 if metric.higher_is_better else -1, metric.resolution or 0

    def takes_rows(pair):
        """Whether it would be undecided if there were no chance by seeds at all."""
        return max(abs(pair.mean), metric.margin + sign * pair.mean) <= max(step, 1.959964 * (truth.by_rows(pair) or 0))

    same = sum(map(truth.is_same, undecided))
    never = sum(takes_rows(pair) and not truth.is_same(pair) for pair in undecided)
    assert ("learn would take" in text) == (len(undecided) > never + same)
    alike = (
        f" {same} of the undecided {'is' if same == 1 else 'are'} the same with every seed, which tells nothing about"
    )
    assert (alike in text) == bool(same)
    assert (f" More seeds alone would not decide {never} of the undecided differences" in text) == bool(never)
    about = re.search(r"learn would take about ([\d,]+) seeds \(`seeds: (\d+)`\)", text)
    assert about is None or int(about[1].replace(",", "")) == int(about[2]) > seeds
    lone = sum(pair.verdict == "undecided" and pair.low is None for pair in truth.found.pairs)
    assert (f" {lone} of the undecided {'is' if lone == 1 else 'are'} told by one seed alone." in text) == bool(lone)
    assert ("how all strategies learn" in text) == (len(undecided) > 0 and not never + same + lone)
    more = re.search(r"that takes about ([\d,]+) test rows, where there are 1,000, or", text)
    assert more is None or int(more[1].replace(",", "")) >= TEST_ROWS
    assert (more is not None or "that takes more test rows, and perhaps more seeds, or" in text) == bool(never)


def check_rows(truth, text):
    """For which rows the intervals hold."""
    told = [pair for pair in truth.found.pairs if pair.low is not None]
    alone = sum(truth.by_rows(pair) is None for pair in told)
    assert ("hold for other rows of the same kind, too: the test rows count" in text) == (bool(told) and not alone)
    assert ("over the seeds alone, and hold for these very test rows" in text) == bool(alone)
    assert (f"in {alone} of {len(told)} differences, are over" in text) == (0 < alone < len(told))
    for pair in told:
        if (error := truth.by_rows(pair)) is not None:
            assert pair.high - pair.low >= 2 * 1.95 * error * (1 - 1e-9)
