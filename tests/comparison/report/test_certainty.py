"""How sure the page says that it is."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from sparksplit.comparison.answer.content import NO_ANSWER, Note, Question
from sparksplit.comparison.answer.words import noted, whether
from sparksplit.comparison.content import Results
from sparksplit.comparison.report import tables
from sparksplit.comparison.report.certainty import how_sure
from sparksplit.pages import sentence
from tests.comparison import sample
from tests.comparison.answer.test_decide import pair
from tests.comparison.records import metric_of, some_results


def told(results: dict[str, Any], **parts: Any) -> dict[str, str]:
    """The facts by their names."""
    return dict(how_sure(Results.from_json({**results, **parts}, "a test")))


def test_virtual_nodes_have_their_own_seeds_and_their_own_chance_of_being_wrong() -> None:
    """Were counted among the differences of which at most 5 of 100 pages call any wrongly."""
    results = sample.results(seeds=3)
    for row in results["table"]:
        row["runs"] = 1 if row["virtual"] else row["runs"]
    pairs = results["pairs"]
    far = [{**pair, "nodes": 4, "virtual": True, "against": "single", "against_nodes": 1} for pair in pairs[:3]]
    assert [pair["verdict"] for pair in far] == ["better", "no difference", "undecided"]
    found = told(results, pairs=[*pairs, *far])
    assert found["seeds"] == "3 for each row on real nodes, the same for all of them"
    assert found["decided"] == (
        "8 of 11 differences on real nodes, judged together: of 100 such pages at most 5 call a row on real nodes "
        "wrongly better, worse, faster or slower"
    )
    assert found["virtual nodes"] == (
        "1 seed for each row; 2 of 3 differences, judged apart from the others: of 100 such pages at most 5 call a row "
        "on virtual nodes wrongly better or worse"
    )


def test_without_virtual_nodes_there_is_no_word_of_them() -> None:
    results = sample.results(seeds=3)
    found = told(results, virtual=[], table=[row for row in results["table"] if not row["virtual"]], earlier=[2])
    assert found["seeds"] == "3 for each row, the same for all of them"
    assert found["decided"].startswith("8 of 11 differences, judged together: of 100 such pages at most 10 call a row ")
    assert "virtual nodes" not in found


@pytest.mark.parametrize("dependent", [None, "windows"])
def test_where_rows_depend_on_each_other_intervals_are_for_these_rows(dependent: str | None) -> None:
    results = sample.results(seeds=3)
    alone = [{**pair, "rows_error": None} for pair in results["pairs"]]
    data = {**results["data"], "dependent": dependent}
    found = told(results, pairs=alone, data=data)
    assert found["rows"].startswith("intervals hold for these very test rows: ")
    assert ("depend on each other" in found["rows"]) == (dependent is not None)
    without = told(results, pairs=[{**pair, "low": None, "high": None} for pair in alone], data=data)
    assert without["rows"].startswith("intervals hold for these very test rows" if dependent else "intervals hold for")


@pytest.mark.parametrize(
    ("verdict", "enough", "against", "end"),
    [
        ("no difference", True, ("single", 1), "no difference"),
        ("undecided", True, ("single", 1), "undecided, enough to recommend"),
        ("no difference", False, ("single", 1), "no difference, not enough to recommend"),
        ("better", False, ("local", 1), "better, not enough to recommend"),
        ("no difference", False, ("local", 1), "no difference"),
        ("worse", False, ("single", 1), "worse"),
        ("better", False, ("batch", 2), "better"),  # nothing is recommended for that
    ],
)
def test_a_verdict_that_is_not_enough_to_recommend_says_so(
    verdict: str, enough: bool, against: tuple[str, int], end: str
) -> None:
    """Was: "no difference", beside an answer that seeds do not decide whether it learns as well."""
    one = replace(pair("batch", against[0], verdict), against_nodes=against[1], enough=enough)
    table = tables.pairs(some_results([], [one], metric_of()))
    assert table is not None and table.rows[0][-1].text == end


def test_all_questions_and_notes_are_told() -> None:
    open_ones = [Question(name="batch", nodes=2, against="single", about=about) for about in ("speed", "quality")]
    notes = [Note(kind="no test rows"), Note(kind="seeds alone", key="text")]
    answer = asdict(replace(NO_ANSWER, decision="undecided", open=open_ones, notes=notes))
    results = Results.from_json({**sample.results(seeds=3), "answer": answer}, "a test")
    last = [text for _, text in how_sure(results)][-4:]
    assert [whether(question, results) in text for question, text in zip(open_ones, last[:2], strict=True)] == [
        True,
        True,
    ]
    assert last[2:] == [sentence(noted(note, results)) for note in notes]
