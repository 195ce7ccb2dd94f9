"""The page's content, without a browser: what it says, what is missing, and that nothing of a user's is markup."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from sparksplit.comparison import numbers
from sparksplit.comparison.report import render
from sparksplit.comparison.report.charts import learning
from sparksplit.comparison.report.drawing import marks, shortened
from sparksplit.operations.archives import project_zip
from tests.comparison import sample


@pytest.fixture(scope="module")
def page() -> str:
    return render(sample.results())


def changed(**parts):
    """The sample with other parts."""
    return {**sample.results(seeds=3), **parts}


def visible(page: str) -> str:
    """The words of a page, without its pictures, style and script."""
    page = re.sub(r"<(style|script|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)]


class Tags(HTMLParser):
    """Every start tag with its attributes; fails where tags do not nest."""

    VOID = ("meta", "br", "link")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_same_results_give_the_same_bytes(page):
    assert render(sample.results()) == page


def test_results_survive_json_and_are_left_as_they_are(page):
    results = json.loads(json.dumps(sample.results()))
    before = copy.deepcopy(results)
    assert render(results) == page
    assert results == before


def test_the_page_is_made_from_the_zip_too(tmp_path):
    """What spark-submit ships: there the template is no file."""
    (tmp_path / "sparksplit.zip").write_bytes(project_zip())
    (tmp_path / "results.json").write_text(json.dumps(sample.results(seeds=1)))
    code = (
        "import json, pathlib, sparksplit.comparison.report as report\n"
        "assert 'sparksplit.zip' in report.__file__\n"
        "assert '</html>' in report.render(json.loads(pathlib.Path('results.json').read_text()))\n"
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


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"virtual": [], "table": [row for row in sample.results()["table"] if not row["virtual"]]},
            "No virtual nodes were run.",
        ),
        ({"pairs": []}, "No two ways were compared seed by seed."),
        ({"target": None}, "No run measured the metric on validation rows, so there is no time to a target"),
        ({"cost_model": None}, "There is no cost model in these results"),
        ({"scale": {"rows": [], "original": [], "ours": []}}, "nothing to compare"),
        ({"runs": [], "virtual": []}, "There are no runs in these results."),
        ({"table": []}, "Nothing was run on the nodes at hand."),
    ],
)
def test_what_is_missing_is_said(parts, said):
    page = render(changed(**parts))
    assert said in visible(page)
    Tags(page)


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
    assert said in visible(render(changed(cost_model=model)))


def test_one_seed_has_no_intervals():
    page = render(sample.results(seeds=1))
    assert "Only one seed was run" in visible(page)
    assert "too few seeds for an interval" in visible(page)


def test_one_number_of_nodes():
    results = sample.results(seeds=3)
    results["table"] = [row for row in results["table"] if row["nodes"] == 1]
    words = visible(render(results))
    assert "Only one number of nodes was run, so there is no scaling" in words
    assert "all were on one node" in words


def test_values_that_are_none_everywhere():
    """Runs that diverged, no interval, no target reached, no time."""
    results = sample.results(seeds=3)
    for row in results["table"]:
        row.update(seconds=None, rows_per_second=None, efficiency=None, to_target=None, time=None)
        row["metric"] = {"mean": None, "low": None, "high": None}
    for pair in results["pairs"]:
        pair.update(mean=None, low=None, high=None)
    for run in results["runs"]:
        run["history"], run["metrics"]["test"] = [], {}
    for item in results["cost_model"]["predictions"]:
        item.update(seconds=None, passes=None)
    words = visible(render(results))
    assert "No run measured accuracy on the validation rows." in words
    assert "No way reaches the target in every run." in words
    assert "No run measured where its time went." in words


def test_not_a_number_is_shown_as_missing():
    results = sample.results(seeds=3)
    results["table"][0]["metric"] = {"mean": float("nan"), "low": float("nan"), "high": float("inf")}
    results["runs"][0]["history"][0]["validation"]["accuracy"] = float("nan")
    words = visible(render(results))
    assert "nan" not in words
    assert "inf " not in words


@pytest.mark.parametrize("higher", [True, False])
def test_a_metric_that_is_no_share(higher):
    results = sample.results(seeds=3)
    results["metric"] = {"name": "mean_absolute_error", "higher_is_better": higher, "margin": 0.02}
    results["metric"] |= {"split": "test", "resolution": None}
    for pair in results["pairs"]:
        pair["quantity"] = "mean_absolute_error"
    for run in results["runs"] + results["virtual"]:
        run["metrics"]["test"] = {"mean_absolute_error": 1234.5}
        for point in run["history"]:
            point["validation"] = {"mean_absolute_error": 2000.0 / point["passes"]}
    words = visible(render(results))
    assert "Held-out mean absolute error over passes" in words
    assert ("Right of zero is better." if higher else "Left of zero is better.") in words
    assert "1,234" in words or "1,235" in words
    assert "points" not in words


def test_without_test_rows_the_page_says_validation():
    results = sample.results(seeds=3)
    results["metric"]["split"] = "validation"
    for run in results["runs"] + results["virtual"]:
        run["metrics"]["test"] = {}
        run["metrics"]["validation"]["accuracy"][-1] = 0.8765
    page = render(results)
    words = visible(page)
    assert "validation accuracy" in words and "Validation accuracy against bytes sent" in words
    assert "accuracy of the validation rows; higher is better" in words
    assert "There are no test rows: what decides are the validation rows" in words
    assert words.count("87.65 %") == len(results["runs"]) + len(results["virtual"])
    assert "test accuracy" not in words.lower() and "test rows;" not in words


def lost(results, way, count):
    """`results` as they would be if so many runs of `way` on real nodes had diverged."""
    gone = [run for run in results["runs"] if run["way"] == way][:count]
    results["runs"] = [run for run in results["runs"] if run not in gone]
    names = ("key", "way", "nodes", "virtual", "seed")
    results["diverged"] = [{**{name: run[name] for name in names}, "diverged": "the loss is nan"} for run in gone]
    (row,) = (row for row in results["table"] if row["way"] == way and not row["virtual"])
    row.update(runs=row["runs"] - count, diverged=count)
    row["to_target"].update(reached=row["runs"])
    if not row["runs"]:
        row.update(dict.fromkeys(("passes", "updates", "syncs", "bytes_per_node", "seconds", "rows_per_second")))
        row.update(efficiency=None, to_target=None, time=None, metric=dict.fromkeys(("mean", "low", "high")))
        results["pairs"] = [pair for pair in results["pairs"] if way not in (pair["way"], pair["against"])]
    for pair in results["pairs"]:
        if way in (pair["way"], pair["against"]):
            pair["seeds"] = row["runs"]
    for item in results["cost_model"]["predictions"]:
        if item["way"] == way and item["nodes"] == 2:
            item.update(seconds=None, passes=None, reached=row["runs"])
    return results


def test_seeds_that_diverged_are_shown_wherever_the_others_are():
    words = visible(render(lost(sample.results(), sample.LOCAL, 3)))
    assert "Differences between runs of the same seed, on the test rows. Seeds: those with which both" in words
    assert f"{sample.LOCAL}, N = 2 batch, N = 2 accuracy +0.61 points 0.47 to 0.75 2 of 5 better" in words
    assert words.count(f"Only runs that finished: {sample.LOCAL}, N = 2 (2 of 5).") == 6
    assert "Over the seeds with which both finished." in words
    assert f"{sample.LOCAL} 2 2 of 5 12" in words and "2 of 5" in words
    assert f"{sample.LOCAL} 2 1 diverged" in words
    assert "Left out of all means, because the loss or the metric was no longer a number: local-n2-s1" in words
    assert "reached by 2 of 5" in words
    assert f"No point where not every run reaches the target (epoch-delayed; {sample.LOCAL})." in words


def test_a_way_of_which_every_run_diverged_keeps_its_line():
    words = visible(render(lost(sample.results(), sample.SINGLE, 5)))
    assert "single 1 0 of 5 – – – –" in words


def test_curves_that_are_not_of_a_ways_largest_number_of_nodes_are_said():
    """On 4 nodes every run of it diverged: what is shown is 2."""
    results = sample.results(seeds=2)
    (row,) = (row for row in results["table"] if row["way"] == sample.LOCAL and not row["virtual"])
    nothing = dict.fromkeys(("passes", "updates", "seconds", "rows_per_second", "to_target", "time"))
    results["table"].append({**row, **nothing, "nodes": 4, "runs": 0, "diverged": 2})
    for picture in learning(results):
        assert picture.caption.startswith(
            "Each way on the largest number of nodes on which a run of it finished: the mean over the seeds"
        )
        assert f"Every run diverged: {sample.LOCAL}, N = 4." in picture.caption
    assert "Every run diverged" not in learning(sample.results(seeds=2))[0].caption


def test_a_virtual_ways_difference_is_marked():
    results = sample.results()
    results["pairs"][2]["virtual"] = True
    assert "epoch (virtual), N = 2 batch, N = 2" in visible(render(results))


def test_ideal_scaling_starts_from_single_with_the_comparisons_own_keys():
    """Not from one with larger mini-batches, which is faster."""
    results = sample.results(seeds=3)
    single = results["table"][0]
    results["table"].append({**single, "way": "single, batch_size = 256", "rows_per_second": 1e6})
    assert "Ideal is N times single on 1 node." in visible(render(results))


def test_a_ledger_that_is_not_exact_is_said_first():
    results = sample.results(seeds=3)
    results["runs"][0]["ledger"]["exact"] = False
    words = visible(render(results))
    assert "Runs whose ledger is NOT exact, and whose numbers are not to be trusted: 1." in words
    assert words.index("NOT exact") < words.index("The differences")


def test_names_of_users_are_text():
    text = json.dumps(sample.results(seeds=3)).replace(json.dumps(sample.LOCAL), json.dumps(sample.NASTY))
    results = json.loads(text)
    results["data"]["path"] = results["model"] = results["answer"]["text"][0] = results["cost_model"]["text"] = (
        sample.NASTY
    )
    results["config"]["data"] = sample.NASTY
    page = render(results)
    tags = Tags(page).found
    assert [tag for tag, _ in tags].count("script") == 1
    assert not any("onload" in attributes or "onerror" in attributes for _, attributes in tags)
    texts = [element.text or "" for svg in pictures(page) for element in svg.iter() if element.tag.endswith("}text")]
    assert any(text.startswith("$x_1$<script>") for text in texts)
    assert any("url(#e)" in text for text in texts)


def test_names_that_begin_with_an_underscore_are_in_legends():
    results = json.loads(json.dumps(sample.results(seeds=3)).replace(json.dumps(sample.EVERY), '"_mine"'))
    assert render(results).count("\u2060_mine") > 3


def test_marks_differ_in_each_of_colour_marker_and_dashes():
    found = list(marks(f"way {index}" for index in range(5)).values())
    for part in ("colour", "marker", "dash"):
        assert len({getattr(mark, part) for mark in found}) == 5
    many = list(marks(f"way {index}" for index in range(40)).values())
    assert len(set(many)) == 40


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (numbers.duration(0.000123), "123 µs"),
        (numbers.duration(0.0123), "12.3 ms"),
        (numbers.duration(90), "90.0 s"),
        (numbers.duration(3600), "60.0 min"),
        (numbers.duration(36000), "10.0 h"),
        (numbers.duration(864000), "10.0 days"),
        (numbers.duration(None), "–"),
        (numbers.size(512), "512 B"),
        (numbers.size(1_500_000), "1.50 MB"),
        (numbers.plain(0.00001234), "1.234e-05"),
        (numbers.plain(1234.56), "1,235"),
        (numbers.compact(82.0), "82"),
        (numbers.compact(150), "150"),
        (numbers.compact(2.10), "2.1"),
        (numbers.percent(float("nan")), "–"),
        (numbers.Quantity("accuracy").difference(-0.00314), "−0.31 points"),
        (numbers.Quantity("accuracy").difference(-0.00001), "0.00 points"),
        (numbers.Quantity("loss").difference(0.25), "+0.250"),
        (numbers.Quantity("loss").interval(-0.1, 0.2), "−0.1000 to 0.2000"),
        (shortened("abcdefghijkl", 7), "abcd…kl"),
    ],
)
def test_numbers_are_written_short(written, expected):
    assert written == expected


def test_names_in_the_answer_are_set_apart_and_harmless():
    answer = {**sample.results()["answer"], "text": ["Take `local` on `<b>2</b>` nodes.", "Or not."]}
    gone = {"key": "epoch-n2-s1", "way": "epoch", "nodes": 2, "virtual": False, "seed": 1}
    page = render(changed(answer=answer, diverged=[gone]))
    assert "Take <code>local</code> on <code>&lt;b&gt;2&lt;/b&gt;</code> nodes." in page
    assert "no longer a number: epoch-n2-s1." in visible(page)
