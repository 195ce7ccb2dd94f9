"""Every sentence of the answer, read back for truth: answers to many made-up results, and what these really say.

What a sentence means is worked out here from the runs alone, with as little of the product's analysis as can be: its
verdicts are taken (tests/comparison/test_verdicts.py, and benchmarks/evidence.py, are about them), nothing else is.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from sparksplit.comparison.analysis.analyse import analyse
from sparksplit.comparison.analysis.frontier import goal_of, seconds_of
from sparksplit.comparison.answer import answer
from sparksplit.comparison.content import DataFacts
from sparksplit.comparison.evidence import pair_of
from sparksplit.comparison.record import DivergedRun
from tests.comparison.records import some_results
from tests.comparison.truth.made_up import RECIPES, TEST_ROWS, made_up
from tests.comparison.truth.readers import (
    check_alone,
    check_certainty,
    check_diverged,
    check_few,
    check_lost,
    check_none_timed,
    check_not_timed,
    check_nothing,
    check_slow,
    check_split,
    check_stay,
    check_undecided,
)
from tests.comparison.truth.truths import Truth

SENTENCES = (
    ("Split the work by", check_split),
    ("Stay on one node", check_stay),
    ("Not decided yet: whether", check_undecided),
    ("Nothing is recommended, since `single` diverged", check_stay),
    ("Nothing is recommended: the times of `single`", check_not_timed),
    ("Nothing is recommended: no strategy on several", check_none_timed),
    ("Every run of `single` diverged", check_lost),
    ("Whether several nodes help was not compared", check_nothing),
    ("One node alone, by", check_alone),
    ("Of what is decided", check_few),
    ("Of the strategies that are decided", check_few),
    ("On a slow network", check_slow),
    ("What a slow network would change", check_slow),
    ("Not recommended, because", check_diverged),
)
"""How each sentence begins, and what it must say."""
SEEN: set[str] = set()


def check(recipe):
    metric, runs, references = made_up(**recipe)
    seeds = recipe["seeds"]
    found = analyse(runs, references, metric, 0.003)
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
    gone = sum(truth.diverged(group) for group in truth.groups)
    assert any(sentence.startswith("Not recommended, because") for sentence in said.text) == bool(gone)
    check_certainty(truth, said.certainty, seeds, gone)
    check_advice(results, said.text[0])


def check_advice(results, first):
    """No advice stands against a row on one node: one that, by what the table shows, is as fast or faster and learns as
    well (decided for what is recommended, within the margin for what is guessed)."""
    goal, table = goal_of(results.table), results.table
    split = re.match(r"Split the work by `([^`]+)` on (\d+) nodes", first)
    guess = re.search(r"Best guess until then: `([^`]+)` on (\d+)", first)
    few = [(choice.name, choice.nodes) for choice in results.frontier if choice.role != "best"]
    sign = 1 if results.metric.higher_is_better else -1
    on_one = [row for row in table if row.nodes == 1 and not row.diverged and seconds_of(row, goal) is not None]
    advised = [(found[1], int(found[2])) for found in (split, guess) if found]
    for row in (row for row in table if row.nodes > 1 and (row.name, row.nodes) in [*advised, *few]):
        for other in on_one:
            if seconds_of(other, goal) > seconds_of(row, goal):
                continue
            if guess:
                assert sign * (row.metric.mean - other.metric.mean) > results.metric.margin
            if not guess or (row.name, row.nodes) in few:
                assert pair_of(results, row, other.name).verdict == "better"


@pytest.mark.slow
@settings(max_examples=1_500, deadline=None)
@given(RECIPES)
def test_every_sentence_of_many_answers_is_true(recipe):
    check(recipe)


def test_every_sentence_is_true_and_none_goes_unread():
    """Of the same answers each time, in which every sentence occurs."""
    SEEN.clear()

    @settings(max_examples=400, deadline=None, derandomize=True, database=None)
    @given(RECIPES)
    def read(recipe):
        check(recipe)

    read()
    assert {begin for begin, _ in SENTENCES} == SEEN
