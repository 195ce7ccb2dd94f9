"""What is still to be decided, and by what."""

from dataclasses import replace
from typing import get_args

from sparksplit.comparison.certainty import certainty, undecided
from sparksplit.comparison.content import DataFacts
from sparksplit.comparison.numbers import Quantity
from sparksplit.dataset.manifest import Dependent
from tests.comparison.records import metric_of, some_results
from tests.comparison.test_answer import pair


def test_what_only_more_rows_can_tell_is_not_waited_for_with_more_seeds():
    metric = metric_of(margin=0.003, resolution=0.004)
    few = replace(pair("local", "single", "undecided", 0.0005), low=-0.01, high=0.01)
    assert undecided(some_results([], [few], metric)) == 0
    assert undecided(some_results([], [replace(few, mean=0.0045)], metric)) == 1
    assert undecided(some_results([], [few], replace(metric, resolution=0.001))) == 1
    assert undecided(some_results([], [replace(few, verdict="worse")], replace(metric, resolution=0.001))) == 0
    # Without an interval nothing is known of it yet.
    assert undecided(some_results([], [replace(few, low=None, high=None)], metric)) == 1


def sure(pairs, metric, dependent=None, **fields):
    data = DataFacts("d", "e", {"train": 1000, "test": 1000}, dependent)
    results = some_results([], pairs, metric, seeds=[1, 2, 3, 4, 5], data=data, **fields)
    return certainty(results, Quantity(metric.name)), undecided(results)


def test_what_is_chance_by_rows_takes_more_rows_and_it_says_how_many():
    """0.6 points from what is to be ruled out first, with a standard error of 0.4 by rows and little by seeds: by hand,
    (1.96 * 0.4 / 0.6)^2 = 1.7 times as many rows."""
    metric = metric_of(margin=0.001, resolution=0.001)
    some = replace(pair("local", "single", "undecided", 0.005), low=-0.003, high=0.013, error=0.00401, rows_error=0.004)
    text, left = sure([some], metric)
    assert (
        "More seeds alone would not decide 1 of the undecided differences in quality, if means stay as they are: that "
        "takes about 1,700 test rows, where there are 1,000, or a larger `margin`."
    ) in text
    assert "learn would take" not in text and left == 0
    # Mostly by seeds: by hand, 2.2 * 0.87 / sqrt(12) and 1.96 * 0.1 together are 0.59 points.
    text, left = sure([replace(some, error=0.004, rows_error=0.001)], metric)
    assert "To decide how all strategies learn would take about 12 seeds (`seeds: 12`)." in text and left == 1
    # By both: neither alone.
    text, left = sure([replace(some, error=0.006, rows_error=0.004)], metric)
    assert "that takes more test rows, and perhaps more seeds, or a larger `margin`." in text and left == 0


def test_it_says_for_which_rows_intervals_hold():
    metric = metric_of()
    known, alone = (
        replace(pair("local", "single", "better"), error=0.001, rows_error=0.0005),
        pair("b", "single", "better"),
    )
    sample = "hold for other rows of the same kind, too: the test rows count as a sample."
    assert sample in sure([known], metric)[0]
    text = sure([known, alone], metric)[0]
    assert "in quality, in 1 of 2 differences, are over the seeds alone, and hold for these very test rows: how" in text
    assert sample not in text
    text = sure([alone], metric)[0]
    assert "Those in quality are over the seeds alone, and hold for these very test rows: how far rows" in text
    for why in get_args(Dependent):
        text = sure([alone], metric, why)[0]
        assert "Those in quality are over the seeds alone, and hold for these very test rows: " in text
        assert "are no independent sample. In quality" in text and "how far rows" not in text
