"""The driver's side of feeding, on a real local cluster."""

from __future__ import annotations

import time

import pytest

from hdfs_io.prepared import PreparedDataSet
from training.cluster import NodeCluster
from training.handoff.feeding import Feeding

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
    with NodeCluster(
        spark, 2, "tests.training.handoff.works:leave", payload, on_state=states.__setitem__, spare=1
    ) as cluster:
        cluster.start()
        with Feeding(spark, data, rows.mapInArrow(endlessly, rows.schema), cluster, states) as feeding:
            results = cluster.run(feeding.go_on)
            ended = time.monotonic()
        took = time.monotonic() - ended
    assert all(result["rows"] for result in results)
    assert took < 60  # the feed has no end
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert rows.count() == data.manifest.splits["train"].rows
