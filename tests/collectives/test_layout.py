"""Where arrays lie, and in which order they are added: by a ring, and by virtual nodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.collectives.layout import GAP, flats, sent
from sparksplit.collectives.virtual import Stage, VirtualCollective
from tests.collectives.test_ring import rings, sums
from tests.nodes import in_threads

SHAPES = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=5)


@given(shapes=SHAPES, size=st.integers(1, 7), low=st.integers(0, 300), length=st.integers(0, 300))
def test_pieces_are_what_lies_there(shapes, size, low, length):
    """Against the arrays laid out by the definition: 16 float32 to a step, gaps of zeros."""
    arrays = [np.random.default_rng(place).random(shape).astype(np.float32) for place, shape in enumerate(shapes)]
    (flat,) = flats(arrays, size)
    expected = np.concatenate([np.append(array, np.zeros(-array.size % 16)) for array in arrays]).astype(np.float32)
    assert flat.total == len(expected) and flat.share * size >= flat.total
    low = min(low, flat.total)
    high = min(low + length, flat.total)
    pieces = flat.pieces(low, high, gaps=True)
    assert [piece.at for piece in pieces] == [
        low + sum(p.end - p.begin for p in pieces[:n]) for n in range(len(pieces))
    ]
    if low < high:
        out = np.full(high - low, 7, np.float32)
        flat.lay(pieces, [array.reshape(-1) for array in arrays], out)
        assert (out == expected[low:high]).all()
    assert flat.pieces(low, high) == [piece for piece in pieces if piece.number != GAP]
    for number, view in flat.views(expected):
        assert (view == arrays[number]).all() and view.shape == arrays[number].shape


@settings(max_examples=15, deadline=None)
@given(shapes=SHAPES, size=st.integers(2, 6), seed=st.integers(0, 99))
def test_a_ring_and_virtual_nodes_have_the_same_bits_by_the_order_that_is_promised(shapes, size, seed):
    generator = np.random.default_rng(seed)
    dtypes = [np.float32, np.float64, np.int64]
    given_ = [
        [(generator.standard_normal(shape) * 1e3).astype(dtypes[place % 3]) for place, shape in enumerate(shapes)]
        for _ in range(size)
    ]
    formed = rings(size)
    ring = in_threads(size, lambda rank, _: sums(formed[rank], given_[rank])[0])
    stage = Stage(size)
    stage.set([])
    virtual = stage.play(lambda rank: VirtualCollective(rank, stage).sum(given_[rank]))
    expected = promised(given_)
    for node in (*ring, *virtual):
        assert [array.tobytes() for array in node] == [array.tobytes() for array in expected]
    for rank, node in enumerate(formed):
        assert node.bytes_sent == sent(flats(given_[0], size), rank)
        node.close()


def promised(given_):
    """The sums of every node's arrays, element by element in the order of ranks that its slice has."""
    size = len(given_)
    found = [np.zeros_like(array) for array in given_[0]]
    for flat in flats(given_[0], size):
        for place in range(size):
            for number, begin, end, _ in flat.slice(place):
                for index in range(begin, end):
                    total = given_[place][number].reshape(-1)[index]
                    for step in range(1, size):
                        total = total + given_[(place + step) % size][number].reshape(-1)[index]
                    found[number].reshape(-1)[index] = total
    return found


@pytest.mark.parametrize("size", [2, 3])
def test_nothing_but_empty_arrays_can_be_summed(size):
    stage = Stage(size)
    stage.set([])
    (found,) = stage.play(lambda rank: VirtualCollective(rank, stage).sum([np.zeros((0, 3)), np.zeros(0)]))[:1]
    assert [array.shape for array in found] == [(0, 3), (0,)]
