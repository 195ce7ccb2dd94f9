"""Answers to many made-up results, against what the runs really say.

That is worked out here from the runs alone, with as little of the product's analysis as can be: its verdicts are taken
(tests/comparison/test_verdicts.py, and benchmarks/evidence.py, are about them), nothing else is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings

from sparksplit.comparison.analysis.analyse import analyse
from sparksplit.comparison.answer.decide import answer
from sparksplit.comparison.answer.words import words
from sparksplit.comparison.comparison_record import DivergedRun
from sparksplit.comparison.content import DataFacts
from tests.comparison.records import some_results
from tests.comparison.truth.made_up import RECIPES, TEST_ROWS, made_up
from tests.comparison.truth.truths import Truth

SINGLE = ("single", 1)
SEEN: Counter[str] = Counter()


def check(recipe):
    metric, runs, references = made_up(**recipe)
    seeds = recipe["seeds"]
    found = analyse(runs, references, metric, 0.003)
    results = some_results(
        found.table, found.pairs, found.metric, seeds=list(range(seeds)), nodes=[1, 2, 4],
        data=DataFacts("d", "e", {"train": 5000, "test": TEST_ROWS}),
        runs=[one for one in runs if not isinstance(one, DivergedRun)],
        **{name: getattr(found, name) for name in ("target", "grid", "place", "times")},
    )  # fmt: skip
    said, truth = answer(results), Truth(metric, runs, found)
    SEEN[said.decision] += 1
    SEEN.update(note.kind for note in said.notes)
    SEEN.update(f"open: {'seeds' if one.seeds else 'rows' if one.rows else 'unknown'}" for one in said.open)
    lines = words(replace(results, answer=said))
    assert 1 <= len(lines) <= 6 and all(lines)
    if SINGLE not in truth.groups or len(truth.groups) < 2:
        assert said.decision == "nothing to compare" and said.choice is None
        return
    check_decision(truth, said)
    check_notes(truth, said, seeds)
    check_open(truth, said, seeds)


def check_decision(truth, said):
    goal, choice = truth.goal(), None if said.choice is None else (said.choice.name, said.choice.nodes)
    winners = [group for group in truth.ready() if all(truth.is_ahead(group, own) for own in truth.controls(group))]
    alone, steady = truth.seconds(SINGLE, goal), [group for group in truth.groups if not truth.diverged(group)]
    faster = [group for group in truth.ready(several=False) if not truth.diverged(group)]
    best = min(faster, key=lambda group: truth.seconds(group, goal), default=SINGLE)
    on_one = any(truth.is_faster(group, best) for group in truth.ready())
    on_one = on_one or (not faster and all(nodes == 1 for _, nodes in truth.groups))
    # However it was timed, and whether or not all of its runs finished: nobody has decided against it.
    unsettled = [
        group for group, runs in truth.groups.items()
        if group != SINGLE and (group[1] > 1 or on_one) and not truth.is_ruled_out(group)
        and not 1 < truth.diverged(group) == len(runs) and not (faster and truth.diverged(group))
        and group not in faster
    ]  # fmt: skip
    if winners:
        assert said.decision == "use" and choice == min(winners, key=lambda group: truth.seconds(group, goal))
        assert not truth.is_ruled_out(choice)
    elif truth.diverged(SINGLE) or alone is None or unsettled:
        assert said.decision == "undecided"
        assert choice is None or truth.seconds(choice, goal) == min(truth.seconds(one, goal) for one in as_good(truth))
    else:
        assert said.decision == "stay"
        assert choice == best
    if said.gain is not None:
        assert said.gain.quality == truth.verdict.get((*choice, "single"))
        assert said.gain.speed == truth.speed.get((*choice, goal))
    others = [(row.name, row.nodes) for row in said.runners_up]
    assert len(others) <= 2 and choice not in others
    times = [truth.seconds(group, goal) for group in others if group != SINGLE]
    if said.decision == "stay":
        several = [group for group in steady if group[1] > 1 and truth.seconds(group, goal) is not None]
        assert not several or times[0] == min(truth.seconds(group, goal) for group in several)
    if said.decision == "undecided":
        assert choice is None or all(truth.seconds(choice, goal) <= seconds for seconds in times)
    assert all(group == SINGLE or not truth.diverged(group) for group in others)


def as_good(truth):
    """The rows that by the means learn as well as `single`, and that no row on one node beats by the means."""
    goal = truth.goal()
    steady = [
        group for group in truth.groups
        if not truth.diverged(group) and truth.seconds(group, goal) is not None and not truth.is_ruled_out(group)
    ]  # fmt: skip
    is_known = truth.diverged(SINGLE) < len(truth.groups[SINGLE])
    good = [group for group in steady if not is_known or truth.learns(group, SINGLE)]
    on_one = [group for group in good if group[1] == 1]
    return [
        group for group in good
        if group[1] == 1 or not any(
            truth.seconds(own, goal) <= truth.seconds(group, goal) and truth.learns(own, group) for own in on_one
        )
    ]  # fmt: skip


def check_notes(truth, said, seeds):
    diverged = {(note.name, note.nodes): (note.number, note.of) for note in said.notes if note.kind == "diverged"}
    lost = {group: (gone, len(truth.groups[group])) for group in truth.groups if (gone := truth.diverged(group))}
    assert diverged == lost
    assert ("one seed" in {note.kind for note in said.notes}) == (seeds < 2)
    for note in said.notes:
        if note.kind == "slow network":
            verdict = truth.verdict[note.name, note.nodes, "batch"].verdict
            assert verdict in ("better", "no difference", "not worse") and note.number >= 1.05
        if note.kind in ("unmet", "other place"):
            assert truth.seconds((note.name, note.nodes), truth.goal()) is None


def check_open(truth, said, seeds):
    """What is called open is not decided, and the seeds that are asked for are more than there are."""
    for one in said.open:
        group = one.name, one.nodes
        if one.about == "quality" and one.against == "single":
            assert not truth.is_good(group)
        if truth.diverged(group) or truth.seconds(group, truth.goal()) is None:
            assert (one.seeds, one.rows) == (None, None) and not truth.is_ruled_out(group)
        elif one.about == "speed" and one.against == "single" and one.seeds:
            speed = truth.speed[(*group, truth.goal())]
            assert speed.verdict != "slower" and not speed.enough
        assert one.seeds is None or one.seeds > seeds
        assert one.rows is None or one.rows > TEST_ROWS
    if said.next is not None:
        assert seeds < said.next.seeds[0] <= said.next.seeds[-1] == max(said.next.settings.values())


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(RECIPES)
def test_many_answers_are_true(recipe):
    check(recipe)


@pytest.mark.slow
def test_answers_are_true_and_of_every_kind():
    """Of fixed random results, so that each kind is among them."""
    SEEN.clear()

    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    @given(RECIPES)
    def read(recipe):
        check(recipe)

    read()
    decisions = {"use", "stay", "undecided", "nothing to compare"}
    notes = {"one seed", "diverged", "other place", "unmet", "slow network", "no single"}
    opened = {f"open: {what}" for what in ("seeds", "rows", "unknown")}
    assert decisions | notes | opened <= SEEN.keys()
