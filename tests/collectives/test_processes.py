"""Processes that sum: the bits that all collectives have, with nodes that are late; and processes that are killed or
stopped in the middle of a sum. Hosts are network namespaces where they can be made, and made up elsewhere."""

import os
import signal
import subprocess
import sys

import pytest

from tests.collectives.processes import LARGE, SMALL, going_on, nodes, stopped_and_continued, virtual
from tests.hosts import lacking, two_hosts

SUMS = 300
LATE = ({}, {"late": [30, 0.02]})
"""Every other node sleeps now and then."""


def bits(running, seconds=120):
    """The digest of all nodes' results, which end well within so many seconds."""
    assert [node.ended(seconds) for node in running] == [0] * len(running)
    (digest,) = {node.last("digest") for node in running}
    return digest


def on(hosts, elements, **settings):
    """Nodes on these hosts, by rank: with one host they share memory."""
    if len(set(hosts)) == 1:
        return nodes(len(hosts), elements, **settings)
    return nodes(len(hosts), elements, collective="mixed", hosts=hosts, **settings)


@pytest.fixture(scope="module")
def expected():
    return virtual(4, SMALL, SUMS)


@pytest.mark.parametrize(("collective", "hosts"), [("ring", None), ("shared", None), ("mixed", "abbb")])
def test_many_sums_with_late_nodes_have_the_bits_of_virtual_ones(expected, collective, hosts):
    with nodes(4, SMALL, SUMS, collective, LATE, hosts=hosts) as running:
        assert bits(running) == expected


@pytest.mark.parametrize(("size", "elements"), [(2, LARGE + 17), (3, LARGE + 1), (5, SMALL)])
def test_large_sums_in_shared_memory_have_the_bits_of_virtual_ones(size, elements):
    with nodes(size, elements, sums=4) as running:
        assert bits(running, 30) == virtual(size, elements, 4)


@pytest.mark.slow
def test_many_sums_with_a_late_node_are_those_of_tensorflow_too():
    """Two numbers have one sum."""
    with nodes(2, SMALL, SUMS, "tensorflow", LATE) as running:
        assert bits(running, 300) == virtual(2, SMALL, SUMS)


def test_two_nodes_on_each_of_two_hosts_have_the_bits_of_virtual_ones(expected):
    if missing := lacking():
        pytest.skip(missing)
    with two_hosts() as hosts:
        where = [{"before": host.enter, "address": host.address} for host in hosts for _ in range(2)]
        with nodes(4, SMALL, SUMS, "auto", where) as running:
            assert bits(running) == expected
            assert {node.last("collective") for node in running} == {"mixed"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run as another user")
def test_nodes_of_different_users_share_memory():
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*other, sys.executable, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"another user cannot run {sys.executable}")
    with nodes(2, SMALL, 4, where=({}, {"before": other})) as running:
        assert bits(running, 30) == virtual(2, SMALL, 4)


@pytest.mark.parametrize(
    ("hosts", "rank", "elements"),
    [
        ("aaa", 0, SMALL),
        ("aaa", 2, LARGE),
        ("aabb", 0, SMALL),
        ("aabb", 3, LARGE),
    ],
)
def test_a_node_killed_in_the_middle_ends_all_at_once_by_name(hosts, rank, elements):
    with on(hosts, elements) as running:
        going_on(running[rank])
        running[rank].process.kill()
        others = [node for node in running if node is not running[rank]]
        assert [node.ended() for node in others] == [3] * len(others)
        said = [node.last("lost") for node in others]
        assert any(f"node {rank}" in each for each in said), said


def test_all_killed_at_once_leave_nothing():
    with nodes(3, LARGE) as running:
        going_on(running[0])
        for node in running:
            node.process.kill()
        assert [node.ended() for node in running] == [-signal.SIGKILL] * 3


@pytest.mark.parametrize(
    ("hosts", "elements", "sums"), [("aa", SMALL, 2000), pytest.param("aabb", LARGE, 50, marks=pytest.mark.slow)]
)
def test_a_stopped_node_is_waited_for_asleep_and_goes_on(hosts, elements, sums):
    """For as long as the driver lets it be, which is told that the others wait."""
    with on(hosts, elements, sums=sums) as running:
        stopped_and_continued(running, 1)


@pytest.mark.parametrize(("hosts", "stopped"), [("aa", 1), ("aabb", 2)])
def test_a_stopped_node_that_is_ended_ends_all(hosts, stopped):
    with on(hosts, LARGE) as running:
        going_on(running[0])
        running[stopped].process.send_signal(signal.SIGSTOP)
        running[0].wait_for(lambda node: node.last("waiting") is True)
        running[stopped].process.kill()
        assert [node.ended() for node in running if node is not running[stopped]] == [3] * (len(hosts) - 1)
