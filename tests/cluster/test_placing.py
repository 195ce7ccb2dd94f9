"""Which executors hold the nodes where a host is left out."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparksplit.cluster import NodeCluster, placing
from sparksplit.cluster.placing import Executor, elsewhere, failing, host_by_host
from sparksplit.cluster.requirements import await_executors
from sparksplit.spark.executors import host_in
from sparksplit.spark.waiting import Patience
from tests.jvm import gateway, jvm

ONE, TWO, THREE = (Executor(str(number), "a") for number in (1, 2, 3))
FOUR, FIVE = Executor("4", "b"), Executor("5", "c")


def test_a_host_is_left_out_after_the_second_failure():
    assert failing({}) == failing({"a": 1, "b": 1}) == []
    assert failing({"b": 2, "c": 1, "a": 3}) == ["a", "b"]


@pytest.mark.parametrize(
    ("nodes", "avoided", "expected"),
    [
        (2, ["a"], [FOUR, FIVE]),
        (3, ["a"], None),
        (2, ["b"], [ONE, FIVE]),
        (4, ["b"], [ONE, TWO, THREE, FIVE]),
        (1, ["a", "b"], [FIVE]),
        (1, ["a", "b", "c"], None),
        (5, ["gone"], [ONE, TWO, THREE, FOUR, FIVE]),
    ],
)
def test_nodes_are_spread_over_the_other_hosts(nodes, avoided, expected):
    assert elsewhere([ONE, TWO, THREE, FOUR, FIVE], nodes, avoided) == expected


def test_nodes_of_one_host_have_ranks_that_follow_one_another():
    assert host_by_host([ONE, FOUR, TWO, FIVE], 4) == [ONE, TWO, FOUR, FIVE]
    assert host_by_host([ONE, FOUR, TWO, FIVE, THREE], 3) == [ONE, FOUR, FIVE]
    assert host_by_host([ONE, TWO], 2) is host_by_host([FIVE, FOUR, ONE], 2) is None
    assert host_by_host([ONE, FOUR, TWO], 4) is None


@pytest.mark.parametrize(
    ("avoid", "prefer", "expected"),
    [
        ([], [], None),
        ([], [THREE, FOUR], [THREE, FOUR]),
        ([], [THREE, Executor("9", "b")], None),  # it has ended since
        (["b"], [THREE, FOUR], [ONE, FIVE]),
    ],
)
def test_nodes_are_where_they_were_before_if_that_is_possible(monkeypatch, avoid, prefer, expected):
    monkeypatch.setattr(placing, "executors_there", lambda _: [ONE, TWO, THREE, FOUR, FIVE])
    cluster = NodeCluster.__new__(NodeCluster)
    cluster._sc, cluster._nodes, cluster._avoid, cluster._prefer = None, 2, avoid, prefer
    assert cluster._placed() == expected


@pytest.mark.parametrize(
    ("held", "expected"), [({0: "4", 1: "1", 2: "5"}, [FOUR, ONE]), ({0: "4"}, []), ({0: "4", 1: "9"}, [])]
)
def test_the_executors_of_the_first_nodes_are_named_or_none(monkeypatch, held, expected):
    monkeypatch.setattr(placing, "executors_there", lambda _: [ONE, FOUR, FIVE])
    cluster = NodeCluster.__new__(NodeCluster)
    cluster._sc = SimpleNamespace(_gateway=gateway())
    cluster._job = SimpleNamespace(holders=lambda: held)
    assert cluster.executors(2) == expected


def test_no_executors_are_named_while_the_jvm_stands_still(monkeypatch):
    """The choice of fewer nodes is written down by then. These may be anywhere."""
    monkeypatch.setattr("sparksplit.spark.jvm.PATIENCE", 0.1)
    cluster = NodeCluster.__new__(NodeCluster)
    cluster._job = SimpleNamespace(holders=lambda: {0: "1"})
    with jvm(0) as context:
        cluster._sc = context
        assert cluster.executors(1) == []


@pytest.mark.parametrize("place", ["h5:40001", "h5", "10.0.0.5:7", "10.0.0.5", "[::1]:7", "[::1]"])
def test_an_executors_host_is_known_before_its_port(place):
    assert host_in(place) in ("h5", "10.0.0.5", "[::1]")


def spark_that_lists(*sizes):
    """A SparkContext with three executors, of which its list has so many at each look, in the end the last number."""
    known = [SimpleNamespace(id=lambda: "driver", hostPort=lambda: "h0:7")]
    known += [SimpleNamespace(id=lambda n=n: str(n), hostPort=lambda n=n: f"h{n % 2}:7") for n in range(3)]
    left = [list(known[: 1 + size]) for size in sizes]

    def listed(active):
        now = left.pop(0) if len(left) > 1 else left[0]
        return SimpleNamespace(size=lambda: len(now), apply=now.__getitem__)

    store, ids = SimpleNamespace(executorList=listed), SimpleNamespace(size=lambda: 3)
    context = SimpleNamespace(statusStore=lambda: store, getExecutorIds=lambda: ids)
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context))


def test_executors_are_placed_once_spark_lists_all_that_it_has(monkeypatch):
    assert host_by_host(placing.executors_there(spark_that_lists(0, 2, 3)), 3) == [
        Executor("0", "h0"),
        Executor("2", "h0"),
        Executor("1", "h1"),
    ]
    monkeypatch.setattr(placing, "LAG", 0.1)
    assert len(placing.executors_there(spark_that_lists(0, 2))) == 2


def test_spark_computes_each_partition_on_its_executor_and_tells_its_host(spark):
    sc = spark.sparkContext
    await_executors(sc, 4, Patience(90))
    last, *_, first = placing.executors_there(sc)
    for executors in ([first, last], [last], [last, first]):
        group = f"placed-{'-'.join(one.id for one in executors)}"
        sc.setJobGroup(group, "placed")
        rows = placing.parallelize(sc, range(7, 7 + len(executors)), executors)
        found = rows.mapPartitions(lambda own: [(*own, Path(os.getcwd()).name)]).collect()  # noqa: PTH109
        assert found == [(7 + place, one.id) for place, one in enumerate(executors)]
        assert placing.host_of(sc, group, len(executors) - 1) == executors[-1].host
    sc.setLocalProperty("spark.jobGroup.id", None)
    assert placing.host_of(sc, "none", 0) is None
