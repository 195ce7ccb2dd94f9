"""What a preparation's diagnosis says, on its page and on the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparksplit.diagnosis.answer import Gain
from sparksplit.diagnosis.preprocess.page import render
from tests.comparison.report.pages import Tags, fetches_nothing, visible
from tests.diagnosis.preprocess.made_up import answer, preparation
from tests.diagnosis.test_page import HOSTILE, cells


@pytest.fixture(scope="module")
def page() -> str:
    return render(preparation())


def test_it_begins_with_the_limit_and_has_what_the_numbers_depend_on(page: str) -> None:
    words = visible(page)
    for text in (
        "The answer What limits: skew. One task has more rows than the others, which wait for it: 28 % of the time",
        "prepared 300,123 rows in 21.5 s",
        "configuration conf/mine.yaml",
        "master spark://driver:7077",
        "input 8 files, 52.0 MB; 8 of them one task&#39;s each",
        "largest file /raw/large.csv.gz, 39.0 MB",
        "pyspark 3.5.9",
        "sparksplit diagnose --config FILE",
    ):
        assert text in words, text


def test_its_tables_hold_the_records_values(page: str) -> None:
    parts = cells(page, "parts")
    assert [row[0] for row in parts] == ["open", "parse", "write", "publish"]
    assert parts[1][1:] == ["rows are read, parsed, hashed and kept", "12.0 s", "56 %", "4.50 s", "2"]
    assert [row[:1] + row[2:4] + row[5:] for row in cells(page, "troubles")] == [
        ["skew", "parse, count", "6.10 s", "spark.sql.files.maxPartitionBytes cuts the files into more pieces"],
        ["spill", "write", "not known", "more memory; disks"],
    ]
    why = "one task has more rows than the others"
    assert cells(page, "settings") == [
        ["spark.sql.files.maxPartitionBytes=1048576", "1.37", "1.31 to 1.43", "yes", "the same", why]
    ]


def test_a_preparation_without_troubles_has_a_page_too() -> None:
    words = visible(render(preparation(troubles=[], answer=answer(keeping=[]), files=None, config_file=None)))
    assert "Nothing that costs a tenth of the time." in words
    assert "from the command line alone" in words


def test_a_setting_that_could_not_be_tried_is_named_with_the_reason() -> None:
    why = "the preparation fails with it: no memory"
    failed = replace(answer().keeping[0], gain=None, helps=False, failed=why)
    page = render(preparation(answer=answer(keeping=[failed])))
    assert "could not be tried: the preparation fails with it: no memory" in visible(page)
    assert cells(page, "settings")[0][1:4] == ["–", "–", "could not be tried"]


@pytest.mark.parametrize(
    ("gain", "helps", "said"),
    [
        (Gain(0.7, 0.6, 0.8), False, ["0.70", "0.60 to 0.80", "no, it is slower"]),
        (Gain(1.2, 0.9, 1.5), False, ["1.20", "0.90 to 1.50", "not for certain"]),
        (Gain(1.2, None, None), True, ["1.20", "–", "yes, measured only once"]),
        (Gain(1.05, None, None), False, ["1.05", "–", "not for certain, measured only once"]),
    ],
)
def test_only_what_helps_is_recommended(gain: Gain, helps: bool, said: list[str]) -> None:
    page = render(preparation(answer=answer(keeping=[replace(answer().keeping[0], gain=gain, helps=helps)])))
    assert cells(page, "settings")[0][1:4] == said
    assert "if measured only once, from 1.1" in visible(page)


def test_nothing_of_the_users_is_markup_and_nothing_is_fetched() -> None:
    record = preparation(output=HOSTILE, config={HOSTILE: HOSTILE}, config_file=HOSTILE)
    assert record.files is not None
    record = replace(
        record,
        troubles=[replace(record.troubles[0], why=HOSTILE, help=[HOSTILE])],
        answer=answer(keeping=[replace(answer().keeping[0], settings={HOSTILE: HOSTILE})], notes=[HOSTILE]),
        files=replace(record.files, largest=HOSTILE),
    )
    assert [tag for tag, _ in Tags(render(record)).found].count("script") == 1
    assert fetches_nothing(render(record))
