"""The configuration of the tests' Hadoop: what differs from Hadoop's defaults, and why."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.ports import free_ports

HOST = "127.0.0.1"
QUEUES = ("default", "training")
GPUS = 2
REPLICATION = 2

DEAD_SECONDS = 11.0
"""When the NameNode gives up a silent DataNode: 2 recheck intervals and 10 heartbeats; Hadoop's default is 630 s."""


@dataclass(frozen=True)
class Ports:
    """Of everything that listens. Fixed for a cluster's life: a daemon that is started again is where it was."""

    namenode: int
    namenode_http: int
    resourcemanager: int
    scheduler: int
    tracker: int
    admin: int
    resourcemanager_http: int
    nodemanager: int
    localizer: int
    nodemanager_http: int
    collector: int
    datanodes: tuple[tuple[int, int, int], ...]  # data, ipc, http

    @classmethod
    def free(cls, datanodes: int) -> Ports:
        """Ports that nothing listens at now."""
        found = free_ports(HOST, 11 + 3 * datanodes)
        triples = tuple((found[i], found[i + 1], found[i + 2]) for i in range(11, len(found), 3))
        values: dict[str, Any] = dict(zip((each.name for each in fields(cls)), found[:11], strict=False))
        return cls(**values, datanodes=triples)


def write(conf_dir: Path, daemons_dir: Path, work: Path, ports: Ports) -> None:
    """Write what clients and daemons share to `conf_dir`, a HADOOP_CONF_DIR, and what is the daemons' to the other.

    work: the folder for everything that the daemons write.
    """
    gpus = daemons_dir / "nvidia-smi"
    conf_dir.mkdir()
    for name, settings in (
        ("core-site", _core(work, ports)),
        ("hdfs-site", _hdfs(work, ports)),
        ("yarn-site", _yarn(work, ports, gpus)),
        ("capacity-scheduler", _queues()),
        ("resource-types", {"yarn.resource-types": "yarn.io/gpu"}),
    ):
        (conf_dir / f"{name}.xml").write_text(_xml(settings))
    # Hadoop's distribution has web pages here, Maven Central's jars have none, and the daemons insist on the folders.
    for pages in ("hdfs", "datanode"):
        (daemons_dir / "webapps" / pages).mkdir(parents=True)
    (daemons_dir / "log4j.properties").write_text(_LOG4J)
    gpus.write_text(f"#!/bin/sh\ncat <<'END'\n{_gpus()}\nEND\n")
    gpus.chmod(0o755)


def _xml(settings: dict[str, str]) -> str:
    properties = "\n".join(
        f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}\n</configuration>\n'


def _core(work: Path, ports: Ports) -> dict[str, str]:
    return {"fs.defaultFS": f"hdfs://{HOST}:{ports.namenode}", "hadoop.tmp.dir": str(work / "tmp")}


def _hdfs(work: Path, ports: Ports) -> dict[str, str]:
    return {
        "dfs.replication": str(REPLICATION),
        "dfs.blocksize": str(8 << 20),  # small: files of a few megabytes have several blocks
        "dfs.namenode.name.dir": (work / "namenode").as_uri(),
        "dfs.namenode.rpc-address": f"{HOST}:{ports.namenode}",
        "dfs.namenode.http-address": f"{HOST}:{ports.namenode_http}",
        "dfs.namenode.handler.count": "8",
        "dfs.namenode.edits.noeditlogchannelflush": "true",  # no fsync: the machine's death is not tested
        # A DataNode has no name to look up on loopback.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.datanode.hostname": HOST,
        # A restarted NameNode serves as soon as the blocks are reported, not 30 s later.
        "dfs.namenode.safemode.extension": "0",
        # So that a test need not wait: a silent DataNode is stale after 3 s (3 heartbeats, the least), which sends
        # readers to the other first, and given up after DEAD_SECONDS, which ends the time in which writers are sent
        # there (with two DataNodes for two replicas there is no choice before). What it held is then copied at once.
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.heartbeat.recheck-interval": "500",
        "dfs.namenode.stale.datanode.interval": "3000",
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.redundancy.interval.seconds": "1s",
        # A copy to a DataNode that has died meanwhile is tried again soon, not after 5 minutes.
        "dfs.namenode.reconstruction.pending.timeout-sec": "5",
        # With two DataNodes none is left to replace a dead one: a writer goes on with the other, or fails, by itself.
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
    }


def _yarn(work: Path, ports: Ports, gpus: Path) -> dict[str, str]:
    manager, node = "yarn.resourcemanager", "yarn.nodemanager"
    return {
        f"{manager}.hostname": HOST,
        f"{manager}.address": f"{HOST}:{ports.resourcemanager}",
        f"{manager}.scheduler.address": f"{HOST}:{ports.scheduler}",
        f"{manager}.resource-tracker.address": f"{HOST}:{ports.tracker}",
        f"{manager}.admin.address": f"{HOST}:{ports.admin}",
        f"{manager}.webapp.address": f"{HOST}:{ports.resourcemanager_http}",
        "yarn.node-attribute.fs-store.root-dir": (work / "attributes").as_uri(),  # not in /tmp
        f"{manager}.am.max-attempts": "1",  # a failing application fails once, and fast
        f"{node}.hostname": HOST,
        f"{node}.bind-host": HOST,
        f"{node}.address": f"{HOST}:{ports.nodemanager}",
        f"{node}.localizer.address": f"{HOST}:{ports.localizer}",
        f"{node}.webapp.address": f"{HOST}:{ports.nodemanager_http}",
        f"{node}.collector-service.address": f"{HOST}:{ports.collector}",
        f"{node}.local-dirs": str(work / "nodemanager" / "local"),
        f"{node}.log-dirs": str(work / "nodemanager" / "logs"),
        # Containers are given, and their ends noticed, at a node's next heartbeat: soon, not after a second each.
        f"{manager}.nodemanagers.heartbeat-interval-ms": "100",
        # More than a small machine has: an application master and four executors of 2 GB with their overheads, or two
        # applications at once. They are idle most of the time, and nothing enforces the sum.
        f"{node}.resource.memory-mb": "16384",
        f"{node}.resource.cpu-vcores": "16",
        # What a container takes is enforced, as it is by default, and looked at more often.
        f"{node}.pmem-check-enabled": "true",
        f"{node}.container-monitor.interval-ms": "500",
        # Else control groups are taken to do it, even where there are none.
        f"{node}.resource.memory.enforced": "false",
        f"{node}.vmem-check-enabled": "false",
        # A developer's disk may be more than 90 % full.
        f"{node}.disk-health-checker.enable": "false",
        # GPUs that do not exist, but are scheduled and counted like any. Nothing isolates them from each other.
        f"{node}.resource-plugins": "yarn.io/gpu",
        f"{node}.resource-plugins.gpu.path-to-discovery-executables": str(gpus),
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.maximum-allocation-mb": "16384",
        "yarn.scheduler.maximum-allocation-vcores": "16",
    }


def _queues() -> dict[str, str]:
    root = "yarn.scheduler.capacity"
    settings = {
        f"{root}.root.queues": ",".join(QUEUES),
        f"{root}.maximum-am-resource-percent": "1.0",
        # The default one looks at memory alone and refuses GPUs.
        f"{root}.resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
    }
    for queue in QUEUES:
        settings[f"{root}.root.{queue}.capacity"] = str(100 / len(QUEUES))
        # One user may take the other queue's share too.
        settings[f"{root}.root.{queue}.maximum-capacity"] = "100"
        settings[f"{root}.root.{queue}.user-limit-factor"] = str(len(QUEUES))
    return settings


_LOG4J = """\
log4j.rootLogger=INFO,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


def _gpus() -> str:
    """What `nvidia-smi -x -q` says, as far as the NodeManager reads it."""
    each = "".join(
        f"<gpu><product_name>None</product_name><uuid>GPU-{minor}</uuid><minor_number>{minor}</minor_number>"
        "<fb_memory_usage><total>16384 MiB</total><used>0 MiB</used><free>16384 MiB</free></fb_memory_usage>"
        "<utilization><gpu_util>0 %</gpu_util></utilization>"
        "<temperature><gpu_temp>30 C</gpu_temp><gpu_temp_max_threshold>90 C</gpu_temp_max_threshold>"
        "<gpu_temp_slow_threshold>85 C</gpu_temp_slow_threshold></temperature></gpu>"
        for minor in range(GPUS)
    )
    return f'<?xml version="1.0"?><nvidia_smi_log><driver_version>0</driver_version>{each}</nvidia_smi_log>'
