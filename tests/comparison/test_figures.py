"""Intervals, lines of the table, targets: arithmetic on plain numbers."""

import math
import socket
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special

from sparksplit.comparison.analysis.differences import compared
from sparksplit.comparison.analysis.runs import (
    ALL_RUNS,
    REFERENCE,
    grid,
    grouped,
    judged,
    main_place,
    median,
    range_of,
    reached,
    target_of,
    value_of,
)
from sparksplit.comparison.analysis.table import geometric
from sparksplit.comparison.analysis.table import row as line_of
from sparksplit.comparison.calibration import cost_model
from sparksplit.comparison.comparison_record import DivergedRun, Place
from sparksplit.comparison.content import Deciding, Metric, MetricRange, Target
from sparksplit.comparison.content_table import ToTarget
from sparksplit.comparison.intervals import interval
from sparksplit.comparison.machine import cluster_name
from sparksplit.comparison.scale import scale
from sparksplit.training.run_record import RunMetrics
from tests.comparison.records import compared_run, curve_of, metric_of, run_seconds, table_row


def test_an_interval_is_students():
    """By hand: mean 3, s = 1.5811, t(0.975, 4) = 2.7764, half = 1.9633."""
    mean, low, high = interval([1, 2, 3, 4, 5])
    assert mean == 3
    assert (low, high) == (pytest.approx(1.0368, abs=1e-3), pytest.approx(4.9632, abs=1e-3))
    assert interval([7.0]) == (7.0, None, None)


def test_intervals_hold_the_truth_as_often_as_they_say():
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(2000):
        _, low, high = interval(generator.normal(10, 3, 5).tolist())
        hits += low <= 10 <= high
    assert 0.93 < hits / 2000 < 0.97


def record(strategy="single", nodes=1, batch_size=64, seconds=1.0, sync=0.0, **more):
    """Of a run of 4 passes over 6,400 rows."""
    return compared_run(**{
        "name": strategy, "strategy": strategy, "nodes": nodes, "rows": 6400, "passes": 4,
        "batch_size": batch_size, "steps": 4 // (nodes if strategy.startswith("epoch") else 1) * (6400 // batch_size),
        "syncs": 0 if nodes == 1 else 400,
        "sync_bytes_per_node": 0 if nodes == 1 else 40_000_000,
        "seconds": run_seconds(seconds, sync), **more,
    })  # fmt: skip


def row(record, **more):
    compute = record.seconds.train - record.seconds.sync
    common = {"timed": 0 if record.virtual else 1}
    common |= {name: getattr(record, name) for name in ("name", "strategy", "nodes", "virtual", "passes", "syncs")}
    return table_row(**{
        **common, "seconds": record.seconds.train, "efficiency": 1.0,
        "bytes_per_node": record.sync_bytes_per_node, "to_target": ToTarget(0.5, 2.0, 1, 1),
        "time": {"compute": compute, "waiting": 0.0, "synchronising": record.seconds.sync}, **more,
    })  # fmt: skip


def test_the_target_is_reached_at_an_epochs_end():
    run = compared_run(history=curve_of("accuracy", [0.83, 0.86, 0.89]))
    assert reached(run, target(0.85), True) == (2, pytest.approx(0.2))
    assert reached(run, target(0.95), True) is None
    assert reached(run, target(0.84), False) == (1, pytest.approx(0.1))


def test_a_value_that_is_null_reaches_no_target_and_counts_as_diverged():
    test, validation = (replace(ACCURACY, name="auc", split=split) for split in ("test", "validation"))
    run = compared_run(history=curve_of("auc", [None, 0.9]))
    assert reached(run, target(0.85, "auc"), True) == (2, pytest.approx(0.2))
    whole = compared_run(key="a", metrics=RunMetrics(test={"auc": 0.9}))
    assert judged(whole, test) == whole
    for lost, metric in (
        (RunMetrics(test={"auc": None}), test),
        (RunMetrics(validation={"auc": [0.9, None]}, test={}), validation),
    ):
        lost_one = judged(compared_run(key="b", metrics=lost), metric)
        assert lost_one.diverged == "its auc is not finite at the end"
        with pytest.raises(ValueError, match="b has no finite auc"):
            value_of(lost_one, metric)


def target(value, metric="accuracy"):
    return Target(metric, value, "configuration")


ACCURACY = metric_of(resolution=1e-4)


def finished(strategy, nodes, seed, value, seconds):
    return record(
        strategy.partition(",")[0],
        nodes,
        seconds=seconds,
        hosts=["a"] * nodes,
        name=strategy,
        seed=seed,
        updates=9,
        history=curve_of("accuracy", [value], seconds),
        metrics=RunMetrics(test={"accuracy": value}),
    )


def test_every_strategy_is_compared_with_single_and_with_batch_by_seed():
    records = [
        finished(strategy, nodes, seed, value + 0.01 * seed, seconds)
        for strategy, nodes, value, seconds in (
            ("single", 1, 0.90, 8.0), ("single, batch_size = 16", 1, 0.91, 16.0),
            ("batch", 2, 0.90, 5.0), ("epoch", 2, 0.88, 4.0),
        )
        for seed in (1, 2, 3)
    ]  # fmt: skip
    metric = ACCURACY
    groups = grouped(records)
    pairs, times = compared(groups, metric, target(0.85), grid(groups), None)
    found = {(pair.name, pair.against): (round(pair.mean, 6), pair.verdict) for pair in pairs}
    assert found == {
        ("single, batch_size = 16", "single"): (0.01, "better"),
        ("batch", "single"): (0.0, "no difference"),
        ("epoch", "single"): (-0.02, "worse"),
        ("epoch", "batch"): (-0.02, "worse"),
        ("batch", "single, batch_size = 16"): (-0.01, "worse"),
        ("epoch", "single, batch_size = 16"): (-0.03, "worse"),
    }
    # Equal times decide nothing: they say that the seeds made no difference.
    assert [(time.name, time.what, time.times, time.verdict) for time in times if time.against == "single"] == [
        (strategy, what, pytest.approx(fast), "undecided")
        for what in ("to the target", "in all")
        for strategy, fast in (("single, batch_size = 16", 0.5), ("batch", 1.6), ("epoch", 2.0))
    ]
    rows = [line_of(group, groups, metric, target(0.905), grid(groups), None) for group in groups]
    assert [(one.name, one.efficiency) for one in rows] == [
        ("single", 1.0), ("single, batch_size = 16", 0.5), ("batch", 0.8), ("epoch", 1.0)
    ]  # fmt: skip
    assert [one.to_target.reached for one in rows] == [3, 3, 3, 1]


def test_a_strategy_on_several_nodes_is_compared_with_all_on_one_node_of_which_no_run_diverged():
    small = ("single, batch_size = 32", 1, False)
    strategies = (("single", 1, 0.90, 8.0), (small[0], 1, 0.93, 4.0), ("local", 2, 0.93, 3.0), ("epoch", 2, 0.91, 5.0))
    records = [
        finished(strategy, nodes, seed, value + 0.001 * seed * nodes, seconds * (1 + 0.01 * seed * nodes))
        for strategy, nodes, value, seconds in strategies
        for seed in (1, 2, 3)
    ]
    groups = grouped(records)
    rows = {group[0]: line_of(group, groups, ACCURACY, None, [1], None) for group in groups}
    assert {strategy: one.controls for strategy, one in rows.items() if one.controls} == {
        "local": [small[0]],
        "epoch": [small[0]],
    }
    pairs, times = compared(groups, ACCURACY, target(0.85), [1], None)
    assert [pair.against for pair in pairs if pair.name == "local"] == ["single", small[0]]
    assert [(one.what, one.against) for one in times if one.name == "local"] == [
        (what, against) for what in ("to the target", "in all") for against in ("single", small[0])
    ]
    (beside,) = (one for one in times if (one.name, one.what, one.against) == ("local", "in all", small[0]))
    assert beside.against_nodes == 1 and beside.times == pytest.approx(4 / 3, rel=0.02)
    groups[small] = [*groups[small][:2], diverged(small[0], 1, 3)]
    assert line_of(("local", 2, False), groups, ACCURACY, None, [1], None).controls == []
    pairs, times = compared(groups, ACCURACY, target(0.85), [1], None)
    assert {one.against for one in (*pairs, *times) if one.name == "local"} == {"single"}


NOTHING = cost_model([], [record()], [], [])
"""A model that nothing was measured for."""


def test_hosts_are_those_that_the_nodes_were_on():
    """And the slow link has 12.5 MB/s: 40 MB in frames take 3.4 s, the messages of 400 exchanges 0.04 s."""
    one = row(record("batch", 2, seconds=2.0, sync=0.5), hosts=1)
    two = replace(one, hosts=2)
    for found, hosts, link in (
        (scale([one], NOTHING), 1, "loopback"),
        (scale([two], NOTHING), 2, "this cluster's"),
    ):
        assert [(line.hosts, line.link, line.measured) for line in found] == [
            (hosts, link, True), (2, "100 Mbit/s", False)
        ]  # fmt: skip
        assert [line.seconds for line in found] == [2.0, pytest.approx(1.5 + 3.2 * (1538 + 45) / 1448 + 0.04)]


def diverged(strategy, nodes, seed):
    return DivergedRun(
        key="k", name=strategy, config_hash="c", diverged="the loss is nan", nodes=nodes, virtual=False, seed=seed
    )


def test_seeds_that_diverged_are_counted_and_paired_with_none():
    records = [
        *(finished("single", 1, seed, 0.90, 8.0) for seed in (1, 2, 3, 4)), diverged("single", 1, 5),
        *(finished("local", 2, seed, 0.95, 1.0) for seed in (1, 5)),
        *(diverged("local", 2, seed) for seed in (2, 3, 4)),
        *(diverged("epoch", 2, seed) for seed in (1, 2, 3, 4, 5)),
    ]  # fmt: skip
    groups = grouped(records)
    single, local, epoch = (line_of(group, groups, ACCURACY, target(0.9), grid(groups), None) for group in groups)
    assert [(row.runs, row.diverged) for row in (single, local, epoch)] == [(4, 1), (2, 3), (0, 5)]
    assert (single.to_target.reached, single.to_target.of) == (4, 5)
    assert (local.to_target.reached, local.to_target.of) == (2, 5)
    assert epoch.metric.mean is None and epoch.seconds is None and epoch.to_target is None
    (pair,) = compared(groups, ACCURACY, None, [], None)[0]
    assert (pair.name, pair.seeds, pair.of, pair.verdict) == ("local", 1, 5, "undecided")
    assert [line.name for line in scale([single, local, epoch], NOTHING)] == ["single", "local", "local"]


def test_the_target_is_what_single_reaches_on_seeds_of_its_own():
    """What is compared says nothing about it, unless there is nothing else."""
    groups = grouped([finished("single", 1, seed, 0.99, 8.0) for seed in (1, 2)])
    own = [finished("single", 1, 1_000_001, 0.90, 8.0)]
    assert target_of(None, groups, own, ACCURACY, [1]) == Target("accuracy", 0.9, REFERENCE)
    assert target_of(None, groups, [], ACCURACY, [1]) == Target("accuracy", 0.99, ALL_RUNS)
    assert target_of(0.7, groups, own, ACCURACY, [1]) == Target("accuracy", 0.7, "configuration")
    assert target_of(None, grouped([]), [], ACCURACY, []) is None


def learnt(strategy, nodes, values, every=1, virtual=False, **more):
    """A run that is validated every so many passes."""
    points = [replace(point, passes=every * point.passes) for point in curve_of("accuracy", values)]
    metrics = RunMetrics(test={"accuracy": values[-1]})
    return record(strategy, nodes, hosts=["a"], history=points, virtual=virtual, metrics=metrics, **more)


def test_all_strategies_are_looked_at_after_the_same_passes():
    """`single` had reached it after 3 passes, which on 2 nodes nobody looks at."""
    single = learnt("single", 1, [0.1, 0.5, 0.9, 0.9])
    epoch, far = learnt("epoch", 2, [0.6, 0.9], every=2), learnt("epoch", 4, [0.9], every=4, virtual=True)
    groups = grouped([single, epoch, far])
    passes = grid(groups)
    assert passes == [2, 4]
    assert [reached(run, target(0.85), True, passes)[0] for run in (single, epoch, far)] == [4, 4, 4]
    assert grid(grouped([far])) == [4] and grid(grouped([])) == []


def test_there_is_no_time_to_target_if_a_run_missed_it_and_passes_are_a_median_with_misses_as_infinite():
    """The mean of those that hit would be 0.1."""
    members = [learnt("batch", 2, [value], seed=seed) for seed, value in enumerate([0.9, 0.9, 0.2, 0.9, 0.2])]
    assert times_of(members) == ToTarget(None, 1, 3, 5)
    assert times_of(members[:4]) == ToTarget(None, 1, 3, 4)
    assert times_of(members[1:5]) == ToTarget(None, None, 2, 4)
    assert times_of([*members[:2], *(diverged("batch", 2, seed) for seed in (2, 3, 4))]) == ToTarget(None, None, 2, 5)
    assert median([]) is None


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=8, unique=True))
def test_the_interval_of_a_time_is_that_of_its_logarithm(seconds):
    mean, low, high = geometric(seconds)
    _, *ends = interval([math.log(value) for value in seconds])
    assert (math.log(low), math.log(high)) == (pytest.approx(ends[0], abs=1e-6), pytest.approx(ends[1], abs=1e-6))
    assert low <= mean <= high and mean == pytest.approx(math.exp(fmean(map(math.log, seconds))))
    doubled = geometric([2 * value for value in seconds])
    assert doubled == pytest.approx((2 * mean, 2 * low, 2 * high))


@pytest.mark.parametrize(("seconds", "mean"), [([], None), ([1.0], 1.0), ([2.0, 2.0], 2.0), ([0.0, 1.0], 0.0)])
def test_a_time_without_an_interval(seconds, mean):
    assert geometric(seconds) == (mean, None, None)


def test_a_strategy_has_an_interval_only_if_every_run_reached_the_target():
    members = [
        replace(learnt("batch", 2, [0.9], seed=seconds), history=curve_of("accuracy", [0.9], seconds))
        for seconds in (1, 2, 4)
    ]
    found = times_of(members)
    assert (found.seconds, found.low, found.high) == pytest.approx(geometric([1, 2, 4]))
    found = times_of([*members, learnt("batch", 2, [0.2], seed=5)])
    assert (found.seconds, found.low, found.high, found.reached) == (None, None, None, 3)


def timed_runs(nodes, seconds, value=0.9):
    strategy = "single" if nodes == 1 else "batch"
    return [finished(strategy, nodes, seed, value, each) for seed, each in enumerate(seconds, 1)]


def test_time_is_compared_in_its_logarithm_and_faster_is_said_with_at_least():
    groups = grouped([*timed_runs(1, [8.0, 8.8, 7.6]), *timed_runs(2, [4.1, 4.3, 3.9])])
    _, times = compared(groups, ACCURACY, target(0.85), grid(groups), None)
    assert [(one.what, one.seeds, one.of, one.verdict) for one in times] == [
        (what, 3, 3, "faster") for what in ("to the target", "in all")
    ]
    logs = [math.log(a / b) for a, b in ((8.0, 4.1), (8.8, 4.3), (7.6, 3.9))]
    mean, low, high = interval(logs)
    first = times[0]
    assert (first.times, first.low, first.high) == pytest.approx((math.exp(mean), math.exp(low), math.exp(high)))
    # There is no other row, and only one side of the bound counts.
    error = stdev(logs) / math.sqrt(3)
    assert first.at_least == pytest.approx(math.exp(mean - special.stdtrit(2, 0.95) * error)) and not first.pooled


def test_the_ratio_of_two_rows_seconds_is_their_speed_up():
    """Was: 1.27 times as fast, beside 55.7 and 47.4 min, which are 1.18: a geometric mean beside medians."""
    groups = grouped([*timed_runs(1, [8.0, 9.9, 5.6]), *timed_runs(2, [4.1, 3.3, 7.9])])
    single, batch = (line_of(group, groups, ACCURACY, target(0.85), grid(groups), None) for group in groups)
    _, (to_target, in_all) = compared(groups, ACCURACY, target(0.85), grid(groups), None)
    assert single.to_target.seconds / batch.to_target.seconds == pytest.approx(to_target.times)
    assert single.seconds / batch.seconds == pytest.approx(in_all.times) == pytest.approx(2 * batch.efficiency)


def test_there_is_no_time_to_the_target_over_those_that_happened_to_reach_it():
    batch = timed_runs(2, [4.0, 4.1, 3.9])
    batch[1] = replace(batch[1], history=curve_of("accuracy", [0.2], 4.1))
    groups = grouped([*timed_runs(1, [8.0, 8.2, 7.9]), *batch])
    _, times = compared(groups, ACCURACY, target(0.85), grid(groups), None)
    assert [(one.what, one.verdict) for one in times] == [("in all", "faster")]
    # Nor if the one that missed it was measured elsewhere.
    moved = [*batch[:1], replace(batch[1], place=Place("yarn", ("a",), 1)), *batch[2:]]
    groups = grouped([*timed_runs(1, [8.0, 8.2, 7.9]), *moved])
    _, times = compared(groups, ACCURACY, target(0.85), grid(groups), None)
    assert [(one.what, one.seeds, one.of) for one in times] == [("in all", 2, 3)]
    gone = grouped([*timed_runs(1, [8.0, 8.2, 7.9]), *batch[:1], diverged("batch", 2, 2), batch[2]])
    assert [(one.what, one.seeds, one.of) for one in compared(gone, ACCURACY, target(0.85), [1], None)[1]] == [
        ("in all", 2, 3)
    ]


def times_of(members):
    groups = grouped(members)
    return line_of(("batch", 2, False), groups, ACCURACY, target(0.85), grid(groups), None).to_target


HERE, THERE = Place("local-cluster on desk", ("a, 2 cores",), 1), Place("local-cluster on desk", ("a, 2 cores",), 2)


def test_times_that_were_measured_elsewhere_do_not_count():
    """On a machine of more threads the last two took an eighth of the time."""
    records = [
        replace(finished(strategy, nodes, seed, 0.9, 1.0 if seed > 3 else 8.0), place=THERE if seed > 3 else HERE)
        for strategy, nodes in (("single", 1), ("batch", 2))
        for seed in (1, 2, 3, 4, 5)
    ]
    assert main_place(records) == HERE
    groups = grouped(records)
    rows = [line_of(group, groups, ACCURACY, target(0.85), grid(groups), HERE) for group in groups]
    assert [(one.seconds, one.timed, one.runs) for one in rows] == [(8.0, 3, 5)] * 2
    assert [one.to_target for one in rows] == [ToTarget(8.0, 1, 5, 5)] * 2
    gone = [line_of(group, groups, ACCURACY, target(0.85), grid(groups), replace(HERE, threads=3)) for group in groups]
    assert [(one.seconds, one.efficiency, one.timed) for one in gone] == [(None, None, 0)] * 2
    model = cost_model(gone, [], [], [])
    assert model is None and cost_model([rows[0], gone[1]], records[:3], [], []).predictions


MIXED = Place("yarn with hdfs://a", ("EPYC, 2 cores", "Xeon, 2 cores"), 1, versions=("tensorflow 2.21.0",))


@pytest.mark.parametrize("first", [1, 2])
def test_one_node_of_a_cluster_with_two_kinds_of_hosts_is_timed_where_two_nodes_are(first):
    """Was: the hosts of one node were another place than the hosts of two, so no row on two nodes had a time."""
    places = {1: replace(MIXED, hosts=MIXED.hosts[1:]), 2: MIXED}
    records = [
        replace(finished(strategy, nodes, seed, 0.9, 8.0 / nodes), place=places[nodes])
        for strategy, nodes in sorted((("single", 1), ("batch", 2)), key=lambda one: one[1] != first)
        for seed in (1, 2, 3)
    ]
    assert main_place(records) == MIXED
    groups = grouped(records)
    rows = [line_of(group, groups, ACCURACY, target(0.85), grid(groups), MIXED) for group in groups]
    assert [(one.nodes, one.seconds, one.timed) for one in rows] == [(1, 8.0, 3), (2, 4.0, 3)]
    _, times = compared(groups, ACCURACY, target(0.85), grid(groups), MIXED)
    assert [(one.what, one.seeds) for one in times] == [("to the target", 3), ("in all", 3)]


@pytest.mark.parametrize(
    "other",
    [
        {"cluster": "yarn with hdfs://b"},
        {"hosts": ("Ryzen, 2 cores",)},
        {"hosts": ("EPYC, 2 cores", "Ryzen, 2 cores")},
        {"threads": 2},
        {"input_mode": "spark"},
        {"versions": ("tensorflow 2.22.0",)},
    ],
)
def test_another_cluster_and_another_version_are_another_place(other):
    there = replace(MIXED, **other)
    assert not MIXED.holds(there) and MIXED.holds(MIXED) and str(there) != str(MIXED)
    records = [replace(finished("single", 1, seed, 0.9, 8.0), place=MIXED) for seed in (1, 2)]
    moved = replace(finished("single", 1, 3, 0.9, 1.0), place=there)
    assert main_place([moved, *records]) == MIXED
    assert [one.is_timed_in(MIXED) for one in (*records, moved)] == [True, True, False]
    unknown = replace(moved, place=None)
    assert not unknown.is_timed_in(MIXED) and not moved.is_timed_in(None) and unknown.is_timed_in(None)


def test_a_clusters_name_tells_one_yarn_from_another():
    assert cluster_name("yarn", "hdfs://a") == "yarn with hdfs://a" and cluster_name("yarn") == "yarn"
    assert cluster_name("spark://host:7077") == "spark://host:7077"
    assert cluster_name("local-cluster[2,1,1024]") == f"local-cluster on {socket.gethostname()}"


def test_the_margin_is_a_share_of_what_training_gains():
    """An error of 1e-3 made an absolute margin of 3e-3 say that everything is the same."""
    error = metric_of("mean_squared_error", resolution=None)
    own = [
        compared_run(key=str(seed), untrained={error.name: 0.081}, metrics=RunMetrics(test={error.name: 0.001}))
        for seed in (1, 2)
    ]
    found = range_of(own, grouped([]), error)
    assert found == MetricRange(pytest.approx(0.081), pytest.approx(0.001), REFERENCE)
    known = Deciding("mean_squared_error", False, "test", None)
    assert Metric.of(known, 0.01, found).margin == pytest.approx(0.0008)
    assert Metric.of(known, 0.01, None).margin == 0
    # Without them it is what is known: from the worst first value to the best last one.
    groups = grouped([learnt("single", 1, [0.3, 0.8]), learnt("batch", 2, [0.2, 0.9])])
    assert range_of([], groups, ACCURACY) == MetricRange(0.2, 0.9, ALL_RUNS)
    assert range_of([replace(own[0], untrained=None)], groups, ACCURACY).by == ALL_RUNS
    assert range_of([], grouped([]), ACCURACY) is None


@given(
    st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=6)
    | st.lists(st.integers(1, 119).map(lambda n: n / 119), min_size=1),
    st.booleans(),
)
@example([110 / 120], True)  # rounded to 0.916667, it was missed
@example([4e-7, 3e-7, 2e-7], False)  # the target was 0
def test_single_reaches_the_target_that_comes_from_it(values, higher):
    run = record(history=curve_of("auc", values))
    metric = replace(ACCURACY, name="auc", higher_is_better=higher)
    groups = grouped([run])
    assert reached(run, target_of(None, groups, [run], metric, grid(groups)), higher, grid(groups)) is not None


def test_validation_rows_decide_where_there_are_no_test_rows():
    run = finished("single", 1, 1, 0.9, 8.0)
    run = replace(run, metrics=RunMetrics(validation={"accuracy": [0.5, 0.7]}, test={}))
    assert value_of(run, replace(ACCURACY, split="validation")) == 0.7


def test_equal_seeds_on_119_rows_decide_nothing():
    """Was: no difference, 95 % interval 0.00 to 0.00."""
    both = (("single", 1), ("batch", 2))
    records = [finished(strategy, nodes, seed, 116 / 119, 1.0) for strategy, nodes in both for seed in (1, 2)]
    (pair,) = compared(grouped(records), replace(ACCURACY, resolution=1 / 119), None, [], None)[0]
    assert (pair.mean, pair.verdict) == (0, "undecided")


shares = st.lists(st.integers(-30, 30), min_size=2, max_size=8)


@given(shares, st.integers(1, 10_000))
def test_a_resolution_only_widens_an_interval_to_a_row_at_least(counts, rows):
    values = [count / rows for count in counts]
    mean, low, high = interval(values, 1 / rows)
    plain = interval(values)
    assert mean == plain[0] and low <= plain[1] and plain[2] <= high
    assert high - mean >= (1 - 1e-9) / rows
