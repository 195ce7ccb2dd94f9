"""What a checkpoint keeps of a node: variables as arrays, and back."""

import numpy as np
import pytest

from sparksplit.base.errors import InputError
from sparksplit.training.node.state import assign, named


class Variable:
    """What of a Keras variable is used."""

    def __init__(self, value):
        self.value = np.asarray(value)
        self.shape = self.value.shape

    def numpy(self):
        return self.value

    def assign(self, value):
        self.value = value


def test_variables_are_known_by_their_place():
    saved = named("v", [Variable([1.0, 2.0]), Variable(3)])
    assert list(saved) == ["v0000", "v0001"]
    fresh = [Variable([0.0, 0.0]), Variable(0)]
    assign("v", fresh, saved, "here")
    assert [variable.value.tolist() for variable in fresh] == [[1.0, 2.0], 3]


@pytest.mark.parametrize("variables", [[[0.0, 0.0, 0.0], 0], [[0.0, 0.0], 0, 0]])
def test_another_models_checkpoint_is_refused(variables):
    saved = named("v", [Variable([1.0, 2.0]), Variable(3)])
    with pytest.raises(InputError, match="here: does not fit this model and optimizer"):
        assign("v", [Variable(value) for value in variables], saved, "here")
