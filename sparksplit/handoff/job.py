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
"""Bytes of a record batch between Spark and Python. It is small enough to stay in a core's cache on its way to the
node."""

_PASSING = re.compile(
    r"No space left on device|Disk quota exceeded|Input/output error|Stale file handle|Read-only file system"
    r"|java\.net\.(Connect|NoRouteToHost|SocketTimeout)Exception|SafeModeException|BlockMissingException"
)
"""Java's error texts for a full disk or an unreachable HDFS. Spark hands on only the text of a task's error."""

EXPLAIN = 3.0
"""Seconds between the failure of a feeding task and the verdict. The reason may be a node that failed before the task.
"""


@dataclass(frozen=True)
class Fed:
    """The rows that have been handed over.

    numbers: the partitions' numbers.
    sent: rows and checksum that each node has acknowledged of each partition, uint64 [partitions, nodes, 2].
    lane_rows: rows that were read, by lane.
    rows, checksum: of all rows that were read, as in a ledger entry.
    weights: checksum of their weights; 0 if rows have none.
    """

    numbers: list[int]
    sent: npt.NDArray[np.uint64]
    lane_rows: list[int]
    rows: int
    checksum: int
    weights: int = 0

    @classmethod
    def of(cls, partitions: Sequence[PackedPartition], owned: Sequence[Sequence[int]], lanes: int) -> Fed:
        """Combine all partitions. owned: by rank, the lanes whose rows the node was to get.

        Raise RunError if a node has not acknowledged as many rows as were read for its lanes.
        """
        lane_rows = np.zeros(lanes, np.int64)
        sent = np.zeros((len(partitions), len(owned), 2), np.uint64)
        for place, partition in enumerate(partitions):
            sent[place], rows = partition.numbers()
            lane_rows += rows
        acknowledged = sent[:, :, 0].sum(axis=0).tolist()
        for rank, own_lanes in enumerate(owned):
            read = int(lane_rows[list(own_lanes)].sum())
            if acknowledged[rank] != read:
                raise RunError(
                    f"the hand-off lost rows: Spark has read {read} for node {rank}, but the node has received "
                    f"{acknowledged[rank]}"
                )
        checksum = sum(partition.checksum for partition in partitions) % 2**64
        weights = sum(partition.weights for partition in partitions) % 2**64
        numbers = [partition.number for partition in partitions]
        return cls(numbers, sent, lane_rows.tolist(), int(lane_rows.sum()), checksum, weights)

    @property
    def entry(self) -> Entry:
        """The ledger entry of all rows that were read."""
        return Entry(self.rows, self.checksum)

    @property
    def content(self) -> Entry:
        """`entry` with the rows' weights in its checksum, to tell rows from the same rows with other weights."""
        return self.entry + Entry(checksum=self.weights)

    def partitions(self, rank: int) -> list[tuple[int, int, int]]:
        """Return (partition, rows, checksum) of each partition, as sent to node `rank`."""
        return [(number, *sent) for number, sent in zip(self.numbers, self.sent[:, rank].tolist(), strict=True)]

    def to_node(self, rank: int, lanes: Sequence[int], prepared: bool = False) -> dict[str, Any]:
        """Return the message for node `rank`, JSON-able.

        lanes: the lanes whose rows the node got.
        prepared: whether the rows come from the prepared data set.
        """
        return {
            "partitions": self.partitions(rank),
            "lane_rows": self.lane_rows,
            "lanes": list(lanes),
            "prepared": prepared,
            "content": self.content.to_json(),
        }


class FeedJob:
    """Feeds the rows of `frame` (row_id, tensors, label) to nodes, once `start` has been called.

    schema: schema of the record batches that are sent.
    token: bearer token of the nodes' receivers.
    row_bytes: bytes of one row.
    owned: by rank, the lanes whose rows the node gets.
    ended: called when `result` has an answer.
    weight: as for Sender.
    whole: the ledger entry that all rows must have; None if it is not known.
    damage: returns the damage in the files that Spark reads, or None. It is called if Spark has failed to read, or the
        rows are not `whole`.
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
        """Return what has been fed; None while feeding goes on.

        If feeding has failed, raise an error with the first cause:
        - InputError: the files that Spark reads are damaged.
        - NodeFailed: an executor or a node was lost. Another attempt may work.
        - Passing: a disk is full, or HDFS cannot be reached.
        - RunError: any other cause.
        """
        if self._failure is not None:
            since, error = self._failure
            if time.monotonic() - since < EXPLAIN:
                return None
            if isinstance(error, SparksplitError):
                raise error
            text = str(error)
            kind = NodeFailed if _lost(text) else Passing if _PASSING.search(text) else RunError
            raise kind(f"feeding failed: {spark_reason(text)}") from error
        return self._fed

    def holders(self) -> set[str]:
        """Return the executors that run tasks of the feed at this moment."""
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
            if self._whole not in (None, fed.entry):
                raise InputError(
                    f"the {fed.rows} rows that Spark has read are not the {self._whole.rows} rows of the manifest"
                )
            self._fed = fed
        except BaseException as error:
            self._failure = time.monotonic(), self._explained(error)
        self._ended()

    def _explained(self, error: BaseException) -> BaseException:
        """Return `error`, or an InputError with the damage that caused it."""
        if self._closing or _lost(str(error)):
            return error  # the cause is known without reading all rows
        try:
            damage = self._damage()
        except Exception as other:
            log.debug("what Spark reads could not be looked at: %s", other)
            return error
        return error if damage is None else InputError(damage)


def _lost(text: str) -> bool:
    """Return whether Spark lost an executor, or a task lost a node. Any other error comes from the rows, and would come
    again.

    text: Spark's error text. ExecutorLostFailure is Spark's own word.
    """
    return "ExecutorLostFailure" in text or is_raised(PeerLost, text)
