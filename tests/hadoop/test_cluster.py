"""The tests' Hadoop does what others rely on: files survive deaths, and YARN runs Spark and tells what became of it."""

from __future__ import annotations

import numpy as np
import pytest
from hdfs_native import Client, WriteOptions

from tests.hadoop import conf
from tests.hadoop.submit import explain

CONTENT = np.random.default_rng(1).bytes(20 << 20)  # three blocks

COUNT = """
import sys
from pyspark import TaskContext
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.read.text(sys.argv[1]).count()
addresses = spark.sparkContext.range(2, numSlices=2).map(
    lambda _: [gpu for one in TaskContext.get().resources().values() for gpu in one.addresses]
).collect()
print(f"{rows} rows, GPUs {addresses}")
spark.stop()
"""


@pytest.fixture
def client(hadoop):
    return Client(hadoop.uri, config_dir=str(hadoop.conf_dir))


@pytest.fixture
def folder(client, request):
    """A folder of the test's own on HDFS."""
    path = f"/tests/{request.node.name}"
    client.mkdirs(path, create_parent=True)
    yield path
    client.delete(path, recursive=True)


def write(client, path, content):
    with client.create(path, WriteOptions(overwrite=True)) as file:
        file.write(content)


def read(client, path):
    with client.read(path) as file:
        return file.read()


def count_job(tmp_path):
    script = tmp_path / "count_job.py"
    script.write_text(COUNT)
    return script


def test_a_file_is_read_as_it_was_written(hadoop, client, folder):
    write(client, f"{folder}/file", CONTENT)
    assert read(client, f"{folder}/file") == CONTENT
    assert client.get_file_info(f"{folder}/file").replication == conf.REPLICATION


@pytest.mark.slow
def test_files_survive_each_datanode(hadoop, client, folder):
    write(client, f"{folder}/both", CONTENT)
    hadoop.kill_datanode(0)
    assert read(client, f"{folder}/both") == CONTENT  # before the NameNode knows
    hadoop.await_live_datanodes(1)
    write(client, f"{folder}/one", CONTENT[::-1])
    hadoop.restart_datanode(0)
    hadoop.await_replicated()
    hadoop.kill_datanode(1)
    assert read(client, f"{folder}/both") == CONTENT
    assert read(client, f"{folder}/one") == CONTENT[::-1]
    hadoop.restart_datanode(1)
    hadoop.await_live_datanodes(2)


@pytest.mark.slow
def test_files_survive_the_namenode(hadoop, client, folder):
    write(client, f"{folder}/file", CONTENT)
    hadoop.stop_namenode()
    hadoop.restart_namenode()
    assert read(Client(hadoop.uri), f"{folder}/file") == CONTENT
    write(client, f"{folder}/file", CONTENT[:10])  # the same address: a client from before goes on
    assert read(client, f"{folder}/file") == CONTENT[:10]


@pytest.mark.slow
def test_what_a_test_has_killed_is_started_again(hadoop, client, folder):
    write(client, f"{folder}/file", CONTENT)
    hadoop.stop_namenode()
    hadoop.kill_datanode(1)
    hadoop.restore()
    hadoop.await_live_datanodes(2)
    assert read(client, f"{folder}/file") == CONTENT


@pytest.mark.slow
def test_a_spark_application_in_cluster_mode(hadoop, client, folder, yarn_submit, tmp_path):
    write(client, f"{folder}/lines", b"one\ntwo\nthree\n")
    submission = yarn_submit(count_job(tmp_path), f"{folder}/lines", settings={"spark.yarn.queue": "training"})
    application = submission.finish()
    assert (application.status, application.final_status) == (0, "SUCCEEDED"), explain(application)
    assert application.queue.endswith("training")
    assert "3 rows, GPUs [[], []]" in "".join(application.containers.values())


@pytest.mark.slow
def test_a_failed_application_says_why(hadoop, folder, yarn_submit, tmp_path):
    application = yarn_submit(count_job(tmp_path), f"{folder}/nothing").finish()
    assert application.status != 0
    assert application.final_status == "FAILED"
    assert "PATH_NOT_FOUND" in explain(application)


@pytest.mark.slow
def test_yarn_schedules_the_pretended_gpus_in_client_mode(hadoop, client, folder, yarn_submit, tmp_path):
    write(client, f"{folder}/lines", b"one\n")
    discovery = tmp_path / "gpu"
    discovery.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["0"]}'\n""")
    discovery.chmod(0o755)
    settings = {
        "spark.executor.resource.gpu.amount": "1",
        "spark.executor.resource.gpu.discoveryScript": str(discovery),
        "spark.task.resource.gpu.amount": "1",
    }
    submission = yarn_submit(count_job(tmp_path), f"{folder}/lines", mode="client", settings=settings)
    application = submission.finish()
    assert (application.status, application.final_status) == (0, "SUCCEEDED"), explain(application)
    assert "1 rows, GPUs [['0'], ['0']]" in application.output
    assert submission.application()["resourceSecondsMap"] == {}
    assert len(application.containers) == 2 * 3  # two executors and the application master


@pytest.mark.slow
def test_an_application_that_outlives_its_test_is_killed(hadoop, yarn_submit, tmp_path):
    script = tmp_path / "wait.py"
    script.write_text("import signal\nfrom pyspark import SparkContext\nSparkContext()\nsignal.pause()\n")
    submission = yarn_submit(script)
    hadoop.wait_for("the application to run", lambda: submission.application()["state"] == "RUNNING", "resourcemanager")
    submission.kill()
    assert submission.application()["finalStatus"] == "KILLED"
