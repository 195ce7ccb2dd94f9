"""An answer takes at most six lines, whatever it has to say, and each of its parts is in one of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from sparksplit.diagnosis.answer import Advice, Answer, Cost, Gain, Limit, Unclear, answer
from sparksplit.diagnosis.preprocess.preprocess_record import KINDS
from sparksplit.diagnosis.verdict import PARTS
from sparksplit.diagnosis.words import advised, times, words
from tests.diagnosis import made_up
from tests.diagnosis.preprocess import made_up as preparation

CERTAIN, UNSURE, LOSS = Gain(1.87, 1.796, 1.95), Gain(1.02, 0.95, 1.1), Gain(0.67, 0.55, 0.81)
HELPS = Advice(settings={"readers": 4}, why="", gain=CERTAIN, helps=True)
COSTS = [Cost(name="reading", share=0.5, gain=CERTAIN), Cost(name="compute", share=0.4, gain=UNSURE)]
LIMITS = [
    *(Limit(name=name, costs=[replace(COSTS[0], name=name)], places=["parse"]) for name in (*PARTS, *KINDS)),
    *(Limit(name=None, costs=COSTS, unclear=why) for why in get_args(Unclear)),
]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: str(limit.name or limit.unclear))
def test_any_answer_has_at_most_six_lines(limit: Limit) -> None:
    advices = [[], [HELPS], [replace(HELPS, helps=False, gain=None)]]
    for keeping, changing, notes in product(advices, advices, ([], ["one"], ["one", "two"])):
        lines = words(answer(limit, keeping, 8, notes, changing, "sparksplit compare" if changing else None))
        assert 3 <= len(lines) <= 6 and all(lines)
        assert lines[0].startswith("What limits: ") and lines[1].startswith("What to set: ")
        assert ("readers=4" in lines[1]) == bool(keeping)
        assert not any("{" in line or "None" in line for line in lines)
        assert sum("note" in line.lower() for line in lines) == bool(notes)


def test_the_decision_is_what_helps() -> None:
    limit, other = LIMITS[0], replace(HELPS, helps=False)

    def decided(keeping: list[Advice], changing: list[Advice]) -> Answer:
        return answer(limit, keeping, 8, [], changing)

    assert decided([other, HELPS], [HELPS]).decision == "set"
    assert decided([other], [HELPS]).decision == "compare"
    assert decided([other], [other]).decision == decided([], []).decision == "nothing"
    slower, unknown = replace(HELPS, gain=UNSURE), replace(HELPS, gain=None)
    assert decided([], [unknown, slower, HELPS]).changing == [HELPS, slower, unknown]


def test_what_it_says_of_a_training_run_and_of_a_preparation() -> None:
    assert words(made_up.answer())[:2] == [
        "What limits: reading. Nodes wait 59 % of the time for rows. Without that, the run would be 2.51 times as fast "
        "(at least 2.32).",
        "What to set: --set readers=4 --set checkpoint.seconds=300: 1.87 times as fast (at least 1.79). The result "
        "stays the same. `--apply` writes it into your file.",
    ]
    assert words(preparation.answer())[1].endswith("1.37 times as fast (at least 1.31). The result stays the same.")


def test_parts_that_come_close_are_named_with_their_gains() -> None:
    (alike,) = (limit for limit in LIMITS if limit.unclear == "alike")
    assert words(answer(alike, [], 5, []))[0] == (
        "What limits: no single part: without reading, the run would be 1.87 times as fast (at least 1.79); without "
        "compute, the run would be 1.02 times as fast (0.95 to 1.1, so it may not help)."
    )


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (CERTAIN, "1.87 times as fast (at least 1.79)"),
        (UNSURE, "1.02 times as fast (0.95 to 1.1, so it may not help)"),
        (LOSS, "0.67 times as fast (0.55 to 0.81, so it is slower)"),
        (Gain(1.2, None, None), "1.2 times as fast (measured once)"),
        (None, "not measured"),
    ],
)
def test_a_gain_is_said_with_its_evidence(gain: Gain | None, said: str) -> None:
    assert times(gain) == said


def test_what_could_not_be_tried_is_said_with_the_cause() -> None:
    failed = replace(HELPS, gain=None, helps=False, failed="node 0: out of memory")
    assert advised(failed) == "--set readers=4: could not be tried: node 0: out of memory"
    assert advised(replace(failed, settings={"spark.x": 1})).startswith("--conf spark.x=1: ")
