"""Several nodes that one process plays in turn."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.collectives.virtual import Stage, VirtualCollective


def staged(size, variables=()):
    stage = Stage(size)
    stage.set(list(variables))
    return stage, [VirtualCollective(rank, stage) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_sums_are_those_of_all_nodes(size):
    stage, collectives = staged(size)

    def node(rank):
        found = []
        for turn in range(3):
            parts = [np.full((2, 3), rank + 10.0 * turn, np.float32), np.array(rank, np.int64), np.zeros(0)]
            found.append([array.copy() for array in collectives[rank].sum(parts)])
        return found

    for found in stage.play(node):
        for turn, (matrix, number, empty) in enumerate(found):
            assert matrix.dtype == np.float32 and (matrix == sum(range(size)) + 10 * turn * size).all()
            assert (number, number.dtype, empty.shape) == (sum(range(size)), np.int64, (0,))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_of_16_bits_are_made_in_float32_and_rounded_once(dtype):
    generator = np.random.default_rng(3)
    parts = [generator.normal(size=50).astype(dtype) for _ in range(5)]
    exact = parts[0].astype(np.float32)
    for part in parts[1:]:
        exact = exact + part.astype(np.float32)
    stage, collectives = staged(5)

    def node(rank):
        (found,), (tensor,) = (
            collectives[rank].sum([parts[rank]]),
            collectives[rank].sum_tensors([tf.constant(parts[rank])]),
        )
        return found, tensor.numpy()

    for found in stage.play(node):
        for result in found:
            assert result.dtype == dtype and result.tobytes() == exact.astype(dtype).tobytes()
    assert collectives[0].bytes_sent == 2 * (2 * 4 * 50 * 4 // 5)


def test_each_node_finds_its_variables_as_it_left_them():
    variable = tf.Variable([1.0, 2.0])
    stage, collectives = staged(3, [variable])

    def node(rank):
        seen = []
        for _ in range(3):
            seen.append(variable.numpy().tolist())
            variable.assign_add([float(rank), 1.0])
            collectives[rank].sum([np.zeros(1)])
        return seen

    assert stage.play(node) == [[[1 + turn * rank, 2 + turn] for turn in range(3)] for rank in range(3)]


def test_only_one_runs_at_a_time():
    stage, collectives = staged(4)
    running = []

    def node(rank):
        for _ in range(20):
            running.append(rank)
            assert running == [rank]
            running.remove(rank)
            collectives[rank].sum([np.ones(1)])

    stage.play(node)


def test_a_node_that_fails_ends_all_with_its_own_error():
    stage, collectives = staged(3)

    def node(rank):
        collectives[rank].sum([np.ones(1)])
        if rank == 1:
            raise KeyError("mine")
        collectives[rank].sum([np.ones(1)])

    with pytest.raises(KeyError, match="mine"):
        stage.play(node)


def test_bytes_are_those_of_a_ring():
    stage, collectives = staged(4)
    stage.play(lambda rank: collectives[rank].sum([np.zeros(100, np.float32)]))
    assert [collective.bytes_sent for collective in collectives] == [2 * 3 * 400 // 4] * 4
