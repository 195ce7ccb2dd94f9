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

COMMON = {"goal": TO_TARGET, "target": 0.9697, "metric": "accuracy", "split": "test", "seeds": 5}
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
        "Use 2 nodes with `batch`: 1.6 times as fast as 1 node (at least 1.36), same test accuracy (97.72 %).",
        "Time to 96.97 % validation accuracy: 47.5 ms; 1 node: 76.0 ms. "
        "Cost: 0.0950 node-seconds; 1 node: 0.0760 node-seconds.",
        "Train with: --set strategy=batch --set nodes=2",
        "How sure: 5 seeds; of 100 such answers at most 5 are wrong.",
    ]


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
        decision="undecided", choice=LARGE, gain=None, runners_up=[BATCH, SINGLE], **{**COMMON, "seeds": 1},
        open=[Question(name="batch", nodes=2, against="single", about="speed", seeds=5, obstacle="one seed")],
        notes=[Note(kind="one seed"), Note(kind="untuned")], next=Next(settings={"seeds": 5}, seconds=40.0),
    )  # fmt: skip
    assert words(found, "compare.") == [
        "No winner yet: one seed cannot tell a real difference from luck.",
        "Fastest so far: 1 node, batch_size 64, learning_rate 0.2: 62.0 ms to 96.97 % validation accuracy "
        "(0.0620 node-seconds); test accuracy 96.97 %.",
        "2 nodes with `batch`: 47.5 ms (0.0950 node-seconds); test accuracy 97.72 %. "
        "1 node as configured: 76.0 ms (0.0760 node-seconds); test accuracy 96.97 %.",
        "Next, to be surer (5 seeds in all): the same command with --set compare.seeds=5. It takes about 40.0 s.",
        "Note: all strategies used one learning rate; --set compare.tune=8 tries eight for each.",
    ]


def test_undecided():
    question = Question(name="batch", nodes=2, against="single", about="quality", seeds=12, seconds=90.0)
    notes = [Note(kind="diverged", name="epoch", nodes=2, number=2, of=5), Note(kind="no test rows")]
    found = Answer(decision="undecided", choice=SINGLE, gain=None, open=[question], notes=notes,
                   next=Next(settings={"max_seeds": 16}, seconds=90.0), **COMMON)  # fmt: skip
    lines = words(found)
    assert lines[0] == (
        "No winner yet: 5 seeds do not decide whether 2 nodes with `batch` learn as well as 1 node as configured."
    )
    assert lines[2:] == [
        "About 12 seeds would decide it.",
        "Next, to be surer (up to 16 seeds in all): the same command with --set max_seeds=16. It takes at most 90.0 s.",
        "Note: 2 nodes with `epoch` diverged with 2 of 5 seeds. (1 more note in the report.)",
    ]


def test_stay():
    notes = [Note(kind="learns better", name="local", nodes=2, number=0.0125), Note(kind="untuned")]
    found = Answer(decision="stay", choice=SINGLE, gain=None, runners_up=[BATCH], notes=notes,
                   next=Next(settings={"tune": 8}, seconds=90.0), **COMMON)  # fmt: skip
    assert words(found)[1:] == [
        "1 node as configured: 76.0 ms to 96.97 % validation accuracy (0.0760 node-seconds); test accuracy 96.97 %.",
        "2 nodes with `batch`: 47.5 ms (0.0950 node-seconds); test accuracy 97.72 %.",
        "Train with: --set strategy=single --set nodes=1",
        "How sure: 5 seeds; of 100 such answers at most 5 are wrong.",
        "Next, to try other learning rates: the same command with --set tune=8 --overwrite. It takes about 90.0 s. "
        "(1 note in the report.)",
    ]
    noted = words(replace(found, next=None))[-1]
    assert noted == (
        "Note: learns better than 1 node as configured: 2 nodes with `local` (+1.25 points in test accuracy). "
        "(1 more note in the report.)"
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
    assert words(stay)[4] == f"How sure: 5 seeds; of 100 such answers at most 5 are wrong. {said}"
    assert words(stay)[5].endswith(" It takes at most 90.0 s. (1 note in the report.)")
    undecided = replace(stay, decision="undecided", open=[question])
    assert words(undecided)[3] == f"About 12 seeds would decide it. {said}"
    assert words(undecided)[5] == "Note: 2 nodes with `epoch` diverged with 2 of 5 seeds."
    nothing_open = words(replace(undecided, notes=[*lost, alone], open=[]))
    assert nothing_open[-1].startswith("Note: 2 nodes with `epoch` diverged")
    incomplete = replace(undecided, notes=[alone, *lost], open=[replace(question, seeds=None, obstacle="incomplete")])
    assert words(incomplete)[-1] == f"Note: i{said[1:]} (1 more note in the report.)"


@pytest.mark.parametrize(
    ("fields", "begin"),
    [
        ({"decision": "stay", "choice": SINGLE, "runners_up": [BATCH]}, "Stay on 1 node: no strategy on several nodes"),
        ({"decision": "stay", "choice": LARGE, "gain": FASTER},
         "Stay on 1 node, batch_size 64, learning_rate 0.2: 1.6 times as fast as configured (at least 1.36), same"),
        ({"decision": "undecided", "choice": None, "notes": [Note(kind="diverged", name="single", nodes=1, number=5,
          of=5)]}, "No winner: 1 node as configured diverged with 5 of 5 seeds."),
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
        ("single, batch_size = 64", 1, "1 node, batch_size 64"),
        ("local, H = 32, nesterov", 4, "4 nodes with `local`, sync every 32 steps, nesterov"),
        ("local, H = 32, nesterov", 1, "1 node with `local`, sync every 32 steps, nesterov"),
    ],
)
def test_a_rows_name_leaves_out_what_all_share(name, nodes, said):
    assert named(name, nodes) == said
