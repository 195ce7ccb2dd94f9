"""The answer in words: at most six lines, with the facts of its data."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from sparksplit.base.config import load
from sparksplit.comparison.answer.content import Answer, Gain, Next, Note, Question
from sparksplit.comparison.answer.words import needed, noted, whether, words
from sparksplit.comparison.content_table import TO_TARGET
from sparksplit.comparison.named import named
from sparksplit.comparison.tuning.tuning_record import Tuning
from sparksplit.training.train_config import TrainConfig
from tests.comparison.answer.test_decide import pair, row, speed
from tests.comparison.records import metric_of, some_results

SINGLE = replace(row("single", 1, 0.076, 0.9697), settings={"strategy": "single", "nodes": 1})
BATCH = replace(row("batch", 2, 0.0475, 0.9772), settings={"strategy": "batch", "nodes": 2})
FASTER = Gain(speed=speed(BATCH, SINGLE.seconds, TO_TARGET), quality=pair("batch", "single", "no difference", 0.0075))
USE = Answer(decision="use", choice=BATCH, gain=FASTER, runners_up=[SINGLE])
UNSURE = Question(name="batch", nodes=2, against="single", about="speed", seeds=12)
OPEN = Answer(decision="undecided", choice=BATCH, until=SINGLE, runners_up=[SINGLE], open=[UNSURE])
ROW_LOST = [
    Note(kind="other place", name="batch", nodes=2),
    Note(kind="diverged", name="batch", nodes=2, number=1, of=5),
    Note(kind="unmet", name="batch", nodes=2, number=1, of=5),
]
KINDS = get_args(get_type_hints(Note)["kind"])
MORE = Next(settings={"max_seeds": 20}, seeds=[10, 20], seconds=[30.0, 90.0])


def made(answer, seeds=5, single=SINGLE, **fields):
    seen = {"seeds": list(range(seeds)), "answer": answer, **fields}
    return some_results([single, BATCH], [], metric_of(margin=0.0026), **seen)


def said(answer, *where, **fields):
    lines = words(made(answer, **fields), *where)
    assert 1 <= len(lines) <= 6 and all(lines)
    return lines


def numbers(line):
    """The numbers in a line, as they are written."""
    return [word.strip("(),.;:") for word in line.split() if word.strip("(),.;:").replace(".", "").isdigit()]


def test_a_decided_answer_has_the_figures_of_its_data():
    head, figures, train, sure = said(USE)
    assert numbers(head) == ["2", "1.6", "1", "1.36", "0.26"]
    assert numbers(figures) == ["2", "47.5", "95.00", "0.0950", "97.72", "1", "76.0", "0.0760", "96.97"]
    assert train == "Train with: --set strategy=batch --set nodes=2"
    assert numbers(sure) == ["5", "100", "5", "1", "0.26"]
    # Where `single` misses the target, the seconds of all passes count.
    missed = replace(SINGLE, to_target=replace(SINGLE.to_target, reached=4))
    assert numbers(said(USE, single=missed)[1])[:2] == ["2", "95.0"]


def test_a_quicker_row_on_one_node_that_may_be_used_too_is_shown_beside_the_choice():
    """Was left out, although it cost less."""
    large = row("single, batch_size = 128", 1, 0.02, 0.97)
    figures = said(replace(USE, runners_up=[large, SINGLE]))[1]
    assert " 1 node with batch_size 128 (quicker, and learns as well as 1 node as configured): 20.0 ms" in figures
    assert figures.endswith(" 1 node as configured: 76.0 ms (0.0760 node-seconds); test accuracy 96.97 %.")


@pytest.mark.parametrize(
    ("verdict", "end"),
    [
        ("no difference", "same test accuracy (within the tolerance of 0.26 points)."),
        ("not worse", "test accuracy worse by less than 0.26 points, if at all."),
        ("better", "(+0.75 points)."),
        ("undecided", "test accuracy worse by less than 0.26 points, if at all."),
        ("worse", "worse test accuracy (+0.75 points), by less than 0.26 points."),
    ],
)
def test_how_well_the_choice_learns_is_within_the_margin_or_better_by_a_difference(verdict, end):
    gain = replace(FASTER, quality=replace(FASTER.quality, verdict=verdict))
    assert said(replace(USE, gain=gain))[0].endswith(end)


def test_each_decision_begins_with_what_to_do():
    heads = [
        said(USE)[0],
        said(replace(USE, decision="stay"))[0],
        said(Answer(decision="stay", choice=SINGLE, runners_up=[BATCH]))[0],
        said(OPEN)[0],
        *(
            said(Answer(decision="nothing to compare", notes=[Note(kind=kind)]))[0]
            for kind in ("no single", "no other")
        ),
    ]
    assert [head.split()[0] for head in heads] == ["Use", "Use", "Stay", "No", "Nothing", "Nothing"]
    assert heads[3].endswith("For now, use 1 node as configured.") and whether(UNSURE, made(OPEN)) in heads[3]


def test_without_a_winner_it_says_what_to_use_for_now():
    larger = row("single, batch_size = 128", 1, 0.06, 0.9697)
    against = replace(UNSURE, against=larger.name)
    assert said(replace(OPEN, until=larger))[0].endswith(
        ": it is shown to be faster, and to learn no worse by more than 0.26 points."
    )
    assert said(replace(OPEN, open=[against]))[0].endswith("win only if they also beat one node with other settings.")
    assert "For now" not in said(replace(OPEN, until=None))[0]
    larger = replace(larger, settings={"batch_size": 128})
    assert [line for line in said(replace(OPEN, until=larger)) if "--set" in line] == [
        "For now, train with: --set batch_size=128"
    ]


def test_who_stays_as_configured_is_told_how_sure_the_others_are_slower():
    sure = said(Answer(decision="stay", choice=SINGLE, runners_up=[BATCH]))[3]
    assert sure.startswith("How sure") and "slower or worse" in sure and "recommend" not in sure


def test_who_stays_is_told_that_rows_with_a_diverged_run_do_not_count():
    """Was: "nothing else is shown to be faster without learning worse", beside a row that was, in four runs of five."""
    assert said(Answer(decision="stay", choice=SINGLE, runners_up=[BATCH]))[0].endswith("learning worse or diverging.")


@pytest.mark.parametrize("note", ROW_LOST)
def test_a_row_that_cannot_win_is_named_once_with_the_reason(note):
    answer = replace(OPEN, notes=[note], open=[replace(UNSURE, about="faults", seeds=None)])
    assert [noted(note, made(answer)) in line for line in said(answer)].count(True) == 1
    assert noted(note, made(answer)) in said(answer)[0]
    # The reason is about the row that is asked for.
    other = said(replace(answer, notes=[replace(note, nodes=4)], open=[UNSURE]))
    assert whether(UNSURE, made(OPEN)) in other[0] and other[-1].startswith("Note: 4 nodes")
    # Without a question, it is `single` that has no time.
    alone = replace(answer, choice=None, until=None, open=[], notes=[replace(note, name="single", nodes=1), note])
    assert noted(alone.notes[0], made(alone)) in said(alone)[0]


def test_one_seed_is_no_reason_for_any_other():
    head, *_, last = said(replace(OPEN, notes=[Note(kind="one seed"), *ROW_LOST]), seeds=1)
    assert noted(Note(kind="one seed"), made(OPEN)) in head and noted(ROW_LOST[0], made(OPEN)) in last


def test_there_is_room_for_a_note_and_the_number_of_the_others_in_every_answer():
    notes = [Note(kind="seeds alone", key="windows"), *(replace(note, nodes=4) for note in ROW_LOST)]
    faster = replace(USE, open=[UNSURE])
    for answer in (faster, replace(faster, decision="stay", runners_up=[BATCH, SINGLE]),
                   replace(OPEN, open=[replace(UNSURE, seeds=None, rows=4000), UNSURE])):  # fmt: skip
        lines = said(replace(answer, next=MORE, notes=notes), "there")
        assert len(lines) in (5, 6) and "on each other" in lines[-1] and lines[-1].endswith("(3 more notes there.)")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_note_is_a_sentence(kind):
    note = Note(kind=kind, name="local, H = 4", nodes=2, number=2.0, of=5, key="learning rate")
    text = noted(note, made(USE, within="compare."))
    assert text.endswith(".") and not set("{}") & set(text)
    assert ("2 nodes with `local`" in text) == (
        kind in ("diverged", "unmet", "other place", "learns better", "edge", "slow network")
    )
    assert ("compare.tune=8" in text) == (kind == "untuned")
    # In quickstart, --overwrite does all four commands anew.
    assert ("other steps" in text) == (kind == "untuned") and "other steps" not in noted(note, made(USE))


def test_the_next_command_has_the_section_of_the_file_and_says_when_it_stops():
    line = said(replace(OPEN, next=MORE), within="compare.")[2]
    # With --overwrite, which the command may have had, it keeps nothing.
    assert line.startswith("Next") and "--set compare.max_seeds=20, without --overwrite. It keeps" in line
    assert numbers(line) == ["10", "30.0", "20", "90.0"]
    after = Next(settings={"max_seeds": 10}, seeds=[10], seconds=[30.0])
    line = said(replace(USE, open=[replace(UNSURE, nodes=4)], next=after))[4]
    assert line.startswith("Optional, to see whether 4 nodes with `batch` are faster")
    # A look at a finished comparison costs certainty.
    assert numbers(line.partition("configured")[2]) == ["10", "30.0", "10", "100"]


def test_what_would_decide_it_is_told_where_no_seeds_are_known():
    assert "4,000 rows" in said(replace(OPEN, open=[replace(UNSURE, seeds=None, rows=4000)]))[2]
    assert "1,000 seeds would not" in said(replace(OPEN, open=[replace(UNSURE, seeds=None, more_than=1000)]))[2]
    unknown = replace(UNSURE, seeds=None)
    assert needed(unknown) == said(replace(OPEN, open=[unknown]))[2]
    assert "About 12 seeds" in needed(UNSURE) and len(said(OPEN)) == 2


def test_one_node_is_and_several_are():
    assert whether(UNSURE, made(OPEN)) == "whether 2 nodes with `batch` are faster than 1 node as configured"
    alone = replace(UNSURE, name="single, batch_size = 64", nodes=1, about="quality")
    assert whether(alone, made(OPEN)) == "whether 1 node with batch_size 64 learns as well as 1 node as configured"
    beside = replace(UNSURE, against="single, batch_size = 64", about="quality")
    assert whether(beside, made(OPEN)) == "whether 2 nodes with `batch` learn better than 1 node with batch_size 64"


TUNED = Tuning(
    metric="accuracy", tries=8, seeds=[2_000_001], strategies=[], runs=8, diverged=0, passes=96, node_seconds=1.0
)


@pytest.mark.parametrize(
    "answer",
    [
        USE,
        Answer(
            decision="stay", choice=SINGLE, runners_up=[BATCH], notes=[Note(kind="learns better", name="a", nodes=2)]
        ),
        OPEN,
    ],
)
def test_a_tuned_single_is_not_as_configured(answer):
    """Its learning rate is the best of those tried."""
    plain, tuned = (" ".join(words(replace(made(answer), tuning=tuning))) for tuning in (None, TUNED))
    assert "1 node as configured" in plain and "configured" not in tuned
    assert plain.count("as configured") == tuned.count("1 node with its best learning rate")


def test_a_tuned_single_is_used_for_now_with_the_learning_rate_that_was_found():
    """Was: "keep 1 node with its best learning rate", without that learning rate."""
    until = replace(SINGLE, settings={**SINGLE.settings, "optimizer.learning_rate": 0.03})
    lines = said(replace(OPEN, until=until), tuning=TUNED)
    assert lines[0].endswith("For now, use 1 node with its best learning rate.")
    assert "For now, train with: --set strategy=single --set nodes=1 --set optimizer.learning_rate=0.03" in lines


def test_what_to_train_with_can_be_pasted_into_a_shell():
    settings = {"strategy": "batch", "nodes": 2, "optimizer.name": "my>Opt", "init": "my runs/first; x", "loss": "0.10"}
    choice = replace(BATCH, settings={**settings, "class_weights": {"a b": 2.0}})
    (line,) = (line for line in said(replace(USE, choice=choice)) if line.startswith("Train with: "))
    assert line.startswith("Train with: --set strategy=batch --set nodes=2 --set 'optimizer.name=")
    given = shlex.split(line.removeprefix("Train with: "))
    assert set(given[::2]) == {"--set"}
    config = load(TrainConfig, None, ["data=d", "output=o", *given[1::2]])
    assert (config.strategy, config.nodes, config.optimizer.name) == ("batch", 2, "my>Opt")
    assert (config.init, config.loss, config.class_weights) == ("my runs/first; x", "0.10", {"a b": 2.0})


@pytest.mark.parametrize(
    ("name", "nodes", "text"),
    [
        ("single", 1, "1 node as configured"),
        ("single, batch_size = 64", 1, "1 node with batch_size 64"),
        ("local, H = 32, nesterov", 4, "4 nodes with `local` (sync every 32 steps, nesterov)"),
        ("local, H = 32, nesterov", 1, "1 node with `local` (sync every 32 steps, nesterov)"),
    ],
)
def test_a_rows_name_leaves_out_what_all_share(name, nodes, text):
    assert named(name, nodes) == text
