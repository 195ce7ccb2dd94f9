"""The driver's side of the hand-off: the Spark job that feeds the nodes, in its own thread."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.base.errors import InputError, NodeFailed, Passing, PeerLost, RunError, SparksplitError
from sparksplit.cluster.stuck import holders, replace_stuck
from sparksplit.dataset.description import TensorSpec
from sparksplit.handoff.sender import Address, PackedPartition, Sender
from sparksplit.rows.ledger import Entry
from sparksplit.spark.batches import bounded_batches, rows_per_batch
from sparksplit.spark.jvm import limited
from sparksplit.spark.reasons import is_raised, spark_reason
from sparksplit.spark.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

BATCH_BYTES = 512 * 1024
"""Size of a record batch between Spark and Python: small enough to stay in a core's cache on its way to the node."""

_PASSING = re.compile(
    r"No space left on device|Disk quota exceeded|Input/output error|Stale file handle"
    r"|java\.net\.(Connect|NoRouteToHost|SocketTimeout)Exception|SafeModeException|BlockMissingException"
)
"""What Java says where a disk is full, or HDFS is away. Spark hands on only the text of a task's error."""

EXPLAIN = 3.0
"""Seconds between the failure of a feeding task and the verdict: time to hear of a node that failed before it."""


@dataclass(frozen=True)
class Fed:
    """What has been handed over.

    numbers: the partitions'. sent: rows and checksum that each node has acknowledged of each, uint64 [partitions,
    nodes, 2]. rows, checksum: the ledger's entry for all rows that were read.
    """

    numbers: list[int]
    sent: npt.NDArray[np.uint64]
    lane_rows: list[int]
    rows: int
    checksum: int

    @classmethod
    def of(cls, partitions: Sequence[PackedPartition], owned: Sequence[Sequence[int]], lanes: int) -> Fed:
        """All partitions together. owned: by rank, the lanes whose rows the node was to get.

        Raises RunError where a node has not acknowledged as many rows as were read for its lanes.
        """
        lane_rows = np.zeros(lanes, np.int64)
        sent = np.zeros((len(partitions), len(owned), 2), np.uint64)
        for place, partition in enumerate(partitions):
            sent[place], rows = partition.numbers()
            lane_rows += rows
        acknowledged = sent[:, :, 0].sum(axis=0).tolist()
        for rank, own in enumerate(owned):
            read = int(lane_rows[list(own)].sum())
            if acknowledged[rank] != read:
                raise RunError(
                    f"the hand-off lost rows: {read} were read for node {rank}, but it has acknowledged "
                    f"{acknowledged[rank]}"
                )
        checksum = sum(partition.checksum for partition in partitions) % 2**64
        numbers = [partition.number for partition in partitions]
        return cls(numbers, sent, lane_rows.tolist(), int(lane_rows.sum()), checksum)

    def partitions(self, rank: int) -> list[tuple[int, int, int]]:
        """(partition, rows, checksum) of all that node `rank` was sent."""
        return [(number, *found) for number, found in zip(self.numbers, self.sent[:, rank].tolist(), strict=True)]

    def to_node(self, rank: int, lanes: Sequence[int], prepared: bool = False) -> dict[str, Any]:
        """What node `rank` is told, JSON-able. lanes: those whose rows it got. prepared: whether the rows are those of
        the prepared data set."""
        return {
            "partitions": self.partitions(rank),
            "lane_rows": self.lane_rows,
            "lanes": list(lanes),
            "prepared": prepared,
        }


class FeedJob:
    """Feeds the rows of `frame` (row_id, tensors, label) to nodes, once `start` has been called.

    schema: of the record batches that are sent. token: the nodes' receivers ask for it. row_bytes: bytes of one row.
    owned: by rank, the lanes whose rows the node gets. ended: called when `result` has something to say. weight: as for
    Sender. whole: what all rows must be, where that is known. damage: what is damaged in what Spark reads, asked where
    it has failed, or the rows are not `whole`.
    """

    def __init__(
        self,
        frame: DataFrame,
        schema: pa.Schema,
        lanes: int,
        token: str,
        row_bytes: int,
        owned: Sequence[Sequence[int]],
        ended: Callable[[], None],
        weight: TensorSpec | None = None,
        whole: Entry | None = None,
        damage: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._weight, self._whole, self._damage = weight, whole, damage
        self._frame, self._schema, self._lanes, self._token = frame, schema, lanes, token
        self._row_bytes, self._owned, self._ended = row_bytes, owned, ended
        self._group = f"sparksplit-feed-{secrets.token_hex(4)}"
        self._thread: threading.Thread | None = None
        self._fed: Fed | None = None
        self._failure: tuple[float, BaseException] | None = None
        self._closing = False

    @property
    def started(self) -> bool:
        """Whether `start` has been called."""
        return self._thread is not None

    def start(self, addresses: Sequence[Address]) -> None:
        """Begin to feed the receivers at `addresses`, which are by rank."""
        self._thread = threading.Thread(target=self._run, args=(list(addresses),), name="feed", daemon=True)
        self._thread.start()

    def result(self) -> Fed | None:
        """What has been fed; None while feeding goes on. Raises RunError, with the first cause, if it has failed:
        NodeFailed where an executor or a node was lost, which another attempt may not meet, Passing where a disk is
        full, or HDFS away, and InputError where what Spark reads is damaged."""
        if self._failure is not None:
            since, error = self._failure
            if time.monotonic() - since < EXPLAIN:
                return None
            if isinstance(error, SparksplitError):
                raise error
            found = str(error)
            kind = NodeFailed if _lost(found) else Passing if _PASSING.search(found) else RunError
            raise kind(f"feeding failed: {spark_reason(found)}") from error
        return self._fed

    def holders(self) -> set[str]:
        """The executors that run its tasks at this moment."""
        return set(holders(self._frame.sparkSession.sparkContext, self._group).values())

    def close(self) -> None:
        """End the Spark job if it is still running."""
        if self._thread is None:
            return
        sc, cancelled = self._frame.sparkSession.sparkContext, self._thread.is_alive()
        self._closing = True
        if cancelled:
            try:
                with limited(sc._gateway):
                    sc.cancelJobGroup(self._group)
            except Exception as error:
                log.debug("Spark does not answer, so it has nothing to cancel: %s", error)
        self._thread.join(20)
        if cancelled:
            replace_stuck(sc, self._group)

    def _run(self, addresses: list[Address]) -> None:
        spark = self._frame.sparkSession
        try:
            spark.sparkContext.setJobGroup(self._group, "sparksplit hand-off", interruptOnCancel=True)
            sender = Sender(addresses, self._token, self._schema, self._lanes, self._owned, self._weight)
            rows = self._frame.select(*(f"`{name}`" for name in self._schema.names))
            with bounded_batches(spark, rows_per_batch(self._row_bytes, BATCH_BYTES)):
                fed = Fed.of(facts_of(rows, sender, PackedPartition), self._owned, self._lanes)
            if self._whole not in (None, Entry(fed.rows, fed.checksum)):
                raise InputError(
                    f"the {fed.rows} rows that Spark has read are not the {self._whole.rows} rows of the manifest"
                )
            self._fed = fed
        except BaseException as error:
            self._failure = time.monotonic(), self._explained(error)
        self._ended()

    def _explained(self, error: BaseException) -> BaseException:
        """`error`, or what is damaged where that is why."""
        if self._closing or _lost(str(error)):
            return error  # all rows need not be read to know why
        try:
            damage = self._damage()
        except Exception as other:
            log.debug("what Spark reads could not be looked at: %s", other)
            return error
        return error if damage is None else InputError(damage)


def _lost(text: str) -> bool:
    """Whether Spark lost an executor, or a task lost a node. Any other error comes from the rows, and would come again.

    text: Spark's. ExecutorLostFailure is Spark's own word.
    """
    return "ExecutorLostFailure" in text or is_raised(PeerLost, text)
