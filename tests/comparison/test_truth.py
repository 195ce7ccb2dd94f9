"""Every sentence of the answer, read back for truth: answers to many made-up results, and what these really say.

What a sentence means is worked out here from the runs alone, with as little of the product's analysis as can be: its
verdicts are taken (tests/comparison/test_verdicts.py, and benchmarks/evidence.py, are about them), nothing else is.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.comparison.analysis.analyse import analyse
from sparksplit.comparison.answer import answer
from sparksplit.comparison.content import DataFacts, Deciding
from sparksplit.comparison.numbers import Quantity, compact, duration, node_time
from sparksplit.comparison.record import DivergedRun, Place
from sparksplit.training.record import CurvePoint, RunMetrics
from tests.comparison.records import compared_run, some_results

PLACES = [Place("local-cluster on desk", ("a, 2 cores",), threads) for threads in (1, 2)]
SMALL = "single, batch_size = 32"
WAYS = (("single", 1), (SMALL, 1), ("local", 1), ("batch", 2), ("epoch", 2), ("local", 2), ("batch", 4), ("local", 4))
PASSES = (2, 4, 6)
LANES = 24
TEST_ROWS = 1000
CONTROLS = {("local", 2, False): ("local", SMALL), ("local", 4, False): ("local",), ("epoch", 2, False): (SMALL,)}
"""What the ways on several nodes are compared with on one, where that was run."""


RECIPES = st.fixed_dictionaries(
    {
        "number": st.integers(0, 2**32 - 1),
        "higher": st.booleans(),
        "resolution": st.sampled_from([None, 1e-3]),
        "seeds": st.sampled_from([1, 2, 3, 5, 8]),
        "spread": st.sampled_from([1e-4, 3e-3, 0.02]),
        "wobble": st.sampled_from([0.001, 0.03, 0.3]),
        "troubled": st.sampled_from([0.0, 0.0, 0.1, 0.5]),
        "moved": st.sampled_from([0.0, 0.0, 0.3, "several"]),
        "by_row": st.sampled_from([None, 0.0, 0.001, 0.02, 0.02]),
        "earlier": st.sampled_from([0.0, 0.0, 0.1]),
    }
)


def made_up(number, higher, resolution, seeds, spread, wobble, troubled, moved, by_row, earlier):
    """(metric, runs, references): ways that differ or do not, spread much or little, diverge, miss and move.

    by_row: how much of each way's value is chance by rows; None: no run can tell. earlier: how many runs cannot.
    """
    generator = np.random.default_rng(number)
    metric = Deciding("accuracy" if higher else "loss", higher, "test", resolution)
    ways = [way for way in WAYS if generator.random() < 0.7]
    gains, speeds = [0.0, 0.001, 0.01, -0.01, 0.05], [1, 1, 0.5, 2]
    lanes = {way: (by_row or 0.0) * generator.normal(size=LANES) for way in ways}
    effects = {way: (generator.choice(gains), generator.choice(speeds)) for way in ways}
    runs = []
    for way, nodes in ways:
        quality, slow = effects[way, nodes]
        sent = 0 if nodes == 1 else int(1e8 / (1 if way == "batch" else generator.choice([0.8, 1.02, 1.06, 30])))
        for seed in range(1, seeds + 1):
            name = {"way": way, "nodes": nodes, "virtual": False, "seed": seed, "key": f"{way}-n{nodes}-s{seed}"}
            if generator.random() < troubled:
                runs.append(DivergedRun(**name, config_hash="c", diverged="the loss is nan"))
                continue
            gain = quality + spread * generator.normal()
            runs.append(run(metric, gain, 10 * slow * math.exp(wobble * generator.normal()), sent, **name))
            if generator.random() >= earlier:
                told = lanes[way, nodes] + 0.3 * (by_row or 0.0) * generator.normal(size=LANES)
                runs[-1] = replace(runs[-1], jackknife={} if by_row is None else {metric.name: told.tolist()})
            if nodes > 1 if moved == "several" else generator.random() < moved:
                runs[-1] = replace(runs[-1], place=PLACES[1])
    alone = [run(metric, spread * generator.normal(), 10, 0, way="single", nodes=1, seed=9, key="r") for _ in range(2)]
    return metric, runs, [replace(one, untrained={metric.name: worth(metric, -0.8)}) for one in alone]


def worth(metric, gain):
    """The metric's value of a model that is better by `gain` than an ordinary one."""
    return 0.9 + gain if metric.higher_is_better else 0.9 - gain


def run(metric, gain, seconds, sent, **more):
    points = [
        CurvePoint(
            passes=passes, updates=1, steps=1, seconds=seconds * passes / PASSES[-1],
            validation={metric.name: worth(metric, gain - 0.05 * (1 - passes / PASSES[-1]))},
        )
        for passes in PASSES
    ]  # fmt: skip
    metrics = RunMetrics(test={metric.name: worth(metric, gain)})
    return compared_run(
        **more, history=points, metrics=metrics, hosts=["a"], sync_bytes_per_node=sent, place=PLACES[0], passes=6
    )


class Truth:
    """What the runs say, worked out anew."""

    def __init__(self, metric, runs, found):
        self.metric, self.found, self.quantity = metric, found, Quantity(metric.name)
        self.ways = {}
        for one in runs:
            self.ways.setdefault((one.way, one.nodes), []).append(one)
        self.verdict = {(pair.way, pair.nodes, pair.against): pair for pair in found.pairs}
        self.speed = {(pair.way, pair.nodes, pair.what): pair for pair in found.times if pair.against == "single"}
        self.beside = {(pair.way, pair.nodes, pair.what, pair.against): pair for pair in found.times}

    def diverged(self, way):
        return sum(isinstance(one, DivergedRun) for one in self.ways[way])

    def seconds(self, way, goal):
        """None where there is no such time."""
        here = [one for one in self.ways[way] if not isinstance(one, DivergedRun)]
        timed = [one for one in here if one.place == self.found.place]
        if goal == "in all":
            return sum(one.history[-1].seconds for one in timed) / len(timed) if timed else None
        hits = [self.hit(one) for one in here]
        if None in hits or len(here) < len(self.ways[way]) or not timed:
            return None
        return median(self.hit(one) for one in timed)

    def hit(self, one):
        for point in one.history:
            value, wanted = point.validation[self.metric.name], self.found.target.value
            if value >= wanted if self.metric.higher_is_better else value <= wanted:
                return point.seconds
        return None

    def goal(self):
        return "in all" if self.seconds(("single", 1), "to the target") is None else "to the target"

    def is_good(self, way, against="single"):
        pair = self.verdict.get((*way, against))
        return pair is not None and pair.verdict in ("better", "no difference", "not worse")

    def controls(self, way):
        """Those that ran, and of which no run diverged."""
        found = [(name, 1) for name in CONTROLS.get((*way, False), ())]
        return [own for own in found if own in self.ways and not self.diverged(own)]

    def is_ahead(self, way, control):
        pair = self.verdict.get((*way, control[0]))
        both = [self.beside.get((*way, what, control[0])) for what in (self.goal(), "in all")]
        speed = both[0] or both[1]
        is_faster = speed is not None and speed.verdict == "faster" and self.is_good(way, control[0])
        return is_faster or (pair is not None and pair.verdict == "better")

    def by_rows(self, pair):
        """The standard error of a mean difference by rows, by analysis of variance; None where a run cannot tell."""
        ways = (pair.way, pair.nodes), (pair.against, pair.against_nodes)
        runs = [{one.seed: one for one in self.ways[way] if not isinstance(one, DivergedRun)} for way in ways]
        seeds = sorted(runs[0].keys() & runs[1].keys())
        told = [[(one[seed].jackknife or {}).get(self.metric.name) for seed in seeds] for one in runs]
        if len(seeds) < 2 or None in told[0] or None in told[1]:
            return None
        table = np.array(told[0]) - np.array(told[1])
        both = table.var(axis=0, ddof=1).mean()
        return math.sqrt(max(0.0, (table.mean(axis=0) ** 2).mean() - both / len(seeds)))

    def ready(self):
        """Ways on several nodes that are decided to be faster than `single`, and to learn as well."""
        goal, alone = self.goal(), self.seconds(("single", 1), self.goal())
        return [
            way for way in self.ways
            if way[1] > 1 and not self.diverged(way) and self.is_good(way)
            and (speed := self.speed.get((*way, goal))) is not None and speed.verdict == "faster"
            and self.seconds(way, goal) < alone
        ]  # fmt: skip

    def mean(self, way):
        done = [one for one in self.ways[way] if not isinstance(one, DivergedRun)]
        return sum(one.metrics.test[self.metric.name] for one in done) / len(done)


WAY = r"`([^`]+)` on (\d+)"
QUALITY = re.compile(
    r"(?:its (?:accuracy|loss) is (?P<same>the same as|better than|worse than|not worse than)|whether its (?:accuracy|"
    r"loss) (?P<unsure>differs) from) `(?P<against>single|batch)`'s"
)
SAID = {
    "the same as": "no difference", "better than": "better", "worse than": "worse", "not worse than": "not worse",
    "differs": "undecided",
}  # fmt: skip


def check_quality(truth, way, sentence):
    if "there is nothing to compare its" in sentence:
        assert not any(key[:2] == way for key in truth.verdict if key[2] == "single" or "slow" in sentence)
        return
    found = QUALITY.search(sentence)
    pair = truth.verdict[(*way, found["against"])]
    assert SAID[found["same"] or found["unsure"]] == pair.verdict
    values = [
        {one.seed: one.metrics.test[truth.metric.name] for one in truth.ways[each] if not isinstance(one, DivergedRun)}
        for each in (way, (found["against"], pair.against_nodes))
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
    way, nodes = re.match(rf"Split the work by {WAY} nodes: ", sentence).groups()
    best, goal = (way, int(nodes)), truth.goal()
    alone, took = truth.seconds(("single", 1), goal), truth.seconds(best, goal)
    assert f"it takes {duration(took)} {goal}, where one node takes {duration(alone)} (" in sentence and took < alone
    ready = [way for way in truth.ready() if all(truth.is_ahead(way, own) for own in truth.controls(way))]
    assert best in ready and took == min(truth.seconds(way, goal) for way in ready)
    speed = truth.speed[(*best, goal)]
    assert speed.low > 1 and f"({compact(speed.times)} times as fast, 95 % interval" in sentence
    least = re.search(r"at least ([\d.]+) times", sentence)
    assert (least is None) == (speed.at_least is None)
    assert least is None or (1 < speed.at_least <= speed.times and 0 <= speed.at_least - float(least[1]) < 0.1)
    check_quality(truth, best, sentence)
    if gone := truth.diverged(("single", 1)):
        assert f"where `single` diverged with {gone} of {len(truth.ways['single', 1])} seed" in sentence


def check_stay(truth, sentence):
    single, goal = ("single", 1), truth.goal()
    assert sentence.startswith("Stay on one node") == (truth.diverged(single) == 0)
    steady = [way for way in truth.ways if way[1] > 1 and not truth.diverged(way)]
    alone = truth.seconds(single, goal)
    times = {way: seconds for way in steady if (seconds := truth.seconds(way, goal)) is not None}
    if "every way on several nodes diverged" in sentence:
        assert not steady
    elif "no way on several reached the target" in sentence:
        assert not times and goal == "to the target"
        assert not any(all(truth.hit(one) is not None for one in truth.ways[way]) for way in steady)
    elif "the fastest way on several" in sentence:
        way, nodes = re.search(rf"the fastest way on several, {WAY}, takes", sentence).groups()
        assert times[way, int(nodes)] == min(times.values()) >= alone
        assert f"takes {duration(min(times.values()))} {goal}, where one node takes {duration(alone)}." in sentence
    elif "is ahead of what one node can do" in sentence:
        way, nodes = re.search(rf"or see whether {WAY} is ahead", sentence).groups()
        best, ready = (way, int(nodes)), truth.ready()
        assert best in ready and times[best] == min(times[own] for own in ready)
        assert not any(all(truth.is_ahead(own, control) for control in truth.controls(own)) for own in ready)
        behind = re.search(r"but against (.*) on one node it is neither", sentence)[1].split(" and ")
        assert behind == [f"`{own[0]}`" for own in truth.controls(best) if not truth.is_ahead(best, own)] != []
        assert f"it takes {duration(times[best])} {goal}, where one node takes {duration(alone)} (" in sentence
        check_quality(truth, best, sentence)
    elif "is no faster; it takes" in sentence:
        way, nodes = re.search(rf"{WAY} is no faster; ", sentence).groups()
        assert times[way, int(nodes)] == min(times.values()) < alone
        assert truth.speed[way, int(nodes), goal].verdict == "slower"
    else:
        way, nodes = re.search(rf"or see (?:with more seeds )?whether {WAY} is ", sentence).groups()
        fastest = (way, int(nodes))
        assert f"it takes {duration(times[fastest])} {goal}, where one node takes {duration(alone)}" in sentence
        speed = truth.speed.get((*fastest, goal))
        sure = speed is not None and speed.verdict == "faster"
        assert times[fastest] < alone and sure == ("is good enough" in sentence)
        assert speed is None or speed.verdict != "slower"
        assert not sure or not truth.is_good(fastest)
        check_quality(truth, fastest, sentence)


def check_alone(truth, sentence):
    control, whose = re.match(r"One node alone, by `([^`]+)` \(the control of (.*?)\), ", sentence).groups()
    own, goal = (control, 1), truth.goal()
    several = [way for way in truth.ways if way[1] > 1 and not truth.diverged(way) and own in truth.controls(way)]
    assert sorted(re.findall(WAY, whose)) == sorted((way, str(nodes)) for way, nodes in several) != []
    seconds, speed = truth.seconds(own, goal), truth.speed.get((*own, goal))
    if seconds is None:
        assert f"), has no time {goal} that counts" in sentence
    else:
        assert f"), takes {duration(seconds)} {goal}" in sentence
    assert (speed is not None) == ("where `single` takes" in sentence)
    if speed is not None:
        alone = truth.seconds(("single", 1), goal)
        assert f", where `single` takes {duration(alone)} ({compact(speed.times)} times as fast" in sentence
        assert (speed.verdict == "undecided") == (", undecided)" in sentence)
    check_quality(truth, own, sentence)


def check_few(truth, sentence):
    single, goal = ("single", 1), truth.goal()
    alone = truth.seconds(single, goal)
    assert not truth.diverged(single)
    parts = {}
    if sentence.startswith("Of what is decided"):
        for part in sentence.removeprefix("Of what is decided, ").removesuffix(".").split("; "):
            roles, way, nodes, cost = re.fullmatch(rf"([a-z ]+) is {WAY} \((.*)\)", part).groups()
            parts |= {role: ((way, int(nodes)), cost) for role in roles.split(" and ")}
        assert {way for way, _ in parts.values()} != {single}
    else:
        cost = sentence.partition("better: ")[2].removesuffix(".")
        parts = dict.fromkeys(("fastest", "cheapest", "best"), (single, cost))
    assert set(parts) == {"fastest", "cheapest", "best"}
    for role, (way, cost) in parts.items():
        took = truth.seconds(way, goal)
        hours = "" if took is None else f"{node_time(took * way[1] / 3600)} {goal}"
        worth = f", {truth.quantity.label} {truth.quantity.value(truth.mean(way))}"
        assert cost == (f"no time {goal} that counts" if took is None else f"{duration(took)} and {hours}") + worth
        if way == single:
            # Whatever is better and safe is the best, with a time or without.
            assert role != "best" or not any(
                key[2] == "single" and pair.verdict == "better" and not truth.diverged(key[:2])
                for key, pair in truth.verdict.items()
            )
            continue
        assert not truth.diverged(way) and truth.is_good(way)
        speed = truth.speed.get((*way, goal))  # the best need not have any
        if role == "fastest":
            assert speed.verdict == "faster" and took < alone
        elif role == "cheapest":
            assert speed.at_least > way[1] and took * way[1] < alone
        else:
            assert truth.verdict[(*way, "single")].verdict == "better"


def check_slow(truth, sentence):
    def sent(way):
        done = [one.sync_bytes_per_node for one in truth.ways[way] if not isinstance(one, DivergedRun)]
        return sum(done) / len(done) if done else None

    others = [
        way for way in truth.ways
        if way[1] > 1 and way[0] != "batch" and not truth.diverged(way) and ("batch", way[1]) in truth.ways
        and sent(("batch", way[1])) is not None
    ]  # fmt: skip
    fewer = [way for way in others if sent(("batch", way[1])) >= 1.05 * sent(way)]
    if "was not compared" in sentence:
        assert not others
    elif "nothing is gained" in sentence:
        assert others and not fewer
    else:
        name, times, nodes = re.search(
            r"`([^`]+)` sends ([\d,.]+) times fewer bytes than `batch` on (\d+)", sentence
        ).groups()
        way = (name, int(nodes))
        assert way in fewer and times == compact(sent(("batch", way[1])) / sent(way))
        check_quality(truth, way, sentence)


def check_diverged(truth, sentence):
    said = re.findall(rf"{WAY} \((\d+) of (\d+) seeds?\)", sentence)
    assert {((way, int(nodes)), int(gone), int(of)) for way, nodes, gone, of in said} == {
        (way, gone, len(members)) for way, members in truth.ways.items() if (gone := truth.diverged(way))
    }


def check_nothing(truth, sentence):
    has_single, several = ("single", 1) in truth.ways, any(nodes > 1 for _, nodes in truth.ways)
    assert not (has_single and several)
    if "On one node only" in sentence:
        assert not has_single and several and any(nodes == 1 for _, nodes in truth.ways)


def check_lost(truth, sentence):
    """Every run of `single` diverged."""
    members = truth.ways["single", 1]
    assert truth.diverged(("single", 1)) == len(members)
    assert f"({len(members)} of {len(members)} seed" in sentence
    steady = [way for way in truth.ways if way[1] > 1 and not truth.diverged(way)]
    assert ("No way was safe." in sentence) == (not steady)
    assert set(re.findall(WAY, sentence)) == {(way, str(nodes)) for way, nodes in steady}


def check_not_timed(truth, sentence):
    assert truth.seconds(("single", 1), "in all") is None


def check_none_timed(truth, sentence):
    """Some way on several nodes might have a time, and all were measured elsewhere."""
    goal = truth.goal()
    steady = [way for way in truth.ways if way[1] > 1 and not truth.diverged(way)]
    assert steady and all(truth.seconds(way, goal) is None for way in steady)
    hits = [way for way in steady if all(truth.hit(one) is not None for one in truth.ways[way])]
    assert ("reached the target" in sentence) == (goal == "to the target")
    assert all(one.place != truth.found.place for way in (hits if goal == "to the target" else steady)
               for one in truth.ways[way])  # fmt: skip


SENTENCES = (
    ("Split the work by", check_split),
    ("Stay on one node", check_stay),
    ("Nothing is recommended, since `single` diverged", check_stay),
    ("Nothing is recommended: the times of `single`", check_not_timed),
    ("Nothing is recommended: no way on several", check_none_timed),
    ("Every run of `single` diverged", check_lost),
    ("Whether several nodes help was not compared", check_nothing),
    ("One node alone, by", check_alone),
    ("Of what is decided", check_few),
    ("Of the ways that are decided", check_few),
    ("On a slow network", check_slow),
    ("What a slow network would change", check_slow),
    ("Not recommended, because", check_diverged),
)
"""How each sentence begins, and what it must say."""
SEEN: set[str] = set()


def check(recipe):
    metric, runs, references = made_up(**recipe)
    seeds = recipe["seeds"]
    found = analyse(runs, references, metric, 0.003, controls=CONTROLS)
    fields = ("target", "grid", "place", "times", "frontier")
    results = some_results(
        found.table, found.pairs, found.metric, seeds=list(range(seeds)), nodes=[1, 2, 4],
        data=DataFacts("d", "e", {"train": 5000, "test": TEST_ROWS}),
        runs=[one for one in runs if not isinstance(one, DivergedRun)],
        **{name: getattr(found, name) for name in fields},
    )  # fmt: skip
    said, truth = answer(results), Truth(metric, runs, found)
    for sentence in said.text:
        begin, reads = next((begin, reads) for begin, reads in SENTENCES if sentence.startswith(begin))
        SEEN.add(begin)
        reads(truth, sentence)
    gone = sum(truth.diverged(way) for way in truth.ways)
    assert any(sentence.startswith("Not recommended, because") for sentence in said.text) == bool(gone)
    check_certainty(truth, said.certainty, seeds, gone)


def check_certainty(truth, text, seeds, gone):
    if seeds < 2:
        assert text.startswith("One seed for each way")
        assert all(pair.verdict == "undecided" for pair in (*truth.found.pairs, *truth.found.times))
        return
    times = [pair for pair in truth.found.times if pair.what == truth.goal()] if ("single", 1) in truth.ways else []
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

    never = sum(map(takes_rows, undecided))
    assert ("It would take" in text) == (len(undecided) > never)
    assert (f" {never} of the undecided no number of seeds decides" in text) == bool(never)
    about = re.search(r"It would take about ([\d,]+) seeds", text)
    assert about is None or int(about[1].replace(",", "")) > min(pair.seeds for pair in undecided)
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


@settings(max_examples=2_000, deadline=None)
@given(RECIPES)
def test_every_sentence_is_true(recipe):
    check(recipe)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None)
@given(RECIPES)
def test_every_sentence_of_ten_thousand_answers_is_true(recipe):
    check(recipe)


def test_the_made_up_results_have_every_sentence():
    """So that none goes unread."""

    @settings(max_examples=400, deadline=None, derandomize=True, database=None)
    @given(RECIPES)
    def read(recipe):
        check(recipe)

    read()
    assert {begin for begin, _ in SENTENCES} == SEEN
