"""What a node does in benchmarks/handoff.py: receive, then turn every row into tensors, from each kind of source."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

BATCH = 128


def work(member: Any) -> dict[str, Any]:
    """Figures of this node: rows, and wall-clock times (time.time()) of what it did.

    payload: data (a prepared data set).
    """
    import tensorflow as tf

    from hdfs_io.lane_files import Layout
    from hdfs_io.prepared import PreparedDataSet
    from training import order
    from training.feed import Feed, RowSource
    from training.handoff.receiver import Receiver, token_of
    from training.handoff.sender import Sent
    from training.handoff.spool import Spool
    from training.step import as_tensor

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    data = PreparedDataSet.open(member.payload["data"], verify=False)
    manifest = data.manifest
    own = order.owned_lanes(manifest.lanes, member.rank, member.size)

    def read(source: RowSource, epoch: int) -> tuple[int, float, float]:
        """(rows, begin, end) of one epoch without a cache, each mini-batch's share a tensor."""
        feed = Feed(source, own, batch_size=BATCH * member.size, cache=0)
        feed.max_updates = 64
        rows, begin = 0, time.time()
        for chunk in feed.epoch(epoch):
            tensor, labels = as_tensor(chunk.tensors[0]), as_tensor(chunk.label)
            for start, stop in zip(chunk.offsets[:-1].tolist(), chunk.offsets[1:].tolist(), strict=True):
                share = tensor[start:stop], labels[start:stop]
                rows += int(share[0].shape[0])
        feed.close()
        return rows, begin, time.time()

    class Timed(Receiver):
        """Knows when the first row came."""

        began = 0.0

        def take(self, number: int, attempt: int, reader: Any) -> Sent:
            self.began = self.began or time.time()
            return super().take(number, attempt, reader)

    schema = Layout(tuple(manifest.tensors), manifest.label, (), manifest.block_rows).schema
    receiver = Timed(member.host, token_of(member.secret), str(Path(member.local_dir) / "spool"), schema)
    member.announce(receiver=list(receiver.address))
    while (fed := member.heard("fed")) is None:
        member.await_news(1.0)
    received = time.time()
    files = receiver.finish(fed["partitions"])
    spool = Spool(files, manifest.description, fed["lane_rows"], own, manifest.block_rows)
    first = read(spool, 0)
    member.gather("first", 0)
    again = read(spool, 1)
    member.gather("again", 0)
    direct = read(data.split("train"), 1)
    return {
        "rows": first[0],
        "began": receiver.began,
        "received": received,
        "first": first,
        "spool": again,
        "tensorflow": direct,
    }
