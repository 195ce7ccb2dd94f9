"""Shared memory's sums within TensorFlow's graphs."""

import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.errors import PeerLost
from tests.collectives.formed import closed, formed_as
from tests.nodes import in_threads


def test_a_graph_reads_the_sums_where_they_are_and_writes_nothing_there():
    """What a graph computes of them must not appear in the other nodes' results."""
    formed = formed_as("shared 2")

    def work(rank, _):
        variable = tf.Variable(tf.zeros(1000))

        @tf.function
        def step(values):
            (total,) = formed[rank].sum_tensors([values])
            for _ in range(3):
                total = total * 2.0  # in place, if TensorFlow may
            variable.assign_add(total)
            return tf.reduce_sum(total)

        found = [float(step(tf.fill([1000], float(rank + turn)))) for turn in range(20)]
        kept = [np.array(array) for results in plan(formed[rank]).results for array in results]
        return found, kept, variable.numpy()

    expected = [8000.0 * (1 + 2 * turn) for turn in range(20)]
    for found, kept, variable in in_threads(2, work):
        assert found == expected
        assert sorted(float(array[0]) for array in kept) == [37.0, 39.0]
        assert variable.tolist() == [sum(expected) / 1000] * 1000
    closed(formed)


def test_the_error_of_a_sum_in_a_graph_is_kept():
    formed = formed_as("shared 2")
    formed[1].close()
    with pytest.raises(tf.errors.OpError):
        tf.function(formed[0].sum_tensors)([tf.ones(3)])
    assert isinstance(formed[0].failure(), PeerLost)
    closed(formed)


def plan(collective):
    (found,) = collective._plans.values()
    return found
