"""What other users of the machine can see and do of a session's cluster: nothing."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any

import psutil
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.commands_seen import command_lines


def test_no_command_line_has_the_clusters_secret(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.authenticate") == "true"
    secret = conf.get("spark.authenticate.secret")
    assert secret is not None and len(secret) == 64
    seen = command_lines()
    assert "CoarseGrainedExecutorBackend" in seen and "org.apache.spark.deploy.SparkSubmit" in seen
    assert secret not in seen
    assert not list(Path(conf.get("spark.local.dir", "")).parent.glob("*.properties"))


def _known(spark: SparkSession, secret: str | None) -> str:
    """The address of the driver's scheduler, as whoever has `secret` learns it. Raises Py4JJavaError."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    if secret is not None:
        conf.set("spark.authenticate", "true").set("spark.authenticate.secret", secret)
    kind = jvm.org.apache.spark.SecurityManager
    manager = kind(conf, *(getattr(kind, f"$lessinit$greater$default${number}")() for number in (2, 3)))
    stranger = jvm.org.apache.spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, manager, True)
    try:
        port = int(spark.sparkContext.getConf().get("spark.driver.port", ""))
        address = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", port)
        return str(stranger.setupEndpointRef(address, "CoarseGrainedScheduler").toString())
    finally:
        stranger.shutdown()


def test_who_does_not_know_the_secret_cannot_join(spark: SparkSession) -> None:
    assert "CoarseGrainedScheduler" in _known(spark, spark.sparkContext.getConf().get("spark.authenticate.secret"))
    for secret in (None, "another"):
        with pytest.raises(Py4JJavaError):
            _known(spark, secret)


def test_the_masters_and_the_workers_pages_tell_nothing(spark: SparkSession) -> None:
    java = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    answers = []
    for port in {each.laddr.port for each in java.net_connections("tcp") if each.status == psutil.CONN_LISTEN}:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            answers.append((answer.status, answer.getheader("Location")))
        except (http.client.HTTPException, OSError):
            continue  # no page
        finally:
            connection.close()
    refused = (302, "http://192.0.2.1/") if spark.version.startswith("3.") else (403, None)
    assert answers == 5 * [refused]  # of the master and four workers
