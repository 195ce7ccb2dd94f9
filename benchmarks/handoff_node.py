"""What a node does in benchmarks/handoff.py: receive, then turn every row into tensors, from each kind of source."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sparksplit.dataset.lane_files import Layout
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.handoff.receiver import Receiver, token_of
from sparksplit.handoff.sender import Sent
from sparksplit.handoff.spool import Spool
from sparksplit.rows import order
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import Feed, RowSource

BATCH = 128
UPDATES_PER_CHUNK = 16


class Timed(Receiver):
    """A receiver that knows when the first row came. began: time.time(), 0 before."""

    began = 0.0

    def take(self, number: int, attempt: int, reader: Any) -> Sent:
        self.began = self.began or time.time()
        return super().take(number, attempt, reader)


def work(member: Any) -> dict[str, Any]:
    """Figures of this node: rows, and wall-clock times (time.time()) of what it did.

    payload: data (a prepared data set).
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    # TensorFlow's first tensor takes half a second, which training has spent on its model by then.
    tf.zeros([1])
    data = PreparedDataSet.open(member.payload["data"], verify=False)
    manifest = data.manifest
    schema = Layout.of(manifest).schema
    receiver = Timed(member.host, token_of(member.secret), str(Path(member.local_dir) / "spool"), schema)
    member.announce(receiver=astuple(receiver.address))
    own = order.owned_lanes(manifest.lanes, member.rank, member.size)
    while (fed := member.heard("fed")) is None:
        member.await_news(1.0)
    received = time.time()
    files = receiver.finish(fed["partitions"])
    spool = Spool(files, manifest.description, fed["lane_rows"], own, manifest.block_rows)
    result: dict[str, Any] = {"began": receiver.began, "received": received}
    for name, source, epoch in (("first", spool, 0), ("spool", spool, 1), ("tensorflow", data.split("train"), 1)):
        member.gather(name, 0)
        result[name] = _read(source, own, epoch, BATCH * member.size)
    return {**result, "rows": result["first"][0]}


def _read(source: RowSource, own: order.Ints, epoch: int, batch_size: int) -> tuple[int, float, float]:
    """(rows, begin, end) of `epoch`, counted from 0, without a cache; the ones before it are the warm-up."""
    feed = Feed(source, own, batch_size=batch_size, cache=0)
    feed.max_updates = UPDATES_PER_CHUNK
    for number in range(epoch + 1):
        begin = time.time()
        rows = _consume(feed.epoch(number))
        end = time.time()
    feed.close()
    return rows, begin, end


def _consume(chunks: Iterable[Chunk]) -> int:
    """Make tensors of each share of a mini-batch; the rows."""
    from sparksplit.training.node.compiled.step import as_tensor

    rows = 0
    for chunk in chunks:
        values, labels = chunk.tensors[0], np.asarray(chunk.label)
        for begin, end in pairwise(chunk.offsets.tolist()):
            tensors = as_tensor(values[begin:end]), as_tensor(labels[begin:end])
            rows += int(tensors[0].shape[0])
    return rows
