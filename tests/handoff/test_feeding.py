"""The driver's side of feeding, on a real local cluster."""

from __future__ import annotations

import socket
import time

import pytest

from hdfs_io.prepared import PreparedDataSet
from sparksplit.base.errors import NodeFailed
from sparksplit.cluster import NodeCluster
from sparksplit.handoff.feeding import Feeding
from sparksplit.strategies.splits import BatchSplit, owned_by_rank
from tests.disks import small_disk

pytestmark = pytest.mark.cluster


def test_nodes_that_end_before_the_feed_end_the_spark_job_too(spark, digits):
    """Early stop: at once, without an error, and Spark goes on to serve."""

    def endlessly(batches):
        for batch in batches:
            while True:
                yield batch
                time.sleep(0.1)

    data = PreparedDataSet.open(str(digits))
    rows = spark.read.parquet(f"{digits}/train").drop("lane")
    states = [{}, {}]
    payload = {"data": str(digits)}
    with NodeCluster(spark, 2, "tests.handoff.works:leave", payload, on_state=states.__setitem__, spare=1) as cluster:
        cluster.start()
        owned = owned_by_rank(BatchSplit(), data.manifest.lanes, 2)
        with Feeding(spark, data, rows.mapInArrow(endlessly, rows.schema), cluster, states, owned) as feeding:
            results = cluster.run(feeding.go_on)
            ended = time.monotonic()
        took = time.monotonic() - ended
    assert all(result["rows"] for result in results)
    assert took < 60  # the feed has no end
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert rows.count() == data.manifest.splits["train"].rows


def test_a_full_spool_disk_ends_in_one_line_with_the_folder_and_the_host(spark, digits, tmp_path):
    """A node's failure, which max_restarts covers, and not the feeding's, which its own tasks' errors are."""
    data = PreparedDataSet.open(str(digits))
    states = [{}, {}]
    owned = owned_by_rank(BatchSplit(), data.manifest.lanes, 2)
    with small_disk(tmp_path / "disk") as disk:
        payload = {"data": str(digits), "disk": str(disk)}
        work = "tests.handoff.works:spool_to_a_full_disk"
        full = rf"^node \d on {socket.gethostname()}: {disk}/\d: cannot take more rows: No space left on device$"
        with (
            pytest.raises(NodeFailed, match=full),
            NodeCluster(spark, 2, work, payload, on_state=states.__setitem__, spare=1) as cluster,
        ):
            cluster.start()
            with Feeding(spark, data, None, cluster, states, owned) as feeding:
                cluster.run(feeding.go_on)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
