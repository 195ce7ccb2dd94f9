"""Processes on several hosts of which each holds several: the bits that all collectives have, with a node that is late;
and some that are killed or stopped in the middle of a sum. Hosts are network namespaces where they can be made."""

import signal

import pytest

from tests.collectives.processes import LARGE, SMALL, going_on, nodes, stopped_and_continued, virtual
from tests.hosts import lacking, two_hosts

SUMS = 300
LATE = ({}, {"late": [30, 0.02]})
"""Every other node sleeps now and then."""


@pytest.fixture(scope="module")
def expected():
    return virtual(4, SMALL, SUMS)


@pytest.mark.parametrize(("collective", "hosts"), [("ring", None), ("shared", None), ("mixed", "abbb")])
def test_many_sums_with_late_nodes_have_the_bits_of_virtual_ones(expected, collective, hosts):
    with nodes(4, SMALL, SUMS, collective, LATE, hosts=hosts) as running:
        assert [node.ended(120) for node in running] == [0] * 4
        assert {node.last("digest") for node in running} == {expected}


@pytest.mark.slow
def test_many_sums_with_a_late_node_are_those_of_tensorflow_too():
    """Two numbers have one sum."""
    with nodes(2, SMALL, SUMS, "tensorflow", LATE) as running:
        assert [node.ended(300) for node in running] == [0] * 2
        assert {node.last("digest") for node in running} == {virtual(2, SMALL, SUMS)}


def test_two_nodes_on_each_of_two_hosts_have_the_bits_of_virtual_ones(expected):
    if missing := lacking():
        pytest.skip(missing)
    with two_hosts() as hosts:
        where = [{"before": host.enter, "address": host.address} for host in hosts for _ in range(2)]
        with nodes(4, SMALL, SUMS, "auto", where) as running:
            assert [node.ended(120) for node in running] == [0] * 4
            assert {node.last("digest") for node in running} == {expected}
            assert {node.last("collective") for node in running} == {"mixed"}


@pytest.mark.parametrize(("rank", "elements"), [(0, SMALL), (1, LARGE), (3, LARGE)])
def test_a_node_killed_in_the_middle_ends_all_at_once_by_name(rank, elements):
    with nodes(4, elements, collective="mixed", hosts="aabb") as running:
        going_on(running[rank])
        running[rank].process.kill()
        others = [node for node in running if node is not running[rank]]
        assert [node.ended() for node in others] == [3] * 3
        said = [node.last("lost") for node in others]
        assert any(f"node {rank}" in each for each in said), said


@pytest.mark.slow
def test_a_stopped_node_is_waited_for_asleep_on_both_hosts_and_goes_on():
    with nodes(4, LARGE, sums=50, collective="mixed", hosts="aabb") as running:
        stopped_and_continued(running, 1)


def test_a_stopped_node_that_is_ended_ends_all():
    with nodes(4, LARGE, collective="mixed", hosts="aabb") as running:
        going_on(running[0])
        running[2].process.send_signal(signal.SIGSTOP)
        running[0].wait_for(lambda node: node.last("waiting") is True)
        running[2].process.kill()
        assert [running[rank].ended() for rank in (0, 1, 3)] == [3] * 3
