"""The driver's side of feeding, on a real local cluster."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext

from sparksplit.base.errors import InputError, NodeFailed
from sparksplit.cluster import NodeCluster
from sparksplit.dataset.lane_files import Layout
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.handoff import job as job_module
from sparksplit.handoff.damage import find
from sparksplit.handoff.feeding import Feeding
from sparksplit.handoff.job import FeedJob
from sparksplit.handoff.receiver import Receiver
from sparksplit.rows.ledger import Entry
from sparksplit.strategies.splits import BatchSplit, owned_by_rank
from tests.disks import small_disk

pytestmark = pytest.mark.cluster


@pytest.mark.slow
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


def garbage(file):
    """A page that cannot be unpacked; Spark's own words name no file."""
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = b"\xff" * 2000
    file.write_bytes(content)


def others(file):
    """As many rows as there were, with other ids."""
    table = pq.read_table(file)
    ids = pa.array(table.column("row_id").to_numpy() ^ 1)
    pq.write_table(table.set_column(0, "row_id", ids), file, row_group_size=table.num_rows)


def gone(file):
    """Removed after the run has begun."""
    file.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "says"), [(garbage, "row group .*"), (others, "row group .*: is damaged.*"), (gone, ".*does not exist")]
)
def test_what_spark_cannot_read_is_named(spark, digits, tmp_path, monkeypatch, damage, says):
    """The file, where Spark names none, or reads past it; a mistake in what was given, which is not tried again."""
    monkeypatch.setattr(job_module, "EXPLAIN", 0.0)
    shutil.copytree(digits, tmp_path / "data")
    data = PreparedDataSet.open(str(tmp_path / "data"))
    layout, rows = Layout.of(data.manifest), data.manifest.splits["train"]
    frame = spark.read.parquet(f"{data.path}/train")
    file = tmp_path / "data" / next(iter(data.files("train")))
    damage(file)
    ended = threading.Event()
    receiver = Receiver("127.0.0.1", "token", str(tmp_path / "spool"), layout.schema)
    job = FeedJob(
        frame,
        layout.schema,
        data.manifest.lanes,
        "token",
        layout.row_bytes,
        [range(data.manifest.lanes)],
        ended.set,
        whole=Entry(rows.rows, rows.checksum),
        damage=lambda: find(spark, data, "train"),
    )
    try:
        job.start([receiver.address])
        assert ended.wait(120)
        with pytest.raises(InputError, match=rf"^{file}: {says}"):
            job.result()
    finally:
        job.close()
        receiver.close()


@pytest.mark.slow
def test_a_node_that_spark_cannot_reach_is_lost_and_another_attempt_may_reach_it(spark, digits, tmp_path, monkeypatch):
    """Of what a task raises, Spark hands on only the text."""
    monkeypatch.setattr(job_module, "EXPLAIN", 0.0)
    data = PreparedDataSet.open(str(digits))
    layout = Layout.of(data.manifest)
    receiver = Receiver("127.0.0.1", "token", str(tmp_path / "spool"), layout.schema)
    receiver.close()
    frame, lanes, ended = spark.read.parquet(f"{data.path}/train"), data.manifest.lanes, threading.Event()
    job = FeedJob(frame, layout.schema, lanes, "token", layout.row_bytes, [range(lanes)], ended.set)
    try:
        job.start([receiver.address])
        assert ended.wait(120)
        with pytest.raises(
            NodeFailed, match=r"^feeding failed: a task failed: hand-off to node 0 at 127\.0\.0\.1:\d+: "
        ):
            job.result()
    finally:
        job.close()


@pytest.mark.slow
def test_a_full_spool_disk_ends_in_one_line_with_the_folder_and_the_host(spark, digits, tmp_path):
    """A node's failure, which max_restarts covers, and not the feeding's, which its own tasks' errors are."""
    data = PreparedDataSet.open(str(digits))
    states = [{}, {}]
    owned = owned_by_rank(BatchSplit(), data.manifest.lanes, 2)
    with small_disk(tmp_path / "disk") as disk:
        payload = {"data": str(digits), "disk": str(disk)}
        work = "tests.handoff.works:spool_to_a_full_disk"
        full = rf"^node \d on {socket.gethostname()}: {disk}/\d: cannot take more rows: No space left on device \["
        with (
            pytest.raises(NodeFailed, match=full),
            NodeCluster(spark, 2, work, payload, on_state=states.__setitem__, spare=1) as cluster,
        ):
            cluster.start()
            with Feeding(spark, data, None, cluster, states, owned) as feeding:
                cluster.run(feeding.go_on)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


@pytest.mark.slow
def test_an_executor_that_stands_still_while_it_feeds_is_replaced(spark, digits, tmp_path):
    """Its tasks are tried again; Spark itself would wait for it for two minutes."""
    mark = tmp_path / "feeding"

    def held(batches):
        if TaskContext.get().attemptNumber() == 0:
            mark.write_text(str(os.getpid()))
            time.sleep(60)
        yield from batches

    data = PreparedDataSet.open(str(digits))
    rows = spark.read.parquet(f"{digits}/train").drop("lane").coalesce(1)
    states = [{}, {}]
    payload = {"data": str(digits)}
    with NodeCluster(
        spark, 2, "tests.handoff.works:take_all", payload, on_state=states.__setitem__, spare=1
    ) as cluster:
        cluster.start()
        owned = owned_by_rank(BatchSplit(), data.manifest.lanes, 2)
        with Feeding(spark, data, rows.mapInArrow(held, rows.schema), cluster, states, owned) as feeding:
            stopped = []

            def go_on():
                feeding.go_on()
                if not stopped and mark.exists() and (worker := mark.read_text()):
                    stopped.append(next(p for p in psutil.Process(int(worker)).parents() if "java" in p.name()))
                    stopped[0].suspend()

            results = cluster.run(go_on)
    assert sum(result["rows"] for result in results) == data.manifest.splits["train"].rows
    assert not psutil.wait_procs(stopped, timeout=30)[1]
