"""Results that lack a part: the page says what is missing."""

from __future__ import annotations

import pytest

from tests.comparison import sample
from tests.comparison.report.pages import Tags, changed, pictures, rendered, unpainted, visible, words

MISSING = [
    (
        {"virtual": [], "table": [row for row in sample.results()["table"] if not row["virtual"]]},
        "No virtual nodes were run.",
    ),
    ({"pairs": []}, "No two strategies were compared seed by seed."),
    ({"target": None}, "No run measured the metric on validation rows, so there is no time to a target"),
    ({"cost_model": None}, "There is no cost model in these results"),
    ({"scale": []}, "nothing to compare"),
    ({"runs": [], "virtual": []}, "There are no runs in these results."),
    ({"table": []}, "Nothing was run on the nodes at hand."),
]


@pytest.mark.parametrize(("parts", "said"), MISSING)
def test_what_is_missing_is_said(parts, said):
    with unpainted():
        page = rendered(changed(**parts))
    assert said in visible(page)
    Tags(page)


@pytest.mark.parametrize("some", [MISSING[:3], MISSING[3:]])
def test_the_other_pictures_are_painted(some):
    page = rendered(changed(**{name: part for parts, _ in some for name, part in parts.items()}))
    assert all(said in visible(page) for _, said in some)
    Tags(page)
    assert all(svg.get("aria-label") for svg in pictures(page))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("sweep", "No all-reduce was measured by itself."),
        ("checks", "was not checked against any run"),
        ("predictions", "No time to a target was predicted"),
    ],
)
def test_a_cost_model_without_a_part(part, said):
    model = {**sample.results()["cost_model"], part: []}
    assert said in words(changed(cost_model=model))


def test_one_seed_has_no_intervals():
    page = words(sample.results(seeds=1))
    assert "one seed cannot tell a real difference from luck" in page and "One run each: no intervals" in page
    assert "too few seeds for an interval" in page


def test_one_number_of_nodes():
    results = sample.results(seeds=3)
    results["table"] = [row for row in results["table"] if row["nodes"] == 1]
    page = words(results)
    assert "Only one number of nodes was run, so there is no scaling" in page
    assert "all were on one node" in page


def test_values_that_are_none_everywhere():
    """Runs that diverged, no interval, no target reached, no time."""
    results = sample.results(seeds=3)
    for row in results["table"]:
        row.update(seconds=None, rows_per_second=None, efficiency=None, to_target=None, time=None)
        row["metric"] = {"mean": None, "low": None, "high": None}
    for pair in results["pairs"]:
        pair.update(mean=float("nan"), low=None, high=None)
    for run in results["runs"]:
        run["history"], run["metrics"]["test"] = [], {}
    for item in results["cost_model"]["predictions"]:
        item.update(seconds=None, passes=None)
    page = words(results)
    assert "No run measured accuracy on the validation rows." in page
    assert "No strategy reaches the target in every run." in page
    assert "No run measured where its time went." in page


def test_not_a_number_is_shown_as_missing():
    results = sample.results(seeds=3)
    results["table"][0]["metric"] = {"mean": float("nan"), "low": float("nan"), "high": float("inf")}
    results["runs"][0]["history"][0]["validation"]["accuracy"] = float("nan")
    page = words(results)
    assert "nan" not in page
    assert "inf " not in page


def test_without_test_rows_the_page_says_validation():
    results = sample.results(seeds=3)
    results["metric"]["split"] = "validation"
    for run in results["runs"] + results["virtual"]:
        run["metrics"]["test"] = {}
        run["metrics"]["validation"]["accuracy"][-1] = 0.8765
    page = words({**results, "answer": sample.answer_of(results)})
    assert "validation accuracy" in page and "Validation accuracy against bytes sent" in page
    assert "accuracy of the validation rows; higher is better" in page
    assert "There are no test rows, so the validation rows decide" in page
    assert page.count("87.65 %") == len(results["runs"]) + len(results["virtual"])
    assert "test accuracy" not in page.lower() and "test rows;" not in page
