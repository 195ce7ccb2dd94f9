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

from sparksplit.comparison.content import Results
from sparksplit.comparison.report import render
from sparksplit.operations.archives import project_zip
from tests.comparison import sample
from tests.comparison.report.pages import Tags, changed, pictures, rendered, visible


@pytest.fixture(scope="module")
def page() -> str:
    return rendered(sample.results())


def test_the_same_results_give_the_same_bytes(page):
    assert rendered(sample.results()) == page


def test_results_are_left_as_they_are():
    results = Results.from_json(sample.results(seeds=1), "a test")
    before = copy.deepcopy(results)
    render(results)
    assert results == before


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


def test_it_is_small_and_fetches_nothing(page):
    assert len(page.encode()) < 500_000
    without_names = re.sub(r' xmlns(:xlink)?="[^"]+"', "", page)
    assert "http" not in without_names.replace("http-equiv", "")
    for tag, attributes in Tags(page).found:
        assert tag not in ("link", "iframe", "object", "embed")
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)


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
    assert len(found) == 12
    assert all(svg.get("role") == "img" and svg.get("aria-label") for svg in found)
    assert all(svg.find(".//{http://www.w3.org/2000/svg}text") is not None for svg in found)


def test_the_answer_comes_first(page):
    words = visible(page)
    results = sample.results()
    places = [words.index(text.replace("'", "&#39;")) for text in results["answer"]["text"]]
    places += [words.index(heading) for heading in ("The differences", "All ways", "Pictures", "To repeat it")]
    assert places == sorted(places)
    assert "Of 11 epochs asked for, 12 were run: a multiple of 1 and 2 nodes" in words


def test_numbers_are_those_of_the_results(page):
    words = visible(page)
    row = next(row for row in sample.results()["table"] if row["way"] == sample.BATCH)
    assert f"batch 2 5 12 240 240 9.60 {row['seconds']:.2f} {row['rows_per_second']:,.0f}" in words
    assert "local, H = 32, nesterov, N = 2 batch, N = 2 accuracy +0.61 points 0.47 to 0.75 5 better" in words
    assert "Keras, one machine 4 82 46 %" in words
    assert "Horovod, several machines 4 89 47 %" in words


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
    words = visible(rendered(results))
    assert "Held-out mean absolute error over passes" in words
    assert ("Right of zero is better." if higher else "Left of zero is better.") in words
    assert "1,234" in words or "1,235" in words
    assert "points" not in words


def test_a_virtual_ways_difference_is_marked():
    results = sample.results()
    results["pairs"][2]["virtual"] = True
    assert "epoch (virtual), N = 2 batch, N = 2" in visible(rendered(results))


def test_ideal_scaling_starts_from_single_with_the_comparisons_own_keys():
    """Not from one with larger mini-batches, which is faster."""
    results = sample.results(seeds=3)
    single = results["table"][0]
    results["table"].append({**single, "way": "single, batch_size = 256", "rows_per_second": 1e6})
    assert "Ideal is N times single on 1 node." in visible(rendered(results))


def test_names_of_users_are_text():
    text = json.dumps(sample.results(seeds=3)).replace(json.dumps(sample.LOCAL), json.dumps(sample.NASTY))
    results = json.loads(text)
    results["data"]["path"] = results["model"] = results["answer"]["text"][0] = results["cost_model"]["text"] = (
        sample.NASTY
    )
    results["config"]["data"] = sample.NASTY
    page = rendered(results)
    tags = Tags(page).found
    assert [tag for tag, _ in tags].count("script") == 1
    assert not any("onload" in attributes or "onerror" in attributes for _, attributes in tags)
    texts = [element.text or "" for svg in pictures(page) for element in svg.iter() if element.tag.endswith("}text")]
    assert any(text.startswith("$x_1$<script>") for text in texts)
    assert any("url(#e)" in text for text in texts)


def test_names_that_begin_with_an_underscore_are_in_legends():
    results = json.loads(json.dumps(sample.results(seeds=3)).replace(json.dumps(sample.EVERY), '"_mine"'))
    assert rendered(results).count("\u2060_mine") > 3


def test_names_in_the_answer_are_set_apart_and_harmless():
    answer = {**sample.results()["answer"], "text": ["Take `local` on `<b>2</b>` nodes.", "Or not."]}
    gone = {"key": "epoch-n2-s1", "way": "epoch", "nodes": 2, "virtual": False, "seed": 1}
    gone |= {"config_hash": "c", "diverged": "the loss is nan"}
    page = rendered(changed(answer=answer, diverged=[gone]))
    assert "Take <code>local</code> on <code>&lt;b&gt;2&lt;/b&gt;</code> nodes." in page
    assert "no longer a number: epoch-n2-s1." in visible(page)


def test_every_run_has_all_of_its_metrics():
    results = sample.results(seeds=3)
    for run in results["runs"] + results["virtual"]:
        run["metrics"]["test"]["auc"] = 0.8765
    words = visible(rendered(results))
    assert words.count("0.8765") == len(results["runs"]) + len(results["virtual"])
    assert words.count("test auc") == 1 and "test loss" not in words


def test_how_the_ways_were_tuned_and_that_they_were_not():
    words = visible(rendered(changed()))
    assert words.index("Tuned: each way has the best of 3") < words.index("Split the lanes and synchronise")
    assert (
        "Tuning took 9 runs on a seed of their own, 96 passes and 88.5 s of node time, without 1 that diverged" in words
    )
    tuned = words[words.index("What each way was given") : words.index("Every try.")]
    assert "epoch 2 0.0316 95.00 % 93.00 % to 95.00 % 1 learning rate" in tuned
    assert "single 1 0.0316 97.00 % 91.00 % to 97.00 % 0 learning rate batch on 2" in tuned
    tries = words[words.index("Every try.") : words.index("Pictures")]
    assert "epoch 2 0.0316 95.00 % chosen" in tries and "epoch 2 0.316 diverged" in tries
    notes = words[words.index("To know") : words.index("The differences")]
    assert "may lie beyond, for single on 1 (learning rate); epoch on 2 (learning rate): give a wider" in notes
    untuned = changed(tuning=None)
    untuned["answer"]["headline"] = "Untuned: one rate for all."
    words = visible(rendered(untuned))
    assert words.index("Untuned: one rate for all.") < words.index("Split the lanes and synchronise")
    assert "How each way was tuned" not in words and "Every try" not in words
