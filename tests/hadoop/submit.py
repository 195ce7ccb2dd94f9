"""spark-submit on the tests' YARN, and what became of it, in YARN's own words."""

from __future__ import annotations

import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from tests.hadoop.cluster import HadoopCluster
from tests.hadoop.processes import Kept

_ROOT = Path(__file__).resolve().parent.parent.parent
_FINISH_SECONDS = 240.0
_ENDED = ("FINISHED", "FAILED", "KILLED")


@dataclass(frozen=True)
class Application:
    """A finished application.

    status: spark-submit's exit status.
    output: what spark-submit, and in client mode the driver, wrote to both streams.
    id: YARN's; "" where the application was never accepted.
    final_status: YARN's word: SUCCEEDED, FAILED, KILLED, UNDEFINED; "" as for id.
    diagnostics: YARN's reason.
    queue: where it ran. name, tags: what YARN's list shows.
    containers: container/stdout and container/stderr to what was written there; the driver's too in cluster mode.
    """

    status: int
    output: str
    id: str
    final_status: str
    diagnostics: str
    queue: str
    name: str
    tags: set[str]
    containers: dict[str, str]


class Submission:
    """spark-submit, started; it is killed with this process, in client mode with its driver."""

    def __init__(self, hadoop: HadoopCluster, process: Kept, tag: str) -> None:
        self._hadoop = hadoop
        self._process = process
        self._tag = tag

    def application(self) -> dict[str, Any] | None:
        """What the ResourceManager says of it now (id, state, finalStatus, ...); None while it knows nothing of it."""
        found = self._hadoop.rest(f"cluster/apps?applicationTags={self._tag}")["apps"] or {"app": []}
        return dict(found["app"][0]) if found["app"] else None

    def output(self) -> str:
        """What spark-submit has written so far."""
        return self._process.log.read_text(errors="replace")

    def stop(self) -> None:
        """Kill spark-submit with SIGKILL; an application in cluster mode goes on."""
        self._process.stop()

    def kill(self) -> None:
        """Kill spark-submit, and then the application, if YARN has it and it has not ended."""
        self.stop()
        found = self.application()
        if found is not None and found["state"] not in _ENDED:
            self._hadoop.rest(f"cluster/apps/{found['id']}/state", put={"state": "KILLED"})
            self._await_end()

    def finish(self, seconds: float = _FINISH_SECONDS) -> Application:
        """Wait for the end of both; raises TimeoutError with the end of spark-submit's output where it takes longer."""
        status = self._process.wait(seconds)
        found = self._await_end()
        return Application(
            status,
            self.output(),
            str(found.get("id", "")),
            str(found.get("finalStatus", "")),
            str(found.get("diagnostics", "")),
            str(found.get("queue", "")),
            str(found.get("name", "")),
            set(str(found.get("applicationTags", "")).split(",")),
            self._hadoop.container_logs(found["id"]) if found else {},
        )

    def _await_end(self) -> dict[str, Any]:
        """What YARN says of the application when it has ended; {} where it has never heard of it."""
        # A client may end before YARN has noticed: its application master goes by itself.
        self._hadoop.wait_for(
            "the application's end",
            lambda: (self.application() or {"state": "FINISHED"})["state"] in _ENDED,
            "resourcemanager",
        )
        return self.application() or {}


def submit(
    hadoop: HadoopCluster,
    script: str | Path,
    *arguments: str,
    mode: str = "cluster",
    executors: int = 2,
    settings: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
) -> Submission:
    """Start `spark-submit SCRIPT ARGUMENTS` on YARN, with this Python and checkout on driver and executors.

    mode: cluster or client: where the driver runs.
    executors: each has one core.
    settings: Spark's keys, over those below; spark.yarn.queue, spark.executor.memory, spark.submit.pyFiles, ...
    environment: variables for spark-submit, over those below; for containers see Spark's
        spark.yarn.appMasterEnv.* and spark.executorEnv.*.
    """
    tag = uuid.uuid4().hex
    spark = Path(pyspark.__file__).parent
    temporary = hadoop.folder / "tmp"
    java = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    local = f"{java} -Djava.io.tmpdir={temporary}"
    wanted = {
        "spark.yarn.tags": tag,
        # Not uploaded: 300 MB and 25 s for each application. The archive of tests/java.py fits class paths that begin
        # with the jars alone, and YARN's begin with a container's folder.
        "spark.yarn.jars": f"local:{spark}/jars/*",
        "spark.driver.extraClassPath": f"{spark}/jars/*",
        "spark.executor.extraClassPath": f"{spark}/jars/*",
        "spark.executor.instances": str(executors),
        "spark.executor.cores": "1",
        # The driver and four executors of this size, TensorFlow in the overhead, fit the NodeManager's 16 GB.
        "spark.driver.memory": "768m",
        "spark.driver.memoryOverhead": "1g",
        "spark.executor.memory": "768m",
        "spark.executor.memoryOverhead": "1g",
        "spark.yarn.am.memory": "512m",
        "spark.driver.extraJavaOptions": local if mode == "client" else java,
        "spark.executor.extraJavaOptions": java,
        "spark.yarn.am.extraJavaOptions": java,
        "spark.local.dir": str(temporary),  # the client's; containers have YARN's
        "spark.ui.enabled": "false",
        # How often the application master and spark-submit ask; by default every three seconds and every second.
        "spark.yarn.scheduler.heartbeat.interval-ms": "500",
        "spark.yarn.report.interval": "200ms",
        "spark.yarn.submit.waitAppCompletion": "true",
        **{
            f"spark.{where}.{key}": value
            for where in ("yarn.appMasterEnv", "executorEnv")
            for key, value in (("PYSPARK_PYTHON", sys.executable), ("SPARK_LOCAL_IP", "127.0.0.1"))
        },
        **(settings or {}),
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    variables = inherited | {
        "JAVA_HOME": hadoop.java_home,
        "HADOOP_CONF_DIR": str(hadoop.conf_dir),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(_ROOT),  # spark-submit hands it on to the containers
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": local,
        "TMPDIR": str(temporary),
        **(environment or {}),
    }
    command = [str(spark / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
    for key, value in wanted.items():
        command += ["--conf", f"{key}={value}"]
    log = hadoop.log(f"submit-{tag}")
    return Submission(hadoop, Kept(hadoop.folder, [*command, str(script), *arguments], log, variables), tag)


def explain(application: Application) -> str:
    """Why it may have failed, for an assertion's message: the ends of its output and of each container's."""
    logs = [f"--- {name}\n{text[-2000:]}" for name, text in application.containers.items()]
    head = f"{application.id} {application.final_status}: {application.diagnostics}"
    return "\n".join((head, application.output[-3000:], *logs))
