"""diagnosis.html, without a browser: that it says what the record says, whatever that lacks."""

from __future__ import annotations

import html
import math
import re
from dataclasses import replace

import pytest

from sparksplit.base.records import Json
from sparksplit.diagnosis.answer import Advice, Gain
from sparksplit.diagnosis.diagnosis_record import Diagnosis, ReadersTable
from sparksplit.diagnosis.page import render
from sparksplit.diagnosis.verdict import Part, Share
from tests.comparison.report.pages import Tags, fetches_nothing, pictures, visible
from tests.diagnosis.made_up import SECONDS, answer, diagnosis

HOSTILE = "<script>alert('x')</script> & {{ x }} $a_b$"


def cells(page: str, table: str) -> list[list[str]]:
    """The rows of a table as they are shown."""
    found = re.search(rf'<table id="table-{table}".*?</table>', page, flags=re.DOTALL)
    assert found
    rows = re.findall(r"<tr>\s*(<th scope=row.*?)</tr>", found[0], flags=re.DOTALL)
    return [[visible(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)] for row in rows]


@pytest.fixture(scope="module")
def page() -> str:
    return render(diagnosis())


def test_it_begins_with_the_answer(page: str) -> None:
    words = visible(page)
    assert "The answer What limits: reading. Nodes wait 59 % of the time for rows." in words
    assert words.index("What to set") < words.index("Where the time goes") < words.index("Details")
    assert "notes a faster network would help too" in words


def test_commands_can_be_copied_in_one_line(page: str) -> None:
    """A line break after a hyphen made `--apply` two words."""
    assert "<pre><code>sparksplit diagnose --config FILE</code></pre>" in page
    assert f"<code>{html.escape(answer().next or '', quote=False)}</code>" in html.unescape(page)
    commands = re.findall(r"<code>([^<]*)</code>", page)
    assert not any("\n" in one for one in commands if "--" in one)
    # Text in a line is moved to the next one as a whole; it is broken only where it is longer than a line.
    (style,) = re.findall(r":not\(pre\) > code {([^}]*)}", page)
    assert "display: inline-block" in style and "max-width: 100%" in style


def test_its_tables_hold_the_records_values(page: str) -> None:
    words = visible(page)
    for told in ("waiting for rows 59.1 %", "copying rows to the device 0.0 %", "forward and backward pass 28.2 %"):
        assert told in words
    assert cells(page, "parts") == [
        ["reading", "2.51", "2.32 to 2.71", "12,345", "11,777 to 12,888", "81 %"],
        ["copy", "not certain", "0.97 to 1.06", "–", "–", "–"],
        ["synchronise", "1.09", "1.03 to 1.14", "140,449", "–", "7 %"],
        ["compute", "1.21", "1.17 to 1.26", "31,250", "–", "32 %"],
    ]
    assert cells(page, "readers") == [
        ["0", "8,111", "0.81", "0.78 to 0.84", ""],
        ["1", "10,007", "1.00", "1.00 to 1.00", "as configured"],
        ["2", "15,222", "1.52", "1.46 to 1.58", ""],
        ["4", "19,333", "1.93", "1.88 to 1.99", "the knee"],
        ["8", "19,444", "1.94", "1.87 to 2.01", ""],
    ]
    assert [row[:5] for row in cells(page, "settings")] == [
        ["readers=4, checkpoint.seconds=300", "1.87", "1.79 to 1.95", "yes", "the same"],
        ["strategy=local, sync.every=16", "1.07", "0.98 to 1.17", "not for certain", "changes"],
        ["batch_size=256", "–", "–", "not measured", "changes"],
    ]
    assert cells(page, "variants")[1] == [
        "repeated",
        "one batch again and again: nothing is read, transformed or put together",
        "40.0 µs",
        "37.5 µs to 42.5 µs",
        "25,000",
        "3",
    ]


def test_its_pictures_are_named_and_say_what_they_show(page: str) -> None:
    shown = pictures(page)
    words = [" ".join("".join(text.itertext()) for text in svg.iter() if text.tag.endswith("text")) for svg in shown]
    assert len(shown) == 4
    assert "59 % waiting for rows" in words[0] and "copying" not in words[0]
    assert "the step: 10,003 rows/s" in words[1]
    assert "the knee: 4" in words[2] and "as configured: 1" in words[2]
    assert "strategy=local, sync.every=16" in words[3] and "256" not in words[3]
    assert "costs too little to be told from nothing: copy." in visible(page)


def test_it_names_what_the_numbers_depend_on(page: str) -> None:
    words = visible(page)
    for text in (
        "configuration conf/mine.yaml",
        "nodes 2 on worker-one, worker-two",
        "6 for each node, of which TensorFlow uses 3",
        "60,000 for training, 30,000 of them on one node",
        "stay in memory, after 1.70 s of the first pass",
        "one exchange 1.73 MB from each node",
        "training stands still for 310 ms",
        "tensorflow 2.21.0",
        "sparksplit compare --set data=prepared/mnist",
    ):
        assert text in words, text


def test_the_same_record_gives_the_same_bytes_and_nothing_is_fetched(page: str) -> None:
    assert render(diagnosis()) == page
    assert len(page.encode()) < 300_000
    assert fetches_nothing(page)


def one_round(record: Diagnosis) -> Diagnosis:
    """The diagnosis from a single round, without intervals."""

    def alone(gain: Gain | None) -> Gain | None:
        return gain and Gain(gain.mean, None, None)

    def alone_in(advice: Advice) -> Advice:
        return replace(advice, gain=alone(advice.gain), helps=False)

    assert record.readers
    parts = [replace(part, gain=Gain(part.gain.mean, None, None)) for part in record.parts]
    rows = [replace(row, gain=alone(row.gain)) for row in record.readers.rows]
    seconds = {name: values[:1] for name, values in SECONDS.items()}
    return replace(
        record,
        parts=parts,
        readers=replace(record.readers, rows=rows),
        answer=answer(
            keeping=[alone_in(advice) for advice in record.answer.keeping],
            changing=[alone_in(advice) for advice in record.answer.changing],
            rounds=1,
        ),
        measured=replace(record.measured, seconds=seconds),
    )


def test_one_round_has_no_intervals() -> None:
    page = render(one_round(diagnosis()))
    assert [row[1:3] for row in cells(page, "parts")] == [["not certain", "–"]] * 4
    assert cells(page, "variants")[0][3] == "–"
    assert "Without a line: too few rounds for an interval." in visible(page)
    assert "1.87 times as fast (measured once)" in visible(page)
    assert "How sure: one round, so no interval is known." in visible(page)


def test_without_readers_advice_or_several_nodes() -> None:
    record = diagnosis(
        parts=[Part(name="compute", gain=Gain(1.5, 1.4, 1.6), rows_per_second=7.0, reached=1.0)],
        shares=[Share("forward and backward", 1.0)],
        readers=None,
        answer=answer(keeping=[], changing=[], next=None, notes=[]),
    )
    record = replace(record, config_file=None, measured=replace(record.measured, checkpoint=None))
    words = visible(page := render(record))
    assert len(pictures(page)) == 2
    assert "What to set: nothing. No setting that keeps the result is likely to help." in words
    assert "Readers were not swept" in words
    assert "No setting was likely to help, so none was tried." in words
    assert "from the command line alone" in words
    assert "none is written" in words
    assert "sparksplit compare" not in words


def test_nothing_measured_but_the_step() -> None:
    advice = Advice(settings={"batch_size": 8}, why="", gain=None, helps=False)
    empty = ReadersTable(now=1, knee=1, rows=[])
    page = render(diagnosis(parts=[], shares=[], readers=empty, answer=answer(keeping=[], changing=[advice])))
    assert pictures(page) == []
    for note in (
        "No share could be measured.",
        "No part of the step",
        "Readers were not",
        "What may help was not measured",
    ):
        assert note in visible(page)


def test_numbers_that_are_none_break_nothing() -> None:
    record = diagnosis()
    parts = [replace(part, gain=Gain(math.nan, -math.inf, math.inf)) for part in record.parts]
    shares = [Share("rows", math.nan), Share("copy", 1.0)]
    page = render(replace(record, parts=parts, shares=shares))
    assert cells(page, "parts")[0][:3] == ["reading", "not certain", "–"]


def test_what_is_not_certain_is_shown_as_no_figure() -> None:
    parts = [
        Part(name="copy", gain=Gain(0.92, 0.88, 0.96), rows_per_second=None, reached=None),
        Part(name="reading", gain=Gain(0.92, 0.8, 1.05), rows_per_second=None, reached=None),
    ]
    record = diagnosis()
    assert record.readers
    rows = [replace(record.readers.rows[0], gain=Gain(1.3, 0.9, 1.9)), *record.readers.rows[1:]]
    slower = Advice(settings={"readers": 8}, why="", gain=Gain(0.67, 0.55, 0.81), helps=False)
    page = render(
        replace(
            record,
            parts=parts,
            readers=replace(record.readers, rows=rows),
            answer=answer(keeping=[slower]),
        )
    )
    assert [row[:3] for row in cells(page, "parts")] == [
        ["copy", "nothing", "0.88 to 0.96"],
        ["reading", "not certain", "0.80 to 1.05"],
    ]
    assert cells(page, "readers")[0][2:4] == ["not certain", "0.90 to 1.90"]
    assert cells(page, "settings")[0][3] == "no, it is slower"


def test_what_could_not_be_tried_is_said_with_the_first_cause() -> None:
    failed = Advice(settings={"readers": 8}, why="", gain=None, helps=False, failed="node 1 on a: out of memory")
    page = render(diagnosis(answer=answer(keeping=[failed])))
    assert "readers=8: could not be tried: node 1 on a: out of memory" in visible(page)
    assert cells(page, "settings")[0][3] == "could not be tried"


def test_a_computed_gain_is_marked_and_has_no_interval() -> None:
    settings: dict[str, Json] = {"checkpoint.seconds": 60}
    advice = Advice(settings=settings, why="", gain=Gain(1.09, None, None), helps=True, computed=True)
    words = visible(page := render(diagnosis(answer=answer(keeping=[advice]))))
    assert "checkpoint.seconds=60: 1.09 times as fast (computed, not measured)" in words
    assert cells(page, "settings")[0][1:4] == ["1.09", "–", "yes, computed"]
    assert "A computed gain has no line." in words and "too few rounds" not in words


def test_nothing_of_the_users_is_markup() -> None:
    settings: dict[str, Json] = {HOSTILE: HOSTILE}
    advice = Advice(settings=settings, why=HOSTILE, gain=Gain(1.2, 1.1, 1.3), helps=True)
    page = render(
        diagnosis(
            config_file=HOSTILE,
            config={"data": HOSTILE, HOSTILE: HOSTILE},
            hosts=[HOSTILE],
            answer=answer(keeping=[advice], next=HOSTILE, notes=[HOSTILE]),
        )
    )
    assert [tag for tag, _ in Tags(page).found].count("script") == 1
