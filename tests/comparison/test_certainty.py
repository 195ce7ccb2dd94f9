"""What is still to be decided, and by what."""

from dataclasses import replace

from sparksplit.comparison.certainty import undecided
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
