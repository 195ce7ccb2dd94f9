"""A real Hadoop on loopback: a NameNode, DataNodes, a ResourceManager and a NodeManager, each a process of its own."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hadoop import conf
from tests.hadoop.processes import Kept, KeptFolder, tail

_WAIT_SECONDS = 300.0  # on two busy cores; on idle ones all daemons are ready after 6 to 10 s

_HDFS, _YARN = "org.apache.hadoop.hdfs.server", "org.apache.hadoop.yarn.server"
_NAMENODE = f"{_HDFS}.namenode.NameNode"


class HadoopCluster:
    """HDFS and YARN from jars, in a temporary folder and on free ports; nothing of them outlives this process.

    conf_dir: what HADOOP_CONF_DIR is to be for a client.
    uri: hdfs://HOST:PORT, the default file system.
    resourcemanager: http://HOST:PORT, of its REST interface.
    data_ports: from which the DataNodes send blocks.
    folder: the temporary folder; programs that clients start may write below it.
    java_home: the Java that all run on.
    """

    def __init__(self, jars: Path, java_home: str, datanodes: int = 2) -> None:
        """Write the configuration; `start` starts it."""
        self._kept_folder = KeptFolder("sparksplit-hadoop-")
        self.folder = self._kept_folder.path
        self.conf_dir = self.folder / "conf"
        self.java_home = java_home
        self._ports = conf.Ports.free(datanodes)
        self.uri = f"hdfs://{conf.HOST}:{self._ports.namenode}"
        self.resourcemanager = f"http://{conf.HOST}:{self._ports.resourcemanager_http}"
        self.data_ports = [data for data, _, _ in self._ports.datanodes]
        self._daemons_dir = self.folder / "daemons"
        self._class_path = f"{self.conf_dir}:{self._daemons_dir}:{jars}/*"
        self._commands = {
            "namenode": self._java(_NAMENODE),
            **{f"datanode-{index}": self._datanode(index) for index in range(datanodes)},
            "resourcemanager": self._java(f"{_YARN}.resourcemanager.ResourceManager"),
            "nodemanager": self._java(f"{_YARN}.nodemanager.NodeManager"),
        }
        self._daemons: dict[str, Kept] = {}
        for name in ("daemons", "logs", "tmp"):
            (self.folder / name).mkdir()
        conf.write(self.conf_dir, self._daemons_dir, self.folder, self._ports)

    def __enter__(self) -> HadoopCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all daemons; returns when HDFS takes writes and YARN takes applications.

        Raises RuntimeError or TimeoutError with the end of the log of the daemon that ended or did not get ready.
        """
        format_log = self.log("format")
        formatting = Kept(self.folder, self._java(_NAMENODE, "-format"), format_log, self._environment())
        try:
            if formatting.wait(_WAIT_SECONDS) != 0:
                raise RuntimeError(f"the NameNode's format failed:\n{tail(format_log)}")
        finally:
            formatting.stop()
        self.restore()

    def restore(self) -> None:
        """Start the daemons that do not run, and return when all are ready: a cluster as `start` leaves it."""
        stopped = [
            name for name in self._commands if name not in self._daemons or self._daemons[name].status is not None
        ]
        for name in stopped:
            self._launch(name)
        if stopped:
            self._await_hdfs()
            self.wait_for("a running NodeManager", self._has_nodemanager, "nodemanager")

    def stop(self) -> None:
        """Kill all daemons with their containers, and remove the folder."""
        for daemon in reversed(self._daemons.values()):
            daemon.stop()
        self._kept_folder.remove()

    def log(self, daemon: str) -> Path:
        """The log of "namenode", "datanode-0", "resourcemanager", ..."""
        return self.folder / "logs" / f"{daemon}.log"

    def container_logs(self, application: str) -> dict[str, str]:
        """What an application's containers wrote: container/stdout and container/stderr to text."""
        folder = self.folder / "nodemanager" / "logs" / application
        files = sorted(folder.glob("*/std*"))
        return {str(file.relative_to(folder)): file.read_text(errors="replace") for file in files}

    def admin(self, *arguments: str) -> None:
        """Call `hdfs dfsadmin`; raises RuntimeError with what it says where it fails."""
        command = self._java("org.apache.hadoop.hdfs.tools.DFSAdmin", *arguments)
        ran = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(f"dfsadmin {' '.join(arguments)}: {ran.stdout}{ran.stderr}")

    def kill_datanode(self, index: int) -> None:
        """Kill a DataNode with SIGKILL. The NameNode learns of it by and by: `await_live_datanodes`."""
        self._daemons[f"datanode-{index}"].stop()

    def restart_datanode(self, index: int) -> None:
        """Start a killed DataNode again, where it was; returns when it has registered with the NameNode."""
        self._launch(f"datanode-{index}")
        self._await_datanode(index)

    def stop_namenode(self) -> None:
        """Kill the NameNode with SIGKILL."""
        self._daemons["namenode"].stop()

    def restart_namenode(self) -> None:
        """Start a killed NameNode again, where it was; returns when HDFS takes writes."""
        self._launch("namenode")
        self._await_hdfs()

    def await_live_datanodes(self, count: int) -> None:
        """Return when the NameNode uses `count` DataNodes; it gives up a dead one after conf.DEAD_SECONDS."""
        self.wait_for(f"{count} live DataNodes", lambda: self._live_datanodes() == count, "namenode")

    def await_replicated(self) -> None:
        """Return when every block has as many live replicas as it should."""
        self.wait_for("all replicas", lambda: self._missing_replicas() == 0, "namenode")

    def wait_for(self, what: str, ready: Callable[[], bool], daemon: str) -> None:
        """Ask `ready` until it holds; an error to answer counts as no.

        daemon: whose log explains where it does not come. Raises RuntimeError where its process has ended, and
        TimeoutError; both quote the log.
        """
        end, reason = time.monotonic() + _WAIT_SECONDS, "the answer is no"
        while True:
            try:
                if ready():
                    return
            except (OSError, LookupError, ValueError) as error:  # not listening yet, or not all of it
                reason = repr(error)
            log, status = self.log(daemon), self._daemons[daemon].status
            if status is not None:
                raise RuntimeError(f"the {daemon} ended with status {status}; {log} ends:\n{tail(log)}")
            if time.monotonic() > end:
                raise TimeoutError(f"waited {_WAIT_SECONDS:.0f} s for {what} ({reason}); {log} ends:\n{tail(log)}")
            time.sleep(0.1)

    def rest(self, path: str, put: dict[str, str] | None = None) -> Any:
        """The answer of the ResourceManager's REST interface, as in rest("cluster/apps").

        put: what to change, as the user who runs the tests.
        """
        url = f"{self.resourcemanager}/ws/v1/{path}"
        return _get(url) if put is None else _put(f"{url}?user.name={getpass.getuser()}", put)

    def signal(self, container: str, command: str) -> None:
        """Have YARN send a container a signal; GRACEFUL_SHUTDOWN is SIGTERM, as where it is to be preempted."""
        path = f"cluster/containers/{container}/signal/{command}"
        url = f"{self.resourcemanager}/ws/v1/{path}?user.name={getpass.getuser()}"
        with urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=5) as answer:
            answer.read()

    def _launch(self, name: str) -> None:
        daemon = self._daemons.get(name)
        if daemon is not None and daemon.status is None:
            raise RuntimeError(f"the {name} is running: stop it first")
        self._daemons[name] = Kept(self.folder, self._commands[name], self.log(name), self._environment())

    def _datanode(self, index: int) -> list[str]:
        data, ipc, http = self._ports.datanodes[index]
        settings = {
            "dfs.datanode.data.dir": (self.folder / f"datanode-{index}").as_uri(),
            "dfs.datanode.address": f"{conf.HOST}:{data}",
            "dfs.datanode.ipc.address": f"{conf.HOST}:{ipc}",
            "dfs.datanode.http.address": f"{conf.HOST}:{http}",
        }
        return self._java(f"{_HDFS}.datanode.DataNode", *(f"-D{key}={value}" for key, value in settings.items()))

    def _java(self, main: str, *arguments: str) -> list[str]:
        # The first compiler only and small heaps: daemons that serve a few files start in half the time.
        return [
            f"{self.java_home}/bin/java",
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            "-Djava.net.preferIPv4Stack=true",
            *("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"),
            *("-cp", self._class_path, main, *arguments),
        ]

    def _environment(self) -> dict[str, str]:
        """Of the daemons. The NodeManager hands some of it on to containers."""
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("HADOOP", "YARN", "SPARK_"))
        }
        return inherited | {"JAVA_HOME": self.java_home, "HADOOP_CONF_DIR": str(self.conf_dir)}

    def _await_hdfs(self) -> None:
        running = [i for i in range(len(self._ports.datanodes)) if self._daemons[f"datanode-{i}"].status is None]
        for index in running:
            self._await_datanode(index)
        self.wait_for("HDFS to take writes", lambda: self._operational(len(running)), "namenode")

    def _await_datanode(self, index: int) -> None:
        self.wait_for("its registration", lambda: self._has_registered(index), f"datanode-{index}")

    def _operational(self, datanodes: int) -> bool:
        """Whether safe mode is off, with so many DataNodes at least."""
        return self._namenode_state()["FSState"] == "Operational" and self._live_datanodes() >= datanodes

    def _live_datanodes(self) -> int:
        """How many DataNodes it uses; LookupError while it does not know all of one, or has not yet noticed a death.

        Not nodesInService: it stays one too low after a restart in which a DataNode reported its blocks before its
        first heartbeat.
        """
        info = _bean(self._ports.namenode_http, "Hadoop:service=NameNode,name=NameNodeInfo")
        capacities = [node["capacity"] for node in json.loads(info["LiveNodes"]).values()]
        # A dead one leaves this list up to a second before the NameNode has taken notice, and meanwhile it sends
        # writers there. The sum is kept from heartbeat to heartbeat, and changes when it has.
        total = self._namenode_state()["CapacityTotal"]
        if not all(capacities) or sum(capacities) != total:
            raise LookupError(f"live DataNodes hold {capacities} bytes, {total} together")
        return len(capacities)

    def _missing_replicas(self) -> int:
        # fsck counts when asked; the NameNode's own numbers are a second old.
        url = f"http://{conf.HOST}:{self._ports.namenode_http}/fsck?path=/&user.name={getpass.getuser()}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = re.search(r"Under-replicated blocks:\s+(\d+)", answer.read().decode())
        if found is None:
            raise ValueError("fsck does not tell")
        return int(found[1])

    def _namenode_state(self) -> dict[str, Any]:
        return _bean(self._ports.namenode_http, "Hadoop:service=NameNode,name=FSNamesystemState")

    def _has_registered(self, index: int) -> bool:
        # Its own word: the NameNode counts one that was killed a moment ago as live, whether it is back or not.
        info = _bean(self._ports.datanodes[index][2], "Hadoop:service=DataNode,name=DataNodeInfo")
        actors = json.loads(info["BPServiceActorInfo"])
        return bool(actors) and all(actor["ActorState"] == "RUNNING" for actor in actors)

    def _has_nodemanager(self) -> bool:
        return bool(self.rest("cluster/metrics")["clusterMetrics"]["activeNodes"])


def _bean(port: int, name: str) -> dict[str, Any]:
    """What a daemon tells of itself under a JMX name; LookupError where it does not."""
    beans = _get(f"http://{conf.HOST}:{port}/jmx?qry={name}")["beans"]
    return dict(beans[0])


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def _put(url: str, body: dict[str, str]) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)
