"""Runs that diverged, and ledgers that are not exact: the page says so wherever it leaves them out."""

from __future__ import annotations

import pytest

from sparksplit.comparison.content import Results
from sparksplit.comparison.numbers import MISSING, duration
from sparksplit.comparison.report.charts import learning
from tests.comparison import sample
from tests.comparison.report import pages
from tests.comparison.report.pages import rendered, visible


def lost(results, strategy, count):
    """`results` as they would be if so many runs of `strategy` on real nodes had diverged."""
    gone = [run for run in results["runs"] if run["name"] == strategy][:count]
    results["runs"] = [run for run in results["runs"] if run not in gone]
    names = ("key", "name", "nodes", "virtual", "seed")
    error = {"config_hash": "c", "diverged": "the loss is nan"}
    results["diverged"] = [{**{name: run[name] for name in names}, **error} for run in gone]
    (row,) = (row for row in results["table"] if row["name"] == strategy and not row["virtual"])
    row.update(runs=row["runs"] - count, diverged=count)
    row["to_target"].update(reached=row["runs"])
    if not row["runs"]:
        row.update(dict.fromkeys(("passes", "updates", "syncs", "bytes_per_node", "seconds", "rows_per_second")))
        row.update(efficiency=None, to_target=None, time=None, metric=dict.fromkeys(("mean", "low", "high")))
        results["pairs"] = [pair for pair in results["pairs"] if strategy not in (pair["name"], pair["against"])]
    for pair in results["pairs"]:
        if strategy in (pair["name"], pair["against"]):
            pair["seeds"] = row["runs"]
    for item in results["cost_model"]["predictions"]:
        if item["name"] == strategy and item["nodes"] == 2:
            item.update(seconds=None, passes=None, reached=row["runs"])
    return results


def test_seeds_that_diverged_are_shown_wherever_the_others_are():
    words = pages.words(lost(sample.results(), sample.LOCAL, 3))
    assert "Differences between runs of the same seed, on the test rows. Interval: over the seeds alone, " in words
    assert ". Seeds: those with which both finished, where others diverged" in words
    assert f"{sample.LOCAL}, N = 2 batch, N = 2 accuracy +0.61 points 0.47 to 0.75 2 of 5 better" in words
    assert words.count(f"Only runs that finished: {sample.LOCAL}, N = 2 (2 of 5).") == 6
    assert "Over the seeds with which both finished." in words
    assert f"{sample.LOCAL} 2 2 of 5 12" in words and "2 of 5" in words
    assert f"{sample.LOCAL} 2 1 diverged" in words
    assert "left out of all means" in words
    assert f"No point where not every run reaches the target (epoch-delayed; {sample.LOCAL})." in words


@pytest.mark.slow
def test_a_strategy_of_which_every_run_diverged_keeps_its_line():
    words = visible(rendered(lost(sample.results(), sample.SINGLE, 5)))
    assert "single 1 0 of 5 – – – –" in words


def pictures_of(results):
    return learning(Results.from_json(results, "a test"))


def test_curves_that_are_not_of_a_strategys_largest_number_of_nodes_are_said():
    """On 4 nodes every run of it diverged: what is shown is 2."""
    results = sample.results(seeds=2)
    (row,) = (row for row in results["table"] if row["name"] == sample.LOCAL and not row["virtual"])
    nothing = dict.fromkeys(("passes", "updates", "seconds", "rows_per_second", "to_target", "time"))
    results["table"].append({**row, **nothing, "nodes": 4, "runs": 0, "diverged": 2})
    for picture in pictures_of(results):
        assert picture.caption.startswith(
            "Each strategy on the largest number of nodes on which a run of it finished: the mean over the seeds"
        )
        assert f"Every run diverged: {sample.LOCAL}, N = 4." in picture.caption
    assert "Every run diverged" not in pictures_of(sample.results(seeds=2))[0].caption


def test_a_ledger_that_is_not_exact_is_said_first():
    results = sample.results(seeds=3)
    results["runs"][0]["ledger"]["exact"] = False
    words = pages.words(results)
    assert "Runs whose ledger is NOT exact, and whose numbers are not to be trusted: 1." in words
    assert words.index("NOT exact") < words.index("The differences")


def test_seconds_that_do_not_count_are_in_no_picture():
    """`batch` was measured elsewhere with one of its seeds, and there took a hundred times as long; then with both."""
    results = sample.results(seeds=2)
    first, second = (run for run in results["runs"] if run["name"] == sample.BATCH)
    for point in second["history"]:
        point["seconds"] *= 100
    second["place"] = {**sample.PLACE, "threads": 2}
    over_passes, over_seconds = pictures_of(results)
    for picture in (over_passes, over_seconds):
        (line,) = (line for line in picture.rows if line[0] == sample.BATCH)
        assert line[3] == duration(first["history"][-1]["seconds"])
    first["place"] = second["place"]
    over_passes, over_seconds = pictures_of(results)
    assert [sample.BATCH, "2", "12.00", MISSING] in [line[:4] for line in over_passes.rows]
    assert sample.BATCH not in [line[0] for line in over_seconds.rows]
    for run in results["runs"]:
        run["place"] = second["place"]
    assert pictures_of(results)[1].note == "The times of these runs do not count."
