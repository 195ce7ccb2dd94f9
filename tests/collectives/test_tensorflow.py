"""Whose fault TensorFlow's errors are. What it sums is tested on real nodes (tests/training/test_train.py)."""

import pytest
import tensorflow as tf

from sparksplit.base.errors import PeerLost
from sparksplit.collectives.tensorflow import TensorFlowCollective


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (tf.errors.DeadlineExceededError(None, None, "Collective has timed out during execution."), PeerLost),
        (tf.errors.UnavailableError(None, None, "Socket closed"), PeerLost),
        (tf.errors.InvalidArgumentError(None, None, "Collective ops is aborted by: no such layer"), PeerLost),
        (tf.errors.InvalidArgumentError(None, None, "indices[3] = 7 is not in [0, 5)"), type(None)),
    ],
)
def test_an_error_that_only_echoes_a_peers_says_so(error, kind):
    """PeerLost is never taken for the first cause, so the node that left is named and not the one that waited."""
    collective = TensorFlowCollective.__new__(TensorFlowCollective)
    assert type(collective.cause(error)) is kind
