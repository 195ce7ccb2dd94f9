"""The page's content, without a browser: what it says, what is missing, and that nothing of a user's is markup."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from sparksplit.comparison.answer.words import words as said
from sparksplit.comparison.content import Results
from sparksplit.comparison.numbers import MISSING, bound
from sparksplit.comparison.report import charts_nodes, render
from sparksplit.comparison.report.charts import learning
from sparksplit.comparison.report.overview import first_rows, overview
from sparksplit.operations.archives import project_zip
from tests.comparison import sample
from tests.comparison.report import pages
from tests.comparison.report.pages import Tags, changed, fetches_nothing, pictures, rendered, visible


@pytest.fixture(scope="module")
def page() -> str:
    return rendered(sample.results())


def test_the_same_results_give_the_same_bytes(page):
    assert rendered(sample.results()) == page


def test_results_are_left_as_they_are():
    results = Results.from_json(sample.results(seeds=1), "a test")
    before = copy.deepcopy(results)
    with pages.unpainted():
        render(results)
    assert results == before


@pytest.mark.slow
def test_the_page_is_made_from_the_zip_too(tmp_path):
    """What spark-submit ships: there the template is no file."""
    (tmp_path / "sparksplit.zip").write_bytes(project_zip())
    (tmp_path / "results.json").write_text(json.dumps(sample.results(seeds=1)))
    code = (
        "import sparksplit.comparison.report as report\n"
        "from sparksplit.comparison.content import Results\n"
        "assert 'sparksplit.zip' in report.__file__\n"
        "assert '</html>' in report.render(Results.read('.'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "sparksplit.zip")}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, timeout=120)


def test_a_single_strategy_that_exchanges_has_its_picture():
    table = sample.results(seeds=1)["table"]
    one = [row for row in table if not row["virtual"] and row["bytes_per_node"]][:1]
    silent = [row for row in table if not row["virtual"] and not row["bytes_per_node"]]
    assert charts_nodes.exchange(Results.from_json(changed(table=[*silent, *one]), "a test")).svg


def test_it_is_small_and_fetches_nothing(page):
    assert len(page.encode()) < 500_000
    without_names = re.sub(r' xmlns(:xlink)?="[^"]+"', "", page)
    assert "http" not in without_names.replace("http-equiv", "")
    assert fetches_nothing(page)


def test_every_id_is_there_once_and_is_found(page):
    tags = Tags(page).found
    ids = Counter(attributes["id"] for _, attributes in tags if "id" in attributes)
    assert [name for name, times in ids.items() if times > 1] == []
    used = set(re.findall(r"url\(#([^)]+)\)", page)) | set(
        re.findall(r'(?:xlink:href|aria-labelledby)="#?([^"]+)"', page)
    )
    assert used <= set(ids)


def test_every_picture_says_what_it_shows(page):
    found = pictures(page)
    assert len(found) == 13
    assert all(svg.get("role") == "img" and svg.get("aria-label") for svg in found)
    assert all(svg.find(".//{http://www.w3.org/2000/svg}text") is not None for svg in found)


def test_each_run_leads_to_its_record(page):
    results = sample.results()
    links = [attributes["href"] for tag, attributes in Tags(page).found if tag == "a"]
    assert links == [f"runs/{run['key']}.json" for run in (*results["runs"], *results["virtual"])]


def test_what_is_in_the_seconds_is_said(page):
    """These seconds are compared: analysis.runs.training_seconds."""
    words = visible(page)
    assert (
        "seconds : of training, with waiting for rows and exchanges; without start, compiling and validation" in words
    )
    assert "seconds of training, with waiting for rows" in page  # the cost model's, in a picture


def test_the_margin_is_in_the_metrics_unit(page):
    words = visible(page)
    assert "0.35 % of the metric's range (11.00 % untrained, 97.00 % trained" in words.replace("&#39;", "'")
    assert "no difference within 0.30 points" in words


def overview_of(**parts):
    return overview(Results.from_json(changed(**parts), "a test"))


def test_the_first_picture_has_a_point_and_both_intervals_for_each_row_and_says_what_beats_what():
    picture = overview_of()
    rows = [row for row in sample.results(3)["table"] if not row["virtual"]]
    (svg,) = pictures(picture.svg)
    texts = [element.text for element in svg.iter() if element.tag.endswith("}text")]
    single = "1 node with its best learning rate"
    assert {single, "batch", "local (sync every 32 steps, nesterov)", "time, s"} <= set(texts)
    assert sum(text.startswith("N = ") for text in texts) == len(rows)
    assert picture.caption == "N: nodes. Left and higher is better. Bars: each point's own 95 % interval."
    # What learns best is slower now: nothing beats it either.
    table = sample.results(3)["table"]
    next(row for row in table if row["name"] == sample.LOCAL)["to_target"].update(seconds=9.0, low=8.0, high=10.0)
    assert (
        "Dashed line: joins the points that no other point beats in both time and accuracy."
        in overview_of(table=table).caption
    )


def test_a_row_that_misses_the_target_has_no_point_and_is_the_last_of_the_table():
    table = sample.results(3)["table"]
    row = next(row for row in table if row["name"] == sample.LOCAL)
    row["to_target"].update(seconds=0.1, low=None, high=None, reached=2)
    assert (
        "Not shown, because they have no time (see the table): 2 nodes with local (sync"
        in overview_of(table=table).caption
    )
    last = first_rows(Results.from_json(changed(table=table), "a test")).rows[-1]
    assert [last[0].text, last[1].text] == [
        "2 nodes with local (sync every 32 steps, nesterov)", "not reached in 1 of 3 runs"
    ]  # fmt: skip
    row.update(runs=0, diverged=3, seconds=None, metric=dict.fromkeys(("mean", "low", "high")))
    last = first_rows(Results.from_json(changed(table=table), "a test")).rows[-1]
    assert [last[1].text, last[2].text] == ["diverged in 3 of 3 runs", MISSING]


def test_the_first_table_says_of_each_speed_up_what_is_decided():
    """Was: 1.27 (1.09 to 1.49), beside a headline that it is not decided; and (2.34 to 2.4), beside at least 2.32."""
    table = first_rows(Results.from_json(sample.results(3), "a test"))
    told = {cells[0].text: cells[3].text for cells in table.rows}
    assert told["1 node with its best learning rate"] == "1" and told["2 nodes with batch"] == "1.05 (not decided)"
    least = bound(next(time["at_least"] for time in sample.results(3)["times"] if time["name"] == sample.LOCAL))
    assert told["2 nodes with local (sync every 32 steps, nesterov)"] == f"1.9 (at least {least})"
    assert told["2 nodes with epoch-delayed"] == "0.8 (slower)"


def test_where_even_single_misses_the_target_the_first_picture_is_of_all_passes():
    table = sample.results(3)["table"]
    table[0]["to_target"].update(seconds=None, reached=1)
    for row in table:
        if not row["virtual"]:
            row.update(seconds_low=row["seconds"] * 0.9, seconds_high=row["seconds"] * 1.1)
    assert overview_of(table=table).title == "Time for all passes, against test accuracy"
    assert overview_of(table=[]).note == "No row has a time that counts."


def test_the_first_table_has_ten_rows_with_the_choice_and_single_among_them():
    results = sample.results(3)
    row = next(row for row in results["table"] if row["name"] == sample.BATCH)
    for nodes in range(3, 15):
        quick = {**row["to_target"], "seconds": 0.1 * nodes}
        results["table"].append({**row, "nodes": nodes, "to_target": quick})
    slow = next(row for row in results["table"] if row["name"] == sample.SINGLE)
    slow["to_target"].update(seconds=50.0, low=None, high=None)
    table = first_rows(Results.from_json({**results, "answer": sample.answer_of(results)}, "a test"))
    times = [cells[1].value for cells in table.rows]
    assert len(table.rows) == 10 and times == sorted(times)
    assert table.rows[-1][0].text == "1 node with its best learning rate"
    # `single` is not among the quickest.
    assert table.caption.startswith("The quickest 9 of ")
    assert table.caption.endswith(", and 1 node with its best learning rate")


def test_lines_that_coincide_are_drawn_once_and_have_both_names():
    results = sample.results(3)
    single = {run["seed"]: run for run in results["runs"] if run["name"] == sample.SINGLE}
    for run in results["runs"]:
        if run["name"] == sample.BATCH:
            for point, same in zip(run["history"], single[run["seed"]]["history"], strict=True):
                point["validation"] = same["validation"]
    passes, seconds = learning(Results.from_json(results, "a test"))
    assert "single and batch" in passes.svg and "Lines that lie on each other are drawn once." in passes.caption
    assert "single and batch" not in seconds.svg and "drawn once" not in seconds.caption


def test_what_nothing_was_spent_on_is_not_among_what_the_time_went_to():
    table = sample.results(3)["table"]
    for row in table:
        if row["time"]:
            row["time"]["hand-off"] = 0.0
    picture = charts_nodes.times(Results.from_json(changed(table=table), "a test"))
    assert picture.columns == ["strategy", "reading", "compute", "waiting", "synchronising", "other"]
    assert "hand-off" not in picture.svg


def test_the_answer_comes_first_and_all_else_is_closed(page):
    words = visible(page)
    lines = [line.replace("`", "") for line in said(Results.from_json(sample.results(), "a test"))]
    places = [words.replace("  ", " ").replace(" ,", ",").index(line.split(":")[0]) for line in lines]
    places += [words.index(heading) for heading in ("Details", "The differences", "All strategies", "Pictures")]
    assert places == sorted(places)
    assert "Of 11 epochs asked for, 12 were run: a multiple of 1 and 2 nodes" in words
    (details,) = (attributes for tag, attributes in Tags(page).found if attributes.get("id") == "details")
    assert "open" not in details


def test_numbers_are_those_of_the_results(page):
    words = visible(page)
    row = next(row for row in sample.results()["table"] if row["name"] == sample.BATCH)
    assert f"batch 2 5 12 240 240 9.60 {row['seconds']:.2f} {row['rows_per_second']:,.0f}" in words
    assert "local, H = 32, nesterov, N = 2 batch, N = 2 accuracy +0.61 points 0.47 to 0.75 5 better" in words


def test_virtual_rows_stand_apart(page):
    words = visible(page)
    measured, virtual = re.findall(r'<table id="table-(?:measured|virtual)".*?</table>', page, flags=re.DOTALL)
    assert "predicted by virtual nodes: the learning is computed, the time is not measured" in words.lower()
    assert "rows/s" in measured
    assert "rows/s" not in virtual


def test_it_can_be_repeated(page):
    words = visible(page)
    assert "sparksplit compare --config FILE" in words
    assert "- strategy: local sync: every: 32" in words
    for text in ("9a41c0de77e0b1f2", "5f0c9a7e11d2b384", "tensorflow 2.21.0", "1,248 train", "00020001aa55"):
        assert text in words


@pytest.mark.parametrize("higher", [True, False])
def test_a_metric_that_is_no_share(higher):
    results = sample.results(seeds=3)
    results["metric"] = {"name": "mean_absolute_error", "higher_is_better": higher, "margin": 0.02}
    results["metric"] |= {"split": "test", "resolution": None, "share": 0.01, "range": None}
    for pair in results["pairs"]:
        pair["quantity"] = "mean_absolute_error"
    for run in results["runs"] + results["virtual"]:
        run["metrics"]["test"] = {"mean_absolute_error": 1234.5}
        for point in run["history"]:
            point["validation"] = {"mean_absolute_error": 2000.0 / point["passes"]}
    words = pages.words(results)
    assert "Held-out mean absolute error over passes" in words
    assert ("Right of zero is better." if higher else "Left of zero is better.") in words
    assert "1,234" in words or "1,235" in words
    assert not re.search(r"\d points", words)


def test_a_virtual_strategys_difference_is_marked():
    results = sample.results()
    results["pairs"][2]["virtual"] = True
    assert "epoch (virtual), N = 2 batch, N = 2" in pages.words(results)


def test_ideal_scaling_starts_from_single_with_the_comparisons_own_keys():
    """Not from one with larger mini-batches, which is faster."""
    results = sample.results(seeds=3)
    single = results["table"][0]
    results["table"].append({**single, "name": "single, batch_size = 256", "rows_per_second": 1e6})
    assert "Ideal is N times single on 1 node." in pages.words(results)


@pytest.mark.slow
def test_names_of_users_are_text():
    """Those that begin with an underscore are in legends too."""
    text = json.dumps(sample.results(seeds=3)).replace(json.dumps(sample.LOCAL), json.dumps(sample.NASTY))
    results = json.loads(text.replace(json.dumps(sample.EVERY), '"_mine"'))
    results["data"]["path"] = results["model"] = results["cost_model"]["text"] = sample.NASTY
    results["config"]["data"] = sample.NASTY
    page = rendered(results)
    tags = Tags(page).found
    assert [tag for tag, _ in tags].count("script") == 1
    assert not any("onload" in attributes or "onerror" in attributes for _, attributes in tags)
    texts = [element.text or "" for svg in pictures(page) for element in svg.iter() if element.tag.endswith("}text")]
    assert any(text.startswith("$x_1$<script>") for text in texts)
    assert any("url(#e)" in text for text in texts)
    assert page.count("\u2060_mine") > 3


def test_names_in_the_answer_are_set_apart_and_harmless():
    gone = {"key": "epoch-n2-s1", "name": "epoch", "nodes": 2, "virtual": False, "seed": 1}
    gone |= {"config_hash": "c", "diverged": "the loss is nan"}
    results = json.loads(json.dumps(changed(diverged=[gone])).replace(json.dumps(sample.LOCAL), '"<b>mine</b>"'))
    with pages.unpainted():
        page = rendered(results)
    assert "2 nodes with <code>&lt;b&gt;mine&lt;/b&gt;</code>" in page
    assert "epoch-n2-s1" in page and "left out of all means" in visible(page)
    assert "`" not in visible(page)


def test_an_option_of_a_command_is_not_broken_into_two_lines():
    """Was: `--` at the end of a line on a phone, and `set max_seeds=20` in the next."""
    with pages.unpainted():
        assert "<code>--set seeds=5</code>, without <code>--overwrite</code>. It keeps" in rendered(
            sample.results(seeds=1)
        )


def test_every_run_has_all_of_its_metrics():
    results = sample.results(seeds=3)
    for run in results["runs"] + results["virtual"]:
        run["metrics"]["test"]["auc"] = 0.8765
    words = pages.words(results)
    assert words.count("0.8765") == len(results["runs"]) + len(results["virtual"])
    assert words.count("test auc") == 1 and "test loss" not in words


def test_the_hand_off_is_shown_where_spark_made_one():
    model = sample.results(seeds=3)["cost_model"]
    handed = {
        "nodes": 2,
        "rows": 120000,
        "first": True,
        "measured": 1.5,
        "predicted": 1.8,
        "error": 0.2,
        "left_out": True,
    }
    words = pages.words(changed(cost_model={**model, "handoffs": [handed]}))
    assert "hand-off, once for all runs of a cluster" in words
    assert "2 120,000 yes 1.50 s 1.80 s +20 % other numbers of nodes" in words
    assert "once for all runs of a cluster" not in pages.words(changed())


def test_how_the_strategies_were_tuned_and_that_they_were_not():
    words = pages.words(changed())
    assert (
        "Tuning took 9 runs on a seed of their own, 96 passes and 88.5 s of node time, without 1 that diverged" in words
    )
    tuned = words[words.index("What each strategy was given") : words.index("Every try.")]
    assert "epoch 2 0.0316 95.00 % 93.00 % to 95.00 % 1 learning rate 0.0316, the lowest tried" in tuned
    edge = "learning rate 0.0316, the lowest tried of a range down to 0.01"
    assert f"single 1 0.0316 97.00 % 91.00 % to 97.00 % 0 {edge} batch on 2" in tuned
    tries = words[words.index("Every try.") : words.index("Pictures")]
    assert "epoch 2 0.0316 95.00 % chosen" in tries and "epoch 2 0.316 diverged" in tries
    words = pages.words(changed(tuning=None))
    assert "How each strategy was tuned" not in words and "Every try" not in words


def test_the_page_says_what_the_strategies_are(page):
    words = visible(page)
    strategies = words[words.index("All strategies") : words.index("Pictures")]
    for line in ("epoch-delayed Like epoch , but each node applies its own", "local Each node trains on its own part"):
        assert line in strategies.replace("`", "")
    silent = [row for row in changed()["table"] if not row["strategy"].startswith("epoch")]
    assert "epoch-delayed Like" not in pages.words(changed(table=silent))
