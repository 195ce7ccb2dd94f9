"""Facts and settings in, findings out: every misconfiguration that was planted is found, and named by its key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparksplit.operations.check.facts import Facts
from sparksplit.operations.check.judge import fact_findings, setting_findings

GOOD = {
    "spark.master": "yarn",
    "spark.submit.deployMode": "cluster",
    "spark.executor.instances": "2",
    "spark.executor.cores": "2",
    "spark.task.cpus": "2",
    "spark.executor.memoryOverhead": "1536m",
    "spark.yarn.maxAppAttempts": "1",
}
VERSIONS = {"sparksplit": "0.1.0", "tensorflow": "2.21.0", "pyarrow": "26.0.0", "hdfs-native": None}
DRIVER = Facts("driver", "gateway", "10.0.0.1", "3.11.7", VERSIONS, 8000, clock=0.0)
FIRST = Facts("executor 0", "host-a", "10.0.0.2", "3.11.7", VERSIONS, 8000, clock=0.02)
SECOND = replace(FIRST, who="executor 1", host="host-b", address="10.0.0.3")


def test_a_good_cluster_has_no_findings():
    assert setting_findings(GOOD, nodes=2) == []
    assert fact_findings(GOOD, DRIVER, [FIRST, SECOND]) == []


@pytest.mark.parametrize(
    ("changed", "key", "text"),
    [
        ({"spark.dynamicAllocation.enabled": "true"}, "spark.dynamicAllocation.enabled", "must be false"),
        ({"spark.speculation": "true"}, "spark.speculation", "must be false"),
        ({"spark.task.cpus": "1"}, "spark.task.cpus", "one task slot (has 2); set it to 2"),
        ({"spark.python.worker.reuse": "false"}, "spark.python.worker.reuse", "must be true"),
        ({"spark.executor.instances": "1"}, "nodes", "2 nodes need 2 executors and there are 1"),
        ({"spark.executor.memoryOverhead": "384m"}, "spark.executor.memoryOverhead", "(is 384m); set it to 1536m"),
        ({"spark.executor.memoryOverhead": ""}, "spark.executor.memoryOverhead", "(is 384m)"),
        ({"spark.executor.pyspark.memory": "2g"}, "spark.executor.pyspark.memory", "must not be set (is 2g)"),
        ({"spark.yarn.maxAppAttempts": ""}, "spark.yarn.maxAppAttempts", "must be 1 (is not set"),
        (
            {"spark.executor.resource.gpu.amount": "1"},
            "spark.task.resource.gpu.amount",
            "is missing, and spark.executor.resource.gpu.amount is set: set it to 1",
        ),
        (
            {"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "1"},
            "spark.executor.resource.gpu.discoveryScript",
            "set it to ./gpu-discovery.sh",
        ),
        (
            {
                "spark.executor.resource.gpu.amount": "4",
                "spark.task.resource.gpu.amount": "1",
                "spark.executor.resource.gpu.discoveryScript": "./gpu.sh",
            },
            "spark.executor.resource.gpu.amount",
            "must be 1, a GPU of its own for each node (is 4)",
        ),
    ],
)
def test_each_wrong_setting_is_found(changed, key, text):
    settings = {name: value for name, value in {**GOOD, **changed}.items() if value}
    found = setting_findings(settings, nodes=2)
    assert key in {problem.key for problem in found}
    assert text in next(problem.text for problem in found if problem.key == key)


def test_attempts_count_only_where_yarn_starts_the_driver():
    settings = {**GOOD, "spark.submit.deployMode": "client"}
    del settings["spark.yarn.maxAppAttempts"]
    assert setting_findings(settings, nodes=2) == []


def test_the_overhead_is_a_share_of_the_memory_where_it_is_not_set():
    settings = {**GOOD, "spark.executor.memory": "20g"}
    del settings["spark.executor.memoryOverhead"]
    assert setting_findings(settings, nodes=2) == []


@pytest.mark.parametrize(
    ("second", "key", "text"),
    [
        (
            replace(SECOND, versions={**VERSIONS, "tensorflow": "2.20.0"}),
            "tensorflow",
            "must be 2.21.0 as on the driver (is 2.20.0 on host-b)",
        ),
        (replace(SECOND, versions={**VERSIONS, "pyarrow": None}), "pyarrow", "(is missing on host-b)"),
        (
            replace(SECOND, versions={**VERSIONS, "sparksplit": "0.0.9"}),
            "sparksplit",
            "(is 0.0.9 on host-b); give executors the driver's own sparksplit.zip by --py-files",
        ),
        (replace(SECOND, python="3.10.2"), "Python", "must be 3.11.7 as on the driver (is 3.10.2 on host-b)"),
        (replace(SECOND, folder="hdfs:///x: cannot be written"), "path", "executor 1 on host-b: hdfs:///x: cannot be"),
        (
            replace(SECOND, unreachable={"executor 0 at 10.0.0.2:4711": "timed out"}),
            "ports",
            "executor 1 on host-b cannot reach executor 0 at 10.0.0.2:4711 (timed out)",
        ),
        (replace(SECOND, clock=-90.0), "clock", "host-b is 90 s behind the driver"),
        (replace(SECOND, clock=90.0), "clock", "host-b is 90 s ahead of the driver"),
    ],
)
def test_each_wrong_fact_is_found_and_nothing_else(second, key, text):
    found = fact_findings(GOOD, DRIVER, [FIRST, second])
    assert [problem.key for problem in found] == [key]
    assert text in found[0].text


def test_a_patch_release_of_python_and_a_package_that_the_driver_lacks_are_no_findings():
    other = replace(SECOND, python="3.11.9", versions={**VERSIONS, "hdfs-native": "0.14.7"})
    assert fact_findings(GOOD, DRIVER, [FIRST, other]) == []


def test_the_same_fault_on_many_hosts_is_one_finding():
    hosts = [replace(SECOND, host=f"host-{n}", versions={**VERSIONS, "pyarrow": "1"}) for n in range(5)]
    (found,) = fact_findings(GOOD, DRIVER, hosts)
    assert "(is 1 on host-0, host-1, host-2 and 2 more)" in found.text


def test_gpus_that_are_shared_or_not_given_are_found():
    asked = {**GOOD, "spark.task.resource.gpu.amount": "1"}
    both = [replace(FIRST, gpus=["0"]), replace(FIRST, who="executor 1", gpus=["0"])]
    (found,) = fact_findings(asked, DRIVER, both)
    assert "several executors on host-a were given GPU 0" in found.text
    assert fact_findings(asked, DRIVER, [both[0], replace(SECOND, gpus=["0"])]) == []
    (found,) = fact_findings(asked, DRIVER, [both[0], SECOND])
    assert found.key == "spark.task.resource.gpu.amount" and "host-b was given no GPU" in found.text


def test_memory_of_a_host_counts_only_where_no_container_limits_it():
    small = replace(FIRST, available_mebibytes=1500)
    two = [small, replace(small, who="executor 1")]
    assert fact_findings(GOOD, DRIVER, two) == []
    (found,) = fact_findings({"spark.master": "spark://host:7077"}, DRIVER, two)
    assert found.key == "memory" and "host-a has 1500 MiB left, and its 2 nodes take about 2048" in found.text
