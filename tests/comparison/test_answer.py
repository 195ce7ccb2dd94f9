"""The answer, from tables made by hand."""

import pytest

from comparison.answer import answer


def row(way, nodes, seconds, value, sent=0.0, reached=5):
    to = {"seconds": seconds if reached == 5 else None, "passes": 3.0, "reached": reached}
    return {
        "way": way, "nodes": nodes, "virtual": False, "runs": 5, "passes": 10, "seconds": 2 * seconds,
        "bytes_per_node": sent, "metric": {"mean": value}, "to_target": to,
    }  # fmt: skip


def pair(way, against, verdict, mean=0.001):
    return {
        "way": way, "nodes": 2, "against": against, "quantity": "accuracy", "seeds": 5, "mean": mean,
        "low": mean - 0.001, "high": mean + 0.001, "verdict": verdict,
    }  # fmt: skip


def answered(table, pairs, seeds=5, name="accuracy"):
    return answer(
        {
            "table": table, "pairs": pairs, "seeds": list(range(seeds)), "nodes": [1, 2], "model": "m:build",
            "metric": {"name": name, "higher_is_better": name == "accuracy", "margin": 0.003},
            "target": {"metric": name, "value": 0.95}, "config": {"batch_size": 64},
            "data": {"path": "d", "rows": {"train": 1000}}, "machine": {"cores": 2},
        }
    )  # fmt: skip


SINGLE = row("single", 1, 10.0, 0.97)


def test_the_fastest_that_is_as_good():
    table = [SINGLE, row("batch", 2, 6.0, 0.97, 1e9), row("epoch", 2, 4.0, 0.95, 5e8)]
    pairs = [
        pair("batch", "single", "no difference"),
        pair("epoch", "single", "worse"),
        pair("epoch", "batch", "worse", -0.02),
    ]
    first, second = answered(table, pairs)["text"]
    assert first.startswith("Split the work by `batch` on 2 nodes: it takes 6.00 s to the target")
    assert "1.67 times as fast" in first and "same as `single`'s within the margin (+0.10 points" in first
    assert (
        second.startswith("On a slow network `epoch` sends 2 times fewer bytes than `batch`") and "is worse" in second
    )


def test_stay_on_one_node_where_none_is_faster():
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9)]
    first, second = answered(table, [pair("batch", "single", "better")])["text"]
    assert first == (
        "Stay on one node: the fastest way on several, `batch` on 2, takes 12.0 s to the target, where one node "
        "takes 10.0 s."
    )
    assert "takes `batch` and another way" in second


@pytest.mark.parametrize(("verdict", "words"), [("undecided", "is undecided"), ("worse", "is worse than")])
def test_what_is_faster_and_not_as_good_is_no_advice(verdict, words):
    table = [SINGLE, row("batch", 2, 12.0, 0.97, 1e9), row("local", 2, 4.0, 0.96, 1e7)]
    pairs = [
        pair("batch", "single", "no difference"),
        pair("local", "single", verdict),
        pair("local", "batch", verdict),
    ]
    first, second = answered(table, pairs)["text"]
    assert (
        first.startswith("Stay on one node, or see whether `local` on 2 is good enough: it takes 4.00 s")
        and words in first
    )
    assert "sends 100 times fewer bytes than `batch`" in second and words in second


def test_a_target_that_not_every_run_reaches_is_not_reached():
    table = [SINGLE, row("batch", 2, 5.0, 0.97, reached=4)]
    assert answered(table, [])["text"][0] == (
        "Stay on one node: no way on several reached the target of 95.00 % accuracy in every run."
    )


def test_a_target_that_one_node_misses_is_no_measure():
    table = [row("single", 1, 10.0, 0.97, reached=4), row("batch", 2, 6.0, 0.97, reached=3)]
    first = answered(table, [pair("batch", "single", "no difference")])["text"][0]
    assert first.startswith("Split the work by `batch` on 2 nodes: it takes 12.0 s in all, where one node takes 20.0 s")


def test_how_sure_it_is():
    table = [SINGLE, row("batch", 2, 6.0, 0.97)]
    pairs = [pair("batch", "single", "no difference"), pair("epoch", "single", "undecided")]
    assert "1 of 2 differences are decided" in answered(table, pairs)["certainty"]
    assert "within 0.30 points" in answered(table, pairs)["certainty"]
    assert "One seed" in answered(table, pairs, seeds=1)["certainty"]


def test_one_number_of_nodes_is_no_comparison():
    assert "Nothing was compared" in answered([SINGLE], [])["text"][0]
