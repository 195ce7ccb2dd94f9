"""The parts of a step on a linear model, for tests of what is done with them."""

import numpy as np

from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.ledger import Entry

FEATURES = 4


def inputs_of(dtype="float32"):
    return Inputs(
        Description(
            tensors=[TensorSpec(name="x", dtype=dtype, shape=[FEATURES])],
            label=LabelSpec(dtype="float32"),
            preprocessing=FittedPreprocessing(),
        )
    )


def squared_error(labels, outputs):
    return (outputs[:, 0] - labels) ** 2


def chunk_of(x, y, offsets, totals=None, share=None):
    """totals: rows of the mini-batches over all nodes; where this node is alone, its own."""
    totals = np.diff(offsets) if totals is None else totals
    return Chunk(0, [x], y, np.array(offsets, np.int64), np.array(totals, np.int64), Entry(len(x), 0), share)


def rows(count, seed):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, FEATURES)).astype(np.float32)
    return x, (x @ np.arange(FEATURES) + 1).astype(np.float32)
