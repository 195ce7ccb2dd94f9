"""What the loop and the worker need of the rest, without Spark, TensorFlow or processes."""

import threading
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np

from sparksplit.cluster.leaving import Leaving
from sparksplit.collectives import Collective
from sparksplit.dataset.description import LabelSpec, TensorSpec
from sparksplit.dataset.prepared import Block
from sparksplit.training.messages import Payload


class Together(Collective):
    """Sums over the nodes that `tests.nodes.in_threads` plays."""

    def __init__(self, rank, size, gather, same_graphs=False):
        super().__init__(rank, size)
        self.same_graphs, self._gather, self.sums = same_graphs, gather, 0

    def sum(self, arrays):
        self.sums += 1
        every = self._gather(f"sum {self.sums}", [np.array(array) for array in arrays])
        return [np.asarray(sum(parts[1:], parts[0])) for parts in zip(*every, strict=True)]

    def sum_tensors(self, tensors):
        raise NotImplementedError

    def close(self):
        return


class Rows:
    """Rows in memory, which name themselves: row `place` of `lane` is 1000 * lane + place. A RowSource."""

    block_rows = 4

    def __init__(self, lane_rows):
        self.lane_rows = list(lane_rows)
        self.tensors, self.label = [TensorSpec(name="x", dtype="int64", shape=[])], LabelSpec(dtype="int64")

    def reader(self):
        return self

    def read(self, lane, block):
        begin = block * self.block_rows
        ids = np.arange(begin, min(begin + self.block_rows, self.lane_rows[lane])) + 1000 * lane
        return Block(ids.astype(np.uint64), {"x": ids}, ids)

    def close(self):
        return

    def at_hand(self):
        return None

    def place_of(self, row_id):
        return f"row {row_id}"


def payload(**values):
    """What a node is given that leaves nothing but its record."""
    none = {"config": {}, "places": {}, "run": "nowhere", "output": "nowhere", "owner": "", "writing": ""}
    return Payload(**{**none, "sources": {}, "config_hash": "", "threads": 1, "record_only": True, **values})


class Variable:
    """What of a Keras variable is used."""

    def __init__(self, value):
        self.value = np.asarray(value)
        self.shape = self.value.shape

    def numpy(self):
        return self.value

    def assign(self, value):
        self.value = value


class Member:
    """A node's line to a driver, which writes down what it is told: `states`, each with the phase that it came in."""

    host, local_dir, secret, network, payload, tf_config = "here", "nowhere", b"", None, {}, {}

    def __init__(self, rank=0, size=1, gather=None):
        self.rank, self.size = rank, size
        self._gather = gather or (lambda name, value: [value])
        self.stopping, self.leaving = threading.Event(), Leaving()
        self.states, self.phases = [], []

    def gather(self, name, value, *, beside=False):
        return self._gather(name, value)

    def state(self, **fields):
        self.states.append(fields)

    announce = state

    @contextmanager
    def phase(self, name):
        self.phases.append(name)
        yield


class Counting:
    """A step that only counts. train: gives the losses of a chunk; by default 1. chunks: (first, updates) of each."""

    warmup = copying = 0.0
    evaluations = 0

    def __init__(self, losses=lambda chunk: np.ones(chunk.updates), metrics=None, evaluation=None, finite=True):
        self._losses, self._metrics, self._finite = losses, metrics or {"accuracy": 0.5}, finite
        self._evaluation = evaluation or SimpleNamespace(loss=2.0, metrics={"accuracy": 0.25}, rows=3)
        self.chunks, self.weighed = [], []

    def with_sync(self, sync, collective):
        return self

    def begin(self):
        pass

    def train(self, chunk):
        self.chunks.append((chunk.first, chunk.updates))
        return self._losses(chunk)

    def synchronise(self, rows):
        self.weighed.append(rows)

    def is_finite(self):
        return self._finite

    def metric_results(self):
        return self._metrics

    def averaged(self):
        return nullcontext()

    def evaluate(self, chunks):
        for chunk in chunks:
            assert chunk.updates
        return self._evaluation
