"""The moving averages of an optimizer: nodes agree on them, and validation sees them."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from sparksplit.collectives import Alone
from sparksplit.training.node.compiled import averages
from tests.nodes import in_threads
from tests.training.node.stand_ins import Together, Variable


def node_of(weights, kept):
    """(model, optimizer, averages) with those weights and averages; a variable without one between them."""
    trainable, own = [Variable(each) for each in weights], [Variable(each) for each in kept]
    optimizer = SimpleNamespace(use_ema=True, _model_variables_moving_average=[own[0], None, *own[1:]])
    return SimpleNamespace(trainable_variables=[trainable[0], Variable(7.0), *trainable[1:]]), optimizer, own


@pytest.mark.parametrize("rows", [[100, 300], [0, 300], [0, 0]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_they_are_averaged_by_rows(rows, dtype):
    values = [[np.array([1.0, 2.0], dtype), np.array(-4.0, dtype)], [np.array([5.0, 6.0], dtype), np.array(8.0, dtype)]]

    def work(rank, gather):
        model, optimizer, own = node_of(values[rank], values[rank])
        averages.agree(model, optimizer, rows[rank], Together(rank, 2, gather))
        return [each.value for each in own]

    for rank, found in enumerate(in_threads(2, work)):
        for place, value in enumerate(found):
            pair = [node[place].astype(float) for node in values]
            wanted = np.average(pair, axis=0, weights=rows) if sum(rows) else pair[rank]
            np.testing.assert_allclose(np.asarray(value, float), wanted, rtol=1e-6)


def test_a_node_alone_and_one_without_averages_keep_what_they_have():
    model, optimizer, (own, _) = node_of([[1.0], 2.0], [[3.0], 4.0])
    averages.agree(model, optimizer, 5, Alone())
    averages.agree(model, SimpleNamespace(use_ema=False), 5, None)
    assert own.value.tolist() == [3.0]


def test_they_are_the_models_weights_within_the_block_alone():
    model, optimizer, _ = node_of([np.array([1.0]), np.array(2.0)], [np.array([3.0]), np.array(4.0)])

    def weights():
        return [np.array(each.value).tolist() for each in model.trainable_variables]

    with pytest.raises(KeyError), averages.in_place(model, optimizer):
        assert weights() == [[3.0], 7.0, 4.0]
        raise KeyError
    assert weights() == [[1.0], 7.0, 2.0]
    with averages.in_place(model, SimpleNamespace()):
        assert weights() == [[1.0], 7.0, 2.0]
