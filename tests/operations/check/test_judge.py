"""Facts and settings in, findings out: every misconfiguration that was planted is found, and named by its key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparksplit.operations.check.facts import Facts
from sparksplit.operations.check.judge import fact_findings, setting_findings
from sparksplit.spark.settings.requirements import slot_problems, why_few

GOOD = {
    "spark.master": "yarn",
    "spark.submit.deployMode": "cluster",
    "spark.executor.instances": "2",
    "spark.executor.cores": "2",
    "spark.task.cpus": "2",
    "spark.executor.memoryOverhead": "1536m",
    "spark.yarn.maxAppAttempts": "1",
}
VERSIONS = {"sparksplit": "0.2.0", "tensorflow": "2.21.0", "pyarrow": "26.0.0", "hdfs-native": None}
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
        ({"spark.master": "local[2]"}, "spark.master", "local[2] runs everything in one process"),
        ({"spark.speculation": "true"}, "spark.speculation", "must be false"),
        ({"spark.task.cpus": "1"}, "spark.task.cpus", "one task slot (has 2); set it to 2"),
        ({"spark.python.worker.reuse": "false"}, "spark.python.worker.reuse", "must be true"),
        ({"spark.executor.instances": "1"}, "nodes", "2 nodes need 2 executors, and the settings allow 1"),
        ({"spark.executor.memoryOverhead": "384m"}, "spark.executor.memoryOverhead", "(is 384m); set it to 1536m"),
        ({"spark.executor.memoryOverhead": ""}, "spark.executor.memoryOverhead", "(is 384m)"),
        ({"spark.executor.pyspark.memory": "2g"}, "spark.executor.pyspark.memory", "must not be set (is 2g)"),
        ({"spark.yarn.maxAppAttempts": ""}, "spark.yarn.maxAppAttempts", "must be 1 (is not set"),
        (
            {"spark.executor.resource.gpu.amount": "1"},
            "spark.task.resource.gpu.amount",
            "is not set, but spark.executor.resource.gpu.amount is; set it to 1",
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
            "must be 1, since each node uses one GPU (is 4)",
        ),
    ],
)
def test_each_wrong_setting_is_found(changed, key, text):
    settings = {name: value for name, value in {**GOOD, **changed}.items() if value}
    found = setting_findings(settings, nodes=2)
    assert key in {problem.key for problem in found}
    assert text in next(problem.text for problem in found if problem.key == key)


STANDALONE = {
    "spark.master": "spark://host:7077",
    "spark.executor.cores": "2",
    "spark.task.cpus": "2",
    "spark.cores.max": "4",
    "spark.executor.memory": "1g",
}


@pytest.mark.parametrize("settings", [GOOD, STANDALONE])
@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("spark.executor.cores", "two", "must be a whole number above 0 (is two)"),
        ("spark.task.cpus", "0", "must be a whole number above 0 (is 0)"),
        ("spark.executor.instances", "some", "must be a whole number above 0 (is some)"),
        ("spark.cores.max", "1.5", "must be a whole number above 0 (is 1.5)"),
        ("spark.yarn.maxAppAttempts", "", "must be a whole number above 0 (is )"),
        ("spark.executor.memory", "much", 'must be a size such as 1024m or 2g (is "much")'),
        ("spark.executor.memory", "100m", "must be at least 450m, which Spark itself needs (is 100m)"),
        ("spark.driver.memory", "0.5g", 'must be a size such as 1024m or 2g (is "0.5g")'),
        ("spark.executor.memoryOverhead", "1,5g", "must be a size"),
        ("spark.dynamicAllocation.enabled", "yes", "must be true or false (is yes)"),
        ("spark.authenticate", "on", "must be true or false (is on)"),
        ("spark.master", "spark://host", "must be spark://HOST:PORT (is spark://host)"),
        ("spark.master", "sparks://host:7077", "must be yarn or spark://HOST:PORT (is sparks://host:7077)"),
        ("spark.executor.cores", "1", "must not be below spark.task.cpus (is 1); set both to the cores of a node"),
    ],
)
def test_a_value_that_spark_cannot_take_is_the_first_finding(settings, key, value, text):
    found = setting_findings({**settings, key: value}, nodes=2)
    assert found[0].key == key and found[0].text.startswith(text)


@pytest.mark.parametrize(
    ("changed", "key", "text"),
    [
        (
            {"spark.cores.max": "2"},
            "nodes",
            "2 nodes need 2 executors, and the settings allow 1; set fewer nodes, or set spark.cores",
        ),
        ({"spark.task.cpus": "1"}, "spark.task.cpus", "an executor must have one task slot (has 2); set it to 2"),
        ({"spark.submit.deployMode": "cluster"}, "spark.submit.deployMode", "must be client (is cluster)"),
        (
            {"spark.cores.max": None, "spark.executor.instances": "2"},
            "spark.executor.instances",
            "has no effect on Spark standalone, where an application takes all free cores. Set"
            " spark.cores.max to 2 x 2 instead",
        ),
    ],
)
def test_each_wrong_setting_of_a_standalone_cluster_is_found_alone(changed, key, text):
    assert setting_findings(STANDALONE, nodes=2) == []
    given = {name: value for name, value in {**STANDALONE, **changed}.items() if value is not None}
    (found,) = setting_findings(given, nodes=2)
    assert found.key == key and found.text.startswith(text)


def test_what_to_look_at_where_no_executor_comes():
    none = why_few({**STANDALONE, "spark.driver.host": "gateway"}, 0)
    assert "2 cores and 1g (spark.executor.cores, spark.executor.memory) free" in none
    assert "and reaches gateway (spark.driver.host)." in none
    assert "spark.cores.max is high enough" in why_few(STANDALONE, 1)
    assert "check that the other workers have 1 core and 1g (" in why_few(
        {**STANDALONE, "spark.executor.cores": "1"}, 1
    )
    assert "2 cores and 1g + 1536m (spark.executor.cores, memory and memoryOverhead)" in why_few(GOOD, 0)
    assert why_few({"spark.master": "local-cluster[2,1,1024]"}, 0) == "the cluster may be busy"


def test_several_task_slots_are_blamed_on_the_cores_where_those_are_not_set():
    assert [problem.key for problem in slot_problems(4)] == ["spark.executor.cores"]
    assert [problem.key for problem in slot_problems(4, cores=4)] == ["spark.task.cpus"]


MIB = 2**20


@pytest.mark.parametrize(
    ("master", "key"),
    [
        ("yarn", "yarn.nodemanager.local-dirs"),
        ("spark://host:7077", "SPARK_LOCAL_DIRS"),
        ("local-cluster[2,1,1024]", "spark.local.dir"),
    ],
)
def test_local_disks_that_are_too_small_for_the_spool_are_found(master, key):
    """Two executors of one host share its disk; the host with two disks has one for each."""
    one, two = {"/a/blockmgr-1": [7, 150]}, {"/a/x": [7, 150], "/b/x": [8, 150]}
    there = {"available_mebibytes": 9000}
    first = [replace(FIRST, disks=one, **there), replace(FIRST, who="executor 1", disks=one, **there)]
    second = [replace(SECOND, who=f"executor {number}", disks=two, **there) for number in (2, 3)]
    settings = {"spark.master": master}
    assert fact_findings(settings, DRIVER, [*first, *second], spooled=[75 * MIB] * 4) == []
    (found,) = fact_findings(settings, DRIVER, [*first, *second], spooled=[100 * MIB] * 4)
    assert found.key == key
    assert found.text.startswith(
        "host-a: /a/blockmgr-1 is on a disk with 150 MiB free, and 2 of the nodes spool 100 MiB each there"
    )
    assert len(fact_findings(settings, DRIVER, [*first, *second], spooled=[200 * MIB] * 4)) == 3
    assert fact_findings(settings, DRIVER, [*first, *second]) == []


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
            "(is 0.0.9 on host-b); ship the driver's own sparksplit.zip with --py-files",
        ),
        (replace(SECOND, python="3.10.2"), "Python", "must be 3.11.7 as on the driver (is 3.10.2 on host-b)"),
        (replace(SECOND, folder="hdfs:///x: cannot be written"), "path", "executor 1 on host-b: hdfs:///x: cannot be"),
        (
            replace(SECOND, unreachable={"executor 0 at 10.0.0.2:4711": "timed out"}),
            "ports",
            "executor 1 on host-b cannot reach executor 0 at 10.0.0.2:4711 (timed out)",
        ),
        (replace(SECOND, writes_as="yarn"), "user", "executors write as yarn (on host-b), the driver as alice"),
        (replace(SECOND, clock=-90.0), "clock", "host-b is 90 s behind the driver"),
        (replace(SECOND, clock=90.0), "clock", "host-b is 90 s ahead of the driver"),
    ],
)
def test_each_wrong_fact_is_found_and_nothing_else(second, key, text):
    found = fact_findings(GOOD, replace(DRIVER, writes_as="alice"), [replace(FIRST, writes_as="alice"), second])
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


def test_memory_is_for_the_nodes_that_are_planned():
    """A standalone cluster gives all its executors. The rest of them feed the nodes, or do nothing."""
    settings = {"spark.master": "spark://host:7077"}
    many = [replace(FIRST, who=f"executor {number}", available_mebibytes=20_000) for number in range(32)]
    assert fact_findings(settings, DRIVER, many, nodes=2) == []
    (found,) = fact_findings(settings, DRIVER, many)
    assert found.text == "host-a has 20000 MiB left, and its 32 nodes take about 32768: use fewer there"
    assert fact_findings(settings, DRIVER, many, nodes=20)[0].text.endswith(
        "its 20 nodes take about 20480: use fewer there"
    )
    few = [replace(one, available_mebibytes=900) for one in many[:3]]
    (found,) = fact_findings(settings, DRIVER, few, nodes=1)
    assert found.text == "host-a has 900 MiB left, and its node takes about 1024: use fewer there"


def test_hosts_of_one_name_are_told_apart_by_their_addresses():
    """Cloned machines may have one hostname."""
    clones = [replace(one, host="clone", available_mebibytes=1500, gpus=["0"]) for one in (FIRST, SECOND)]
    settings = {"spark.master": "spark://host:7077", "spark.task.resource.gpu.amount": "1"}
    assert fact_findings(settings, DRIVER, clones) == []
    found = fact_findings(settings, DRIVER, [replace(one, gpus=[]) for one in clones])
    assert [problem.text for problem in found] == [
        f"is set, but an executor on clone ({address}) was given no GPU" for address in ("10.0.0.2", "10.0.0.3")
    ]
    # Two on one host share it, whatever other hosts are called.
    both = [*clones, replace(clones[0], who="executor 2")]
    assert [problem.key for problem in fact_findings(settings, DRIVER, both)] == [
        "memory",
        "spark.executor.resource.gpu.discoveryScript",
    ]
