"""What the nodes' metrics go on with from a checkpoint; without TensorFlow."""

import numpy as np
import pytest

from sparksplit.training.node.compiled import metrics
from sparksplit.training.node.compiled.metrics import Metrics
from tests.nodes import in_threads
from tests.training.node.stand_ins import Together


class Variable:
    """What of a Keras variable is used."""

    shape = ()

    def __init__(self):
        self._value = np.float32(0)

    def numpy(self):
        return self._value

    def assign(self, value):
        self._value = np.float32(value)


class Mean:
    """A metric as Keras has them, with a sum and a count."""

    def __init__(self):
        self.variables = [Variable(), Variable()]

    def update_state(self, labels, outputs):
        for variable, value in zip(self.variables, (outputs, 1), strict=True):
            variable.assign(variable.numpy() + np.float32(value))

    def result(self):
        return self.variables[0].numpy() / self.variables[1].numpy()

    def reset_state(self):
        for variable in self.variables:
            variable.assign(0)


def results(nodes, cut=None, by=None):
    """An epoch's result on `nodes`; after `cut` updates from a checkpoint, on `by` nodes."""
    kept = {}

    def node(rank, gather, size, begin, end):
        own, together = Metrics({"mae": Mean()}), Together(rank, size, gather)
        if begin:
            own.restore(kept, together)
        for row in range(begin, end):
            for part in range(rank, nodes, size):
                own.update(None, np.random.default_rng([row, part]).random())
        if end < 200:
            kept.update(own.sums(together))
            return None
        return own.results(together)["mae"]

    if cut is not None:
        in_threads(nodes, lambda rank, gather: node(rank, gather, nodes, 0, cut))
    by = nodes if by is None else by
    found = in_threads(by, lambda rank, gather: node(rank, gather, by, cut or 0, 200))
    assert found == found[:1] * by
    return found[0]


def test_from_a_checkpoint_they_have_the_same_bits():
    """A mean of errors, whose sum's last digits depend on what was added to what."""
    straight = results(2)
    assert [results(2, cut) for cut in (10, 50, 99, 150)] == [straight] * 4


def test_on_another_number_of_nodes_no_row_is_lost(monkeypatch):
    straight = results(2)
    assert results(2, 99, by=3) == pytest.approx(straight, 1e-6)
    assert results(2, 99, by=1) == pytest.approx(straight, 1e-6)
    monkeypatch.setattr(metrics, "_MOST_BYTES", 15)
    assert results(2, 99) == pytest.approx(straight, 1e-6), "large ones are summed, as in older checkpoints"
