"""The collectives of MultiWorkerMirroredStrategy (NCCL on GPUs, gRPC on CPUs), without its training.

Create this before anything else in TensorFlow: collectives must be configured when the program starts. Tensors on a GPU
stay there. Between CPU nodes, it is slower than the ring.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from sparksplit.base.errors import PeerLost, RunError
from sparksplit.collectives.base import Array, Collective
from sparksplit.collectives.narrow import narrowed, narrowed_tensors, widened, widened_tensors

if TYPE_CHECKING:
    from sparksplit.cluster import Member


def join(member: Member) -> TensorFlowCollective:
    """Return TensorFlow's collectives between the nodes of `member`'s cluster."""
    member.state(waiting=True)
    collective = TensorFlowCollective(member.rank, member.size, member.tf_config)
    member.state(waiting=False)
    return collective


class TensorFlowCollective(Collective):
    """All-reduce over the workers in `tf_config` (TF_CONFIG as a mapping, with a chief)."""

    same_graphs = True
    same_shapes = True
    on_device = True

    def __init__(self, rank: int, size: int, tf_config: dict[str, Any]) -> None:
        super().__init__(rank, size)
        os.environ["TF_CONFIG"] = json.dumps(tf_config)
        # No time limit: this node waits for a peer as long as the driver allows.
        self._options = tf.distribute.experimental.CommunicationOptions()
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=self._options)
        if self._strategy.num_replicas_in_sync != size:
            raise RunError(f"TensorFlow joined {self._strategy.num_replicas_in_sync} replicas instead of {size} nodes")
        self._traced_bytes = 0
        self._sum_function = tf.function(self._sum_all, autograph=False)

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        began = time.perf_counter()
        # TensorFlow's collectives do not support unsigned integers. The sum modulo 2^64 has the same bits if signed.
        signed = [array.view(np.int64) if array.dtype == np.uint64 else array for array in widened(arrays)]
        try:
            sums = self._sum_function([tf.constant(array) for array in signed])
        except tf.errors.OpError as error:
            raise self.cause(error) or error from None
        self.seconds += time.perf_counter() - began
        results = narrowed([result.numpy() for result in sums], arrays)
        return [result.view(array.dtype) for result, array in zip(results, arrays, strict=True)]

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        wide = widened_tensors(tensors)
        self._traced_bytes = sum(tensor.dtype.size * math.prod(tensor.shape) for tensor in wide)
        return narrowed_tensors(self._sum_all(wide), tensors)

    def account(self, calls: int) -> None:
        # About what a ring would send: each node passes on every slice twice, except its last.
        self.bytes_sent += calls * self._traced_bytes * 2 * (self.size - 1) // self.size

    def cause(self, error: BaseException) -> BaseException | None:
        text = " ".join(str(error).split())[:300]
        if isinstance(error, tf.errors.DeadlineExceededError):
            return PeerLost(f"not every node reached an all-reduce within the time limit: {text}")
        # One node's error ends the sums of all nodes, with its code and text. The words are TensorFlow's.
        if isinstance(error, tf.errors.UnavailableError) or "Collective ops is aborted" in text:
            return PeerLost(f"another node has left the all-reduce: {text}")
        return None

    def close(self) -> None:
        return

    def _sum_all(self, tensors: Sequence[Any]) -> list[Any]:
        results: list[Any] = [None] * len(tensors)
        for dtype in sorted({tensor.dtype.name for tensor in tensors}):
            indices = [index for index, tensor in enumerate(tensors) if tensor.dtype.name == dtype]
            flat = self._sum_flat(tf.concat([tf.reshape(tensors[index], [-1]) for index in indices], 0))
            sizes = [tf.size(tensors[index]) for index in indices]
            for index, part in zip(indices, tf.split(flat, sizes), strict=True):
                results[index] = tf.reshape(part, tensors[index].shape)
        return results

    def _sum_flat(self, flat: Any) -> Any:
        def reduce(value: Any) -> Any:
            context = tf.distribute.get_replica_context()
            # tf.identity gives the value a device. Without a device: "destinations can not be empty".
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value), self._options)

        return self._strategy.experimental_local_results(self._strategy.run(reduce, args=(flat,)))[0]
