"""The page of a preparation, without a browser: that it says what the record says, whatever that lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparksplit.diagnosis.preprocess.page import render
from tests.comparison.report.pages import Tags, pictures, visible
from tests.diagnosis.preprocess.made_up import preparation
from tests.diagnosis.test_page import HOSTILE, cells


@pytest.fixture(scope="module")
def page() -> str:
    return render(preparation())


def test_it_begins_with_the_limit_and_what_was_tried(page: str) -> None:
    words = visible(page)
    assert "The answer One task has more rows than the others, which wait for it: it costs 6.1 of 21.5 s" in words
    assert "The preparation 300,123 rows in 21.5 s, with 2 tasks at the same time" in words
    assert "Tried spark.sql.files.maxPartitionBytes: 1048576: 27 % less time (22.0 s to 16.0 s; 95 % interval" in words
    assert "What helps spark.sql.files.maxPartitionBytes cuts the files into more pieces" in words


def test_its_tables_hold_the_records_values(page: str) -> None:
    parts = cells(page, "parts")
    assert [row[0] for row in parts] == ["open", "parse", "write", "publish"]
    assert parts[1][2:] == [
        "12.0 s", "56 %", "2 + 1 failed", "11.5 s", "3.50 s", "1.5 times", "38 %", "2 %", "0 B", "0 B",
    ]  # fmt: skip
    assert parts[2][-1] == "3.30 MB"
    assert [row[:1] + row[2:4] for row in cells(page, "troubles")] == [
        ["skew", "parse, count", "6.10 s"],
        ["spill", "write", "not known"],
    ]
    assert cells(page, "tried") == [
        ["spark.sql.files.maxPartitionBytes: 1048576", "skew", "22.0 s", "16.0 s", "27 %", "24 % to 30 %", "3", "yes"]
    ]


def test_its_pictures_say_what_they_show(page: str) -> None:
    shown = pictures(page)
    words = [" ".join("".join(text.itertext()) for text in svg.iter() if text.tag.endswith("text")) for svg in shown]
    assert len(shown) == 2
    assert "parse: 12.0 s" in words[0] and "slots wait" in words[0]
    assert "spark.sql.files" in words[1]


def test_it_names_what_the_numbers_depend_on(page: str) -> None:
    words = visible(page)
    for text in (
        "configuration conf/mine.yaml",
        "master spark://driver:7077",
        "input 8 files, 52.0 MB; 8 of them one task&#39;s each",
        "largest file /raw/large.csv.gz, 39.0 MB",
        "What helps against spill was not tried: only settings that can change while Spark runs are tried.",
        "pyspark 3.5.9",
    ):
        assert text in words, text


def test_a_preparation_without_troubles_has_a_page_too() -> None:
    page = render(preparation(troubles=[], tried=[], parts=[], files=None, config_file=None, seconds=0.0))
    words = visible(page)
    assert pictures(page) == []
    assert "Nothing that costs a tenth of the time." in words and "Nothing was tried." in words
    assert "from the command line alone" in words


def test_a_single_pair_has_no_interval() -> None:
    tried = replace(preparation().tried[0], before=[2.0], after=[1.0], low=None, high=None)
    page = render(preparation(tried=[tried]))
    assert cells(page, "tried")[0][5] == "–"
    assert "Without a line: a single pair" in visible(page)


def test_the_same_record_gives_the_same_bytes_and_nothing_is_fetched(page: str) -> None:
    assert render(preparation()) == page
    for tag, attributes in Tags(page).found:
        assert tag not in ("link", "iframe", "object", "embed")
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)


def test_nothing_of_the_users_is_markup() -> None:
    record = preparation(output=HOSTILE, sentence=HOSTILE, config={HOSTILE: HOSTILE}, config_file=HOSTILE)
    trouble = replace(record.troubles[0], why=HOSTILE, help=[HOSTILE])
    tried = replace(record.tried[0], settings={HOSTILE: HOSTILE})
    assert record.files is not None
    files = replace(record.files, largest=HOSTILE)
    page = render(replace(record, troubles=[trouble], tried=[tried], files=files))
    assert [tag for tag, _ in Tags(page).found].count("script") == 1
