"""Shared memory within hosts and TCP between them: nodes are threads of this process, and their hosts are told."""

import numpy as np
import pytest

from sparksplit.collectives.mixed import Mixed, counterparts
from sparksplit.collectives.together import runs_of
from tests.collectives.formed import closed, formed_as
from tests.collectives.test_ring import sums
from tests.nodes import in_threads


def test_runs_are_ranks_that_follow_one_another_on_one_host():
    assert runs_of("aabbb") == [range(2), range(2, 5)]
    assert runs_of("abba") == [range(1), range(1, 3), range(3, 4)]
    assert runs_of("a") == [range(1)]
    assert [counterparts(runs_of("aabbb"), rank) for rank in range(5)] == [(2, 2), (3, 3), (0, 0), (1, 1), None]
    assert [counterparts(runs_of("aabbcc"), rank) for rank in (1, 2)] == [(3, 5), (4, 0)]
    assert counterparts(runs_of("aa"), 1) is None


@pytest.mark.parametrize(
    ("nodes", "turns", "sent"),
    [
        (9, 1, 1),
        (7, 1, 1),  # all three hosts
        (6, 3 / 5, (1 / 2) / (2 / 3)),  # two hosts
        (4, 3 / 5, (1 / 2) / (2 / 3)),
        (3, 2 / 8, (2 / 3) / (8 / 9)),  # one host: no more than a ring of three nodes
    ],
)
def test_fewer_nodes_exchange_less_only_on_fewer_hosts(nodes, turns, sent):
    one = Mixed.__new__(Mixed)
    one._runs, one.size = runs_of("aaabbbccc"), 9
    assert one.of_fewer(nodes) == pytest.approx((turns, sent))


def test_a_node_that_sums_nothing_has_waited_only_until_the_others_came():
    """Of the shorter run's counterparts there is one: the longer one's second node has none."""
    formed = formed_as("mixed aab")
    in_threads(3, lambda rank, _: sums(formed[rank], *[[np.ones(4 << 20, np.float32)]] * 3))
    waited = [(node.waited, node.seconds) for node in formed]
    closed(formed)
    # Some of the time passes after they have come, however late that is on a busy machine.
    assert all(0 < part < 0.98 * whole for part, whole in waited)
