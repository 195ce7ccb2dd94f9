"""What is recommended and what is guessed, beside all that one node did: tables made by hand."""

from dataclasses import replace

import pytest

from sparksplit.comparison.analysis.frontier import frontier
from sparksplit.comparison.answer import answer
from sparksplit.comparison.content_table import TO_TARGET
from tests.comparison.records import metric_of, some_results
from tests.comparison.test_answer import SINGLE, answered, pair, row, speed

LARGE = "single, batch_size = 64, learning_rate = 0.2"


def test_the_best_guess_is_the_fastest_row_of_the_table_on_one_node_too():
    """As quickstart had it: `local` on two nodes was guessed, because this row was the control of `epoch` alone."""
    local = replace(row("local", 2, 6.81, 0.97, 1e7), controls=[LARGE])
    table = [row("single", 1, 7.64, 0.97), row(LARGE, 1, 6.23, 0.97), local]
    pairs = [
        pair("local", "single", "undecided"),
        pair("local", LARGE, "undecided"),
        pair(LARGE, "single", "undecided"),
    ]
    first = answered(table, pairs, sure="undecided")["text"][0]
    assert first.endswith(
        f"Best guess until then: `{LARGE}` on one node, by the means alone, which takes 6.23 s to the target."
    )
    # What it learns is worse than the margin allows, or its time is as long: then it does not stand in the way.
    for other in (row(LARGE, 1, 6.23, 0.966), row(LARGE, 1, 6.82, 0.97)):
        first = answered([table[0], other, local], pairs, sure="undecided")["text"][0]
        assert first.endswith(
            "Best guess until then: `local` on 2, by the means alone, which takes 6.81 s to the target."
        )


@pytest.mark.parametrize(
    ("seconds", "verdict", "begin"),
    [
        (8.0, "faster", "Split the work by `local` on 2 nodes"),
        (8.0, "undecided", "Not decided yet: whether `local` on 2 is ahead of what one node can do"),
        # Faster seed by seed, and not by what the table shows.
        (4.0, "faster", "Not decided yet: whether `local` on 2 is ahead of what one node can do"),
        (4.0, "slower", "Stay on one node: `local` on 2 takes 5.00 s to the target, where one node takes 10.0 s (2"),
    ],
)  # fmt: skip
def test_several_nodes_are_recommended_only_if_decided_to_be_ahead_of_all_on_one(seconds, verdict, begin):
    local = replace(row("local", 2, 5.0, 0.97, 1e7), controls=[LARGE])
    other, metric = row(LARGE, 1, seconds, 0.97), metric_of()
    table, pairs = [SINGLE, other, local], [pair("local", name, "no difference") for name in ("single", LARGE)]
    beside = replace(speed(local, 2 * seconds, TO_TARGET, verdict), against=LARGE)
    times = [speed(local, SINGLE.seconds, TO_TARGET), beside]
    found = frontier(table, pairs, times, metric)
    text = answer(some_results(table, pairs, metric, times=times, frontier=found, seeds=list(range(5)))).text
    assert text[0].startswith(begin)
    assert (("fastest", "local") in {(choice.role, choice.name) for choice in found}) == begin.startswith("Split")
    if verdict == "slower":
        assert f"but `{LARGE}` on one node is decided to be faster, and to learn as well or better" in text[0]
