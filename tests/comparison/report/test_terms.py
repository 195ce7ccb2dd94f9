"""The cost model's terms on the page."""

from __future__ import annotations

from dataclasses import fields, replace

from sparksplit.comparison.content import Results
from sparksplit.comparison.content_costs import CostModel, HandOffCheck
from sparksplit.comparison.numbers import MISSING
from sparksplit.comparison.report.tables import handoffs
from sparksplit.comparison.report.terms import _SECONDS, _SHARES, terms
from tests.comparison.report import pages
from tests.comparison.report.pages import changed


def test_each_term_has_a_value_with_a_unit_and_a_sentence():
    results = Results.from_json(changed(), "a test")
    handed = replace(
        results.cost_model,
        seconds_to_begin_handoff=2.0,
        seconds_to_begin_first_handoff=5.0,
        seconds_per_row_handed=5e-6,
    )
    table = terms(replace(results, cost_model=handed))
    numbers = {field.name for field in fields(CostModel) if isinstance(getattr(handed, field.name), float)}
    assert set(_SECONDS | _SHARES) == numbers and len(table.rows) == len(numbers)
    for term, value, told in table.rows:
        assert "e-" not in value.text and value.text.split(" ")[-1] in ("0", "ns", "µs", "ms", "s", "%"), term.text
        assert told.text.endswith(".") and told.text.count(". ") == 0
    assert len(terms(results).rows) == len(numbers) - 3  # nothing was handed off
    words = pages.words(changed())
    assert "per byte 0.910 ns Each byte that a node sends takes so long." in words
    assert "contention 30.0 % Each other node that computes on the same host" in words
    assert terms(Results.from_json(changed(cost_model=None), "a test")) is None


def test_a_hand_off_of_which_nothing_is_predicted_has_no_error_either():
    results = Results.from_json(changed(), "a test")
    one = HandOffCheck(2, 60_000, True, 3.5, None, None, False)
    (line,) = handoffs(replace(results, cost_model=replace(results.cost_model, handoffs=[one]))).rows
    assert [cell.text for cell in line] == ["2", "60,000", "yes", "3.50 s", *[MISSING] * 3]
