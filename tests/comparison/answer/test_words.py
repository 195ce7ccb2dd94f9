"""The answer in words: at most six lines, the same facts as its data."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from sparksplit.base.config import load
from sparksplit.comparison.answer.content import Answer, Gain, Next, Note, Option, Question
from sparksplit.comparison.answer.words import named, words
from sparksplit.comparison.content_table import TO_TARGET
from sparksplit.training.train_config import TrainConfig
from tests.comparison.answer.test_decide import pair, row, speed

COMMON = {"goal": TO_TARGET, "target": 0.9697, "metric": "accuracy", "split": "test", "seeds": 5, "margin": 0.0026}
SINGLE = Option(name="single", nodes=1, settings={"strategy": "single", "nodes": 1}, seconds=0.076, metric=0.9697)
BATCH = Option(name="batch", nodes=2, settings={"strategy": "batch", "nodes": 2}, seconds=0.0475, metric=0.9772)
LARGE = Option(
    name="single, batch_size = 64, learning_rate = 0.2", nodes=1, seconds=0.062, metric=0.9697,
    settings={"strategy": "single", "nodes": 1, "batch_size": 64, "optimizer.learning_rate": 0.2},
)  # fmt: skip
FASTER = Gain(
    speed=speed(row("batch", 2, 4.75, 0.97), 15.2, TO_TARGET), quality=pair("batch", "single", "no difference")
)


def test_decided():
    found = Answer(decision="use", choice=BATCH, gain=FASTER, runners_up=[SINGLE], **COMMON)
    assert words(found) == [
        "Use 2 nodes with `batch`: 1.6 times as fast as 1 node as configured (at least 1.36), same test accuracy "
        "within 0.26 points.",
        "2 nodes with `batch`: 47.5 ms to 96.97 % validation accuracy (0.0950 node-seconds); test accuracy 97.72 %. "
        "1 node as configured: 76.0 ms (0.0760 node-seconds); test accuracy 96.97 %.",
        "Train with: --set strategy=batch --set nodes=2",
        "How sure: 5 seeds. Of 100 such answers, at most 5 claim a difference that is not there, and at most 5 call "
        "values the same that are more than 0.26 points apart.",
    ]


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("not worse", "no worse test accuracy within 0.26 points."),
        ("better", "better test accuracy (+0.10 points)."),
    ],
)
def test_how_well_the_choice_learns(verdict, said):
    gain = replace(FASTER, quality=pair("batch", "single", verdict))
    found = Answer(decision="use", choice=BATCH, gain=gain, runners_up=[SINGLE], **COMMON)
    assert words(found)[0].endswith(f"(at least 1.36), {said}")


def test_what_to_train_with_can_be_pasted_into_a_shell():
    settings = {"strategy": "batch", "nodes": 2, "optimizer.name": "my>Opt", "init": "my runs/first; x", "loss": "0.10"}
    choice = replace(BATCH, settings={**settings, "class_weights": {"a b": 2.0}})
    found = Answer(decision="use", choice=choice, gain=FASTER, runners_up=[SINGLE], **COMMON)
    (line,) = (line for line in words(found) if line.startswith("Train with: "))
    assert line.startswith("Train with: --set strategy=batch --set nodes=2 --set 'optimizer.name=")
    given = shlex.split(line.removeprefix("Train with: "))
    assert set(given[::2]) == {"--set"}
    config = load(TrainConfig, None, ["data=d", "output=o", *given[1::2]])
    assert (config.strategy, config.nodes, config.optimizer.name) == ("batch", 2, "my>Opt")
    assert (config.init, config.loss, config.class_weights) == ("my runs/first; x", "0.10", {"a b": 2.0})


def test_one_seed():
    found = Answer(
        decision="undecided", choice=LARGE, gain=None, until=SINGLE, runners_up=[BATCH, SINGLE],
        **{**COMMON, "seeds": 1},
        open=[Question(name="batch", nodes=2, against="single", about="speed", seeds=5, obstacle="one seed")],
        notes=[Note(kind="one seed"), Note(kind="untuned")], next=Next(settings={"seeds": 5}, seconds=40.0),
    )  # fmt: skip
    assert words(found, "compare.") == [
        "No winner yet: one seed cannot tell a real difference from luck. For now, use 1 node as configured.",
        "The fastest so far is 1 node with batch_size 64, learning_rate 0.2: 62.0 ms to 96.97 % validation accuracy "
        "(0.0620 node-seconds); test accuracy 96.97 %.",
        "2 nodes with `batch`: 47.5 ms (0.0950 node-seconds); test accuracy 97.72 %. "
        "1 node as configured: 76.0 ms (0.0760 node-seconds); test accuracy 96.97 %.",
        "Next, to be surer: the same command with --set compare.seeds=5. It keeps the finished runs and goes on to 5 "
        "seeds (40.0 s more).",
        "Note: all strategies used one learning rate; --set compare.tune=8 tries eight for each.",
    ]


def test_undecided():
    """Was: about 8 seeds would decide it, beside a command for 20 that may stop at 10."""
    question = Question(name="batch", nodes=2, against="single", about="quality", seeds=8, seconds=90.0)
    notes = [Note(kind="diverged", name="epoch", nodes=2, number=2, of=5), Note(kind="no test rows")]
    following = Next(settings={"max_seeds": 20}, seconds=90.0, first_seeds=10, first_seconds=30.0)
    found = Answer(decision="undecided", choice=SINGLE, gain=None, open=[question], notes=notes, until=LARGE,
                   next=following, **COMMON)  # fmt: skip
    lines = words(found)
    assert lines[0] == (
        "No winner yet: 5 seeds do not decide whether 2 nodes with `batch` learn as well as 1 node as configured. "
        "For now, use 1 node with batch_size 64, learning_rate 0.2."
    )
    assert lines[2:] == [
        "Next, to be surer: the same command with --set max_seeds=20. It keeps the finished runs and stops when it is "
        "decided: after 10 seeds (30.0 s more) at the earliest, after 20 (90.0 s more) at the latest.",
        "Note: 2 nodes with `epoch` diverged with 2 of 5 seeds: the loss or the metric was no longer a number. "
        "(1 more note in report.html.)",
    ]
    question = replace(question, seeds=None, rows=4000)
    assert words(replace(found, open=[question], next=None))[2] == (
        "About 4,000 rows to test with would decide it; more seeds do not."
    )


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (Note(kind="other place", name="batch", nodes=2), "was not timed where most runs were."),
        (Note(kind="diverged", name="batch", nodes=2, number=1, of=5),
         "diverged with 1 of 5 seeds: the loss or the metric was no longer a number."),
        (Note(kind="unmet", name="batch", nodes=2, number=1, of=5),
         "did not reach 96.97 % validation accuracy with 1 of 5 seeds."),
    ],
)  # fmt: skip
def test_a_row_that_cannot_win_is_named_once_with_the_reason(note, why):
    question = Question(name="batch", nodes=2, against="single", about="speed", obstacle="incomplete")
    found = Answer(
        decision="undecided", choice=SINGLE, gain=None, open=[question], notes=[note], until=SINGLE, **COMMON
    )
    lines = words(found)
    assert lines[0] == f"No winner: 2 nodes with `batch` {why} For now, use 1 node as configured."
    assert len(lines) == 2


def test_stay():
    notes = [Note(kind="learns better", name="local", nodes=2, number=0.0125), Note(kind="untuned")]
    found = Answer(decision="stay", choice=SINGLE, gain=None, runners_up=[BATCH], notes=notes,
                   next=Next(settings={"tune": 8}, seconds=90.0), **COMMON)  # fmt: skip
    assert words(found) == [
        "Stay on 1 node as configured: nothing else is shown to be faster without learning worse.",
        "1 node as configured: 76.0 ms to 96.97 % validation accuracy (0.0760 node-seconds); test accuracy 96.97 %.",
        "2 nodes with `batch`: 47.5 ms (0.0950 node-seconds); test accuracy 97.72 %.",
        "Train with: --set strategy=single --set nodes=1",
        "How sure: 5 seeds. Of 100 such answers, at most 5 claim a difference that is not there, and at most 5 call "
        "values the same that are more than 0.26 points apart.",
        "Optional, to try other learning rates, which may change the answer: the same command with --set tune=8 "
        "--overwrite. It replaces this comparison and takes about 90.0 s. (1 note in report.html.)",
    ]
    noted = words(replace(found, next=None))[-1]
    assert noted == (
        "Note: learns better than 1 node as configured: 2 nodes with `local` (+1.25 points in test accuracy). "
        "(1 more note in report.html.)"
    )


def test_that_seeds_alone_are_counted_is_said_however_little_room_there_is():
    alone = Note(kind="seeds alone", key="key")
    said = (
        "Intervals count the seeds alone, not the choice of test rows: rows that `cut.by: key` keeps together depend "
        "on each other."
    )
    question = Question(name="batch", nodes=2, against="single", about="speed", seeds=12)
    lost = [Note(kind="diverged", name="epoch", nodes=2, number=2, of=5)]
    following = Next(settings={"max_seeds": 16}, seconds=90.0)
    stay = Answer(decision="stay", choice=SINGLE, gain=None, runners_up=[BATCH], notes=[alone, *lost],
                  next=following, **COMMON)  # fmt: skip
    assert len(words(stay)) == 6
    assert words(stay)[4].startswith("How sure: 5 seeds.") and words(stay)[4].endswith(said)
    assert words(stay)[5].endswith(" (1 note in report.html.)")
    undecided = replace(stay, decision="undecided", open=[question])
    assert words(undecided)[-1] == f"Note: i{said[1:]} (1 more note in report.html.)"
    small = replace(undecided, open=[replace(question, seeds=None, obstacle="too small")])
    assert words(small)[3] == f"The difference is too small to be decided. {said}"
    assert words(small)[5].startswith("Note: 2 nodes with `epoch` diverged with 2 of 5 seeds")
    nothing_open = words(replace(undecided, notes=[*lost, alone], open=[]))
    assert nothing_open[-1].startswith("Note: 2 nodes with `epoch` diverged")
    incomplete = replace(undecided, notes=[alone, *lost], open=[replace(question, seeds=None, obstacle="incomplete")])
    assert words(incomplete)[-1] == f"Note: i{said[1:]} (1 more note in report.html.)"


@pytest.mark.parametrize(
    ("fields", "begin"),
    [
        ({"decision": "stay", "choice": LARGE, "gain": FASTER},
         "Use 1 node with batch_size 64, learning_rate 0.2: 1.6 times as fast as 1 node as configured (at least"),
        ({"decision": "undecided", "choice": None, "notes": [Note(kind="diverged", name="single", nodes=1, number=5,
          of=5)]}, "No winner: 1 node as configured diverged with 5 of 5 seeds: the loss"),
        ({"decision": "nothing to compare", "choice": None, "notes": [Note(kind="missing", key="nodes", nodes=2)]},
         "Nothing to compare: add 2 to `nodes`."),
        ({"decision": "nothing to compare", "choice": None,
          "notes": [Note(kind="missing", key="strategies", name="single", nodes=1)]},
         "Nothing to compare: add `single` to `strategies`."),
    ],
)  # fmt: skip
def test_the_headline(fields, begin):
    assert words(Answer(**{"gain": None, **COMMON, **fields}))[0].startswith(begin)


@pytest.mark.parametrize(
    ("name", "nodes", "said"),
    [
        ("single", 1, "1 node as configured"),
        ("single, batch_size = 64", 1, "1 node with batch_size 64"),
        ("local, H = 32, nesterov", 4, "4 nodes with `local`, sync every 32 steps, nesterov"),
        ("local, H = 32, nesterov", 1, "1 node with `local`, sync every 32 steps, nesterov"),
    ],
)
def test_a_rows_name_leaves_out_what_all_share(name, nodes, said):
    assert named(name, nodes) == said
