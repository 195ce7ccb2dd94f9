"""How much time is said to be left, of comparisons whose runs take made-up times."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import pytest

from sparksplit.base.config import parse
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.plan import plan
from sparksplit.comparison.progress import START_SECONDS, ComparisonDisplay, Pace, duration, estimate
from sparksplit.comparison.tuning.tries import tries

ROWS = 10_000
START = {1: 12.0, 2: 18.0}
"""Seconds that a cluster of so many nodes takes to start."""


def lasts(run):
    """Of a run: to compile and validate, and for its passes. Tries have no test rows to evaluate."""
    steps = ROWS / run.config.batch_size
    pass_seconds = 0.002 * steps * (3 if run.config.virtual else 0.8 if run.config.node_count > 1 else 1)
    return 2.5 + run.config.epochs * pass_seconds + (0.0 if run.tried else 1.0)


class Played:
    """A comparison whose time is made up: what is left, and what was said to be."""

    def __init__(self):
        self.now, self.said, self.pace = 0.0, [], Pace()

    def play(self, runs, later=()):
        display = ComparisonDisplay(runs, ROWS, later, self.pace, clock=lambda: self.now)
        while runs:
            together = list(takewhile(lambda run: run.cluster == runs[0].cluster, runs))  # noqa: B023
            display.begin(together)
            self.now += START[runs[0].processes]
            for number, run in enumerate(together):
                for update in range(10):
                    display.state(0, {"run": number, "update": update, "steps": 10})
                    self.said.append((self.now, run, display.left()))
                    self.now += lasts(run) / 10
                display.state(0, {"run": number, "update": 10, "steps": 10})
            runs = runs[len(together) :]
        with display:
            pass


def played(rate=None, **keys):
    given = {"data": "d", "output": "o", "batch_size": 64, "epochs": 8, "nodes": [1, 2], "seeds": 3, "virtual": [4]}
    config = parse(CompareConfig, {**given, **keys})
    runs = plan(config)
    found = [run for one in tries(config, runs) for run in one.runs]
    play = Played()
    play.pace.rate = rate
    if found:
        play.play(found, runs)
    play.play(runs)
    return play


@pytest.mark.parametrize("keys", [{}, {"tune": 8}, {"tune": 4, "seeds": 5, "nodes": [2, 1]}, {"seeds": 1}])
def test_what_is_left_is_told_within_a_quarter_once_each_kind_of_run_has_ended(keys):
    """Was five times as much: the first cluster's start counted for each of the first run's passes."""
    play = played(**keys)
    kinds = {(run.tried, run.processes, run.config.virtual, run.config.batch_size) for _, run, _ in play.said}
    seen, checked, earlier = set(), 0, None
    for now, run, left in play.said:
        if earlier is not None and earlier.key != run.key:
            seen.add((earlier.tried, earlier.processes, earlier.config.virtual, earlier.config.batch_size))
        earlier = run
        if seen == kinds:
            assert left == pytest.approx(play.now - now, rel=0.25, abs=5)
            checked += 1
    assert checked or keys == {"seeds": 1}


@pytest.mark.slow
def test_it_is_never_far_off_once_the_first_run_has_ended():
    """Runs of other kinds are judged by those that have ended; tries by the whole comparison that follows them."""
    for keys in ({}, {"tune": 8}, {"seeds": 1}):
        play = played(**keys)
        first = play.said[0][1]
        assert all(left is None for _, run, left in play.said if run is first)
        for now, run, left in play.said:
            if run is not first:
                assert left is not None and (play.now - now) / 2.5 - 10 < left < 2.5 * (play.now - now) + 10


def test_before_any_run_has_ended_it_is_told_by_the_measured_rate():
    play = played(rate=ROWS / 0.3125)
    _, run, left = play.said[0]
    assert not run.tried and left > 0
    assert left == pytest.approx(play.now - play.said[0][0], rel=0.6)


def test_what_is_announced_has_the_starts_of_all_clusters(capsys):
    config = parse(CompareConfig, {"data": "d", "output": "o", "batch_size": 64, "epochs": 8, "nodes": [1, 2]})
    runs, now = plan(config), [0.0]
    later = [run for one in tries(config.model_copy(update={"tune": 2}), runs) for run in one.runs]
    display = ComparisonDisplay(runs, ROWS, later, clock=lambda: now[0])
    display.begin([run for run in runs if run.processes == 1])
    now[0] = 60.0
    display.say_estimate(1e9)  # so that only what each run and each cluster takes besides remains
    clusters = 2 + (2 if later else 0)
    least = duration(60 * clusters + START_SECONDS * len([*runs, *later]))
    assert f"will take about {least}, with {clusters} starts of 60 s" in capsys.readouterr().err


def test_a_run_that_failed_says_nothing_about_others():
    config = parse(CompareConfig, {"data": "d", "output": "o", "nodes": [1], "seeds": 3, "strategies": ["single"]})
    runs, now, pace = plan(config), [0.0], Pace()
    display = ComparisonDisplay(runs, ROWS, (), pace, clock=lambda: now[0])
    display.begin(runs)
    now[0] = 5.0
    display.state(0, {"run": 0, "update": 3, "steps": 10})
    now[0] = 7.0
    display.begin(runs[1:])
    assert pace.starts == [5.0] and pace.seconds(runs[0], ROWS) is None
    pace.rate = 1000.0
    assert pace.seconds(runs[0], ROWS) == estimate(runs[:1], ROWS, 1000.0)


def test_runs_that_take_less_than_a_start_are_not_taken_to_be_the_quicker_the_longer_they_are():
    """Was: more passes, fewer seconds, since what a start takes is assumed and was taken off of less than that."""
    runs = plan(parse(CompareConfig, {"data": "d", "output": "o", "nodes": [1], "seeds": 1, "strategies": ["single"]}))
    longer = replace(runs[0], config=runs[0].config.model_copy(update={"epochs": 1000}))
    pace = Pace()
    pace.finished(runs[0], 0.5)
    assert pace.seconds(longer, ROWS) >= pace.seconds(runs[0], ROWS) > 0


def test_tuning_is_not_called_comparing_which_comes_after_it():
    config = parse(CompareConfig, {"data": "d", "output": "o", "nodes": [1], "seeds": 1, "tune": 2})
    runs = plan(config)
    found = [run for one in tries(config, runs) for run in one.runs]
    names = [ComparisonDisplay(own, ROWS)._progress.title for own in (found, runs)]
    assert names == ["tuning", "comparing"]
