"""How graphs call NumPy."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import script_ops

from sparksplit.base.memory import aligned
from sparksplit.collectives.calls import GraphCall


@pytest.fixture
def kept():
    """Aligned arrays, as a collective's results are."""
    found = [aligned((3, 5), np.float32), aligned((7,), np.int64)]
    for number, array in enumerate(found):
        array[...] = number + 1
    return found


def test_results_become_tensors_where_they_are(kept, monkeypatch):
    """Each call of `_convert` parses NumPy's version number."""
    monkeypatch.setattr(script_ops.FuncRegistry, "_convert", None)
    given = []

    def function(arrays):
        given.append([array.copy() for array in arrays])
        return kept

    call = GraphCall(function)

    @tf.function
    def graph(x, n):
        first = call([x, n])
        with tf.control_dependencies(first):
            return first + call([2 * x, n])

    found = graph(tf.ones((3, 5)), tf.range(7, dtype=tf.int64))
    assert [tensor.dtype for tensor in found] == [tf.float32, tf.int64] * 2
    kept[0][...], kept[1][...] = 10, 20
    for tensor, array in zip(found, [*kept, *kept], strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)
    np.testing.assert_array_equal(given[1][0], np.full((3, 5), 2, np.float32))
    np.testing.assert_array_equal(given[1][1], np.arange(7))


def test_of_one_tensor_it_gives_a_list_in_a_graph_and_outside():
    call = GraphCall(lambda arrays: [2 * array for array in arrays])
    for function in (call, tf.function(call)):
        (found,) = function([tf.constant([1.0, 2.0])])
        assert found.numpy().tolist() == [2, 4]


def test_an_error_ends_the_graph():
    def fail(arrays):
        raise OSError("gone")

    call = GraphCall(fail)
    with pytest.raises(tf.errors.OpError, match="OSError: gone"):
        tf.function(call)([tf.ones(1)])


def test_a_thread_of_tensorflows_stays_known_to_python():
    """`threading.local` goes with what Python knows of a thread."""
    seen, local = [], threading.local()

    def function(arrays):
        local.calls = getattr(local, "calls", 0) + 1
        seen.append((threading.get_ident(), local.calls))
        return list(arrays)

    call = GraphCall(function)

    @tf.function
    def graph(x):
        for _ in range(20):
            (x,) = call([x])
        return x

    graph(tf.ones(3))
    by_thread = {}
    for thread, calls in seen:
        by_thread[thread] = by_thread.get(thread, 0) + 1
        assert calls == by_thread[thread]
    assert len(seen) == 20
