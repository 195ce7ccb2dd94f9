"""Shared memory between processes, of which some are killed, stopped, or late in the middle of a sum."""

import os
import signal

import pytest

from tests.collectives.processes import LARGE, SMALL, going_on, nodes, stopped_and_continued, virtual


@pytest.mark.parametrize(("size", "elements"), [(2, LARGE + 17), (3, LARGE + 1), (5, SMALL)])
def test_processes_get_the_bits_of_virtual_nodes(size, elements):
    with nodes(size, elements, sums=4) as running:
        assert [node.ended() for node in running] == [0] * size
        assert {node.last("digest") for node in running} == {virtual(size, elements, 4)}


@pytest.mark.parametrize(("rank", "elements"), [(0, SMALL), (1, LARGE), (2, LARGE)])
def test_a_node_killed_in_the_middle_is_noticed_at_once_by_name(rank, elements):
    with nodes(3, elements) as running:
        going_on(running[rank])
        running[rank].process.kill()
        others = [node for node in running if node is not running[rank]]
        assert [node.ended() for node in others] == [3, 3]
        assert f"node {rank} closed its connection" in [node.last("lost") for node in others]


def test_all_killed_at_once_leave_nothing():
    with nodes(3, LARGE) as running:
        going_on(running[0])
        for node in running:
            node.process.kill()
        assert [node.ended() for node in running] == [-signal.SIGKILL] * 3


def test_a_stopped_node_is_waited_for_asleep_and_goes_on():
    """For as long as the driver lets it be, which is told that the others wait."""
    with nodes(2, SMALL, sums=2000) as running:
        stopped_and_continued(running, 1)


def test_a_stopped_node_that_is_ended_is_noticed():
    with nodes(2, LARGE) as running:
        going_on(running[0])
        running[0].process.send_signal(signal.SIGSTOP)
        running[1].wait_for(lambda node: node.last("waiting") is True)
        running[0].process.kill()
        assert running[1].ended() == 3
        assert running[1].last("lost") == "node 0 closed its connection"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run as another user")
def test_nodes_of_different_users_share_memory():
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with nodes(2, SMALL, 4, where=({}, {"before": other})) as running:
        assert [node.ended() for node in running] == [0, 0]
        assert {node.last("digest") for node in running} == {virtual(2, SMALL, 4)}
