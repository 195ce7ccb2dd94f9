"""Feeds a run's nodes, one step per look at them: wait for their ports, feed, tell them what to expect."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from sparksplit.base.errors import ConfigError, NodeFailed, RunError
from sparksplit.cluster import NodeCluster
from sparksplit.cluster.pulse import Pulse
from sparksplit.cluster.stuck import replace
from sparksplit.dataset.description import WEIGHT
from sparksplit.dataset.lane_files import ROW_ID, Layout
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.handoff import damage
from sparksplit.handoff.job import Fed, FeedJob
from sparksplit.handoff.receiver import token_of
from sparksplit.handoff.sender import Address
from sparksplit.prepare.passes.identify import identified
from sparksplit.rows.ledger import Entry
from sparksplit.spark.session import asking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_LOOK_SECONDS = 1.0
"""Seconds between two looks at the feed's tasks."""


class Feeding:
    """Feeds `frame`, or the training split of `data`, to the nodes of a started cluster. A context manager.

    owned: by rank, the lanes whose rows the node gets.
    states: the nodes' states by rank, as their heartbeats bring them. A state has `receiver` once the node's port is
        open.
    before: `Fed.content` of the rows of `frame` that the nodes have trained on before; None if there is none.
    """

    def __init__(
        self,
        spark: SparkSession,
        data: PreparedDataSet,
        frame: DataFrame | None,
        cluster: NodeCluster,
        states: Sequence[dict[str, Any]],
        owned: Sequence[Sequence[int]],
        before: Entry | None = None,
    ) -> None:
        manifest = data.manifest
        layout = Layout.of(manifest)
        self._cluster, self._states, self._owned = cluster, states, owned
        self._before = before
        self._prepared = frame is None
        rows = manifest.splits["train"]
        whole = Entry(rows.rows, rows.checksum) if self._prepared else None
        if frame is None:
            frame = spark.read.parquet(filesystem.for_spark(filesystem.join(data.path, "train")))
        if ROW_ID not in frame.columns:
            frame = identified(frame, manifest.description)
        token = token_of(cluster.secret.encode())
        weight = next((tensor for tensor in manifest.tensors if tensor.name == WEIGHT), None)
        self._job = FeedJob(
            frame,
            layout.schema,
            manifest.lanes,
            token,
            layout.row_bytes,
            owned,
            cluster.look_again,
            weight,
            whole,
            lambda: damage.find(spark, data, "train") if self._prepared else None,
        )
        self._sc = spark.sparkContext
        self._pulse = Pulse(self._sc)
        self._fed: Fed | None = None
        self._looked = self._active = time.monotonic()

    def __enter__(self) -> Feeding:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pulse.close()
        self._job.close()

    def go_on(self) -> None:
        """Take the next step, if it is time.

        Raise the errors of FeedJob.result, RunError if there are no rows or not the rows of `before`, and NodeFailed if
        no executor is left to feed from.
        """
        if self._fed is not None:
            return
        if not self._job.started:
            addresses = [state.get("receiver") for state in self._states]
            if all(addresses):
                self._job.start([Address(*address) for address in addresses if address])
                self._active = time.monotonic()
            return
        fed = self._job.result()
        if fed is None:
            self._check_tasks(time.monotonic())
            return
        if fed.rows == 0:
            raise RunError("the DataFrame has no rows to train on")
        if self._before is not None and fed.content != self._before:
            what = "rows or weights" if fed.weights else "rows"
            raise RunError(
                f"the DataFrame gave other {what} than before ({fed.rows:,} rows now, {self._before.rows:,} then); a "
                "DataFrame must give the same rows when Spark computes it again, so cache or write it; restart=True "
                "starts from the beginning"
            )
        self._fed = fed
        for rank in range(len(self._states)):
            self._cluster.tell(rank, "fed", fed.to_node(rank, self._owned[rank], self._prepared))

    def _check_tasks(self, now: float) -> None:
        """Have Spark replace executors that do not answer. Raise NodeFailed if Spark has run no task of the feed for
        `start_timeout` seconds."""
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked, limit = now, self._cluster.limits.start_timeout
        holders = self._job.holders()
        for executor in self._pulse.silent(holders):
            replace(self._sc, executor)
        if holders:
            self._active = now
        elif now - self._active > limit:
            raise NodeFailed(
                f"Spark has started no task that feeds the nodes for {limit:g} s (start_timeout): input_mode: spark "
                "needs one executor for each node and one more, and none is free"
            )

    def fed(self) -> Entry:
        """Return the ledger entry of the rows that the nodes got. Raise RunError if the nodes ended before they had all
        rows."""
        if self._fed is None:
            raise RunError("the nodes ended before they had received all rows")
        return self._fed.entry


def check_columns(frame: DataFrame, data: PreparedDataSet) -> None:
    """Raise ConfigError if a column of the data set is missing in `frame`, or has another type. Only row_id may be
    missing, unless the data set has `order: given`. Raise RunError if Spark's JVM does not answer."""
    from pyspark.sql.pandas.types import from_arrow_schema

    with asking(frame.sparkSession.sparkContext):
        columns = {field.name: field.dataType for field in frame.schema.fields}
    for field in from_arrow_schema(Layout.of(data.manifest).schema).fields:
        if field.name == ROW_ID and ROW_ID not in columns:
            if data.manifest.order == "given":
                raise ConfigError(
                    f"{data.path}: has `order: given`, so the DataFrame needs a column {ROW_ID!r} (bigint): the row's "
                    "number"
                )
            continue
        if field.name not in columns:
            raise ConfigError(f"the DataFrame has no column {field.name!r}; it has {', '.join(columns)}")
        if columns[field.name] != field.dataType:
            has, wanted = columns[field.name].simpleString(), field.dataType.simpleString()
            raise ConfigError(f"the DataFrame's column {field.name!r} must be {wanted} (is {has})")
