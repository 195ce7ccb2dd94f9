"""What users' code and disks do that takes longer than any limit, and is no hang."""

import sys
import time

import keras
import tensorflow as tf

from sparksplit.dataset.prepared import BlockReader


def straggler(tensors, label, seeds):
    """The process of rank 1 takes a second for a chunk, and so for an update."""
    if sys.argv[-1] == "rank=1":
        time.sleep(1)
    return tensors, label


_naps = [14.0]


def a_long_one(tensors, label, seeds):
    """One chunk of the process takes that many seconds."""
    if _naps:
        time.sleep(_naps.pop())
    return tensors, label


_read = BlockReader.read
_slow_blocks = [False] * 10_000 + [True] * 10


def _slowly(reader, lane, block):
    if reader._split == "train" and _slow_blocks.pop():
        time.sleep(1.5)
    return _read(reader, lane, block)


def from_a_slow_disk(data, seconds=0.0):
    """A plain model; its process reads training rows slowly from now on."""
    BlockReader.read = _slowly
    return slow_to_trace(data, seconds)


class _Slow(keras.layers.Layer):
    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def get_config(self):
        return {"seconds": self.seconds}

    def call(self, inputs, training=False):
        # Runs where the layer's graph is made, and not with each batch.
        if training and not tf.executing_eagerly():
            time.sleep(self.seconds)
        return inputs


def slow_to_trace(data, seconds=0.0):
    """A plain model whose graphs take `seconds` each to make."""
    layers = [keras.layers.Flatten(), _Slow(seconds), keras.layers.Dense(data.outputs, data.activation)]
    return keras.Sequential([keras.layers.Input(data.input_shape), *layers])
