"""What Spark's settings must be for nodes to run: pure functions, one judge for `train`, `check` and sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparksplit.base.errors import ConfigError

YARN_EXECUTORS = 2
"""Spark's default of spark.executor.instances on YARN."""
TENSORFLOW_MEBIBYTES = 1024
"""What an executor's container needs in addition to its JVM: Python, TensorFlow and a small model take 0.7 to 1 GB."""
RECOMMENDED_OVERHEAD = "1536m"

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*]")
_GPU_KEYS = (
    ("spark.executor.resource.gpu.amount", "1"),
    ("spark.task.resource.gpu.amount", "1"),
    ("spark.executor.resource.gpu.discoveryScript", "./gpu-discovery.sh, with --files conf/gpu-discovery.sh"),
)


@dataclass(frozen=True)
class Problem:
    """A setting that breaks a run. key: Spark's key, or `nodes`. text: what is wrong and what to set."""

    key: str
    text: str

    def error(self) -> ConfigError:
        """The exception for it."""
        return ConfigError(f"{self.key}: {self.text}")


def master_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """What no node can run under, however many nodes there are.

    settings: Spark's configuration, `spark.master` included.
    """
    master = settings.get("spark.master", "")
    if re.fullmatch(r"local(\[.*\])?", master):
        yield Problem(
            "spark.master",
            f"{master} runs everything in one process, and every node needs an executor of its own:"
            " use local-cluster[2,1,1024] (executors, cores, MiB), yarn or spark://..., or start with `sparksplit`,"
            " which brings a local cluster when no master is set",
        )
    for key, why in (
        ("spark.dynamicAllocation.enabled", "an executor that Spark takes away ends its node"),
        ("spark.speculation", "a node that Spark starts twice joins twice"),
    ):
        if _is_on(settings, key, "false"):
            yield Problem(key, f"must be false (is true): {why}")


def start_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong however many nodes there are, and can be seen before Spark starts, or fails to start."""
    yield from master_problems(settings)
    master = settings.get("spark.master", "")
    local = _LOCAL_CLUSTER.fullmatch(master)
    cores = settings.get("spark.executor.cores") or (local[2] if local else "1" if master == "yarn" else None)
    if cores is not None:
        yield from slot_problems(int(cores) // int(settings.get("spark.task.cpus", "1")), int(cores))
    yield from gpu_problems(settings)


def run_problems(settings: Mapping[str, str], nodes: int, spare: int = 0) -> Iterator[Problem]:
    """What breaks a run of `nodes` nodes, with the certain and general problems first.

    spare: executors needed in addition to the nodes'.
    """
    yield from start_problems(settings)
    master = settings.get("spark.master", "")
    local = _LOCAL_CLUSTER.fullmatch(master)
    most = local[1] if local else settings.get("spark.executor.instances")
    if most is None and master == "yarn":
        most = str(YARN_EXECUTORS)
    needed = nodes + spare
    if most is not None and int(most) < needed:
        key = "spark.master" if local else "spark.executor.instances"
        wanted = f"local-cluster[{needed},{local[2]},{local[3]}]" if local else str(needed)
        text = f"{need(nodes, spare)} and there are {most}; set fewer nodes, or {key} to {wanted}"
        yield Problem("nodes", text)


def slot_problems(slots: int, cores: int | None = None) -> Iterator[Problem]:
    """One node per executor: with two task slots, two nodes could land on one executor and share its GPU."""
    if slots != 1:
        cores = slots if cores is None else cores
        yield Problem(
            "spark.task.cpus",
            f"an executor must have one task slot (has {slots}); set it to {cores}, the value of spark.executor.cores",
        )


def gpu_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """GPU keys of which some are missing, or that do not give each node exactly one GPU of its own."""
    given = [key for key, _ in _GPU_KEYS if settings.get(key)]
    standalone = settings.get("spark.master", "").startswith("spark://")
    for key, value in _GPU_KEYS if given else ():
        if not settings.get(key):
            # A standalone worker discovers its GPUs itself.
            if not (standalone and key.endswith("discoveryScript")):
                yield Problem(key, f"is missing, and {given[0]} is set: set it to {value}")
        elif key.endswith("amount") and settings[key].strip() not in ("1", "1.0"):
            yield Problem(key, f"must be 1, a GPU of its own for each node (is {settings[key]}); use more executors")


def comfort_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """What a run may survive, and only `check` mentions: memory that may run short, workers that start anew."""
    if not _is_on(settings, "spark.python.worker.reuse", "true"):
        why = "predict loads its model once per Python worker, and without reuse once per task"
        yield Problem("spark.python.worker.reuse", f"must be true (is false): {why}")
    if settings.get("spark.executor.pyspark.memory"):
        yield Problem(
            "spark.executor.pyspark.memory",
            f"must not be set (is {settings['spark.executor.pyspark.memory']}): it limits the address space, of which"
            " TensorFlow takes three times its memory; spark.executor.memoryOverhead counts instead",
        )
    if settings.get("spark.master", "") == "yarn":
        overhead = overhead_mebibytes(settings)
        if overhead < TENSORFLOW_MEBIBYTES:
            yield Problem(
                "spark.executor.memoryOverhead",
                f"must be at least {TENSORFLOW_MEBIBYTES}m for the Python and TensorFlow in it (is {overhead}m);"
                f" set it to {RECOMMENDED_OVERHEAD} or more, or YARN kills the executors",
            )
        attempts = settings.get("spark.yarn.maxAppAttempts")
        in_cluster = settings.get("spark.submit.deployMode") == "cluster"  # elsewhere YARN cannot restart the driver
        if in_cluster and (attempts is None or int(attempts) > 1):
            yield Problem(
                "spark.yarn.maxAppAttempts",
                f"must be 1 (is {attempts or 'not set: the cluster decides'}): a second attempt meets the first one's"
                " unfinished output",
            )


def overhead_mebibytes(settings: Mapping[str, str]) -> int:
    """MiB that an executor's container has in addition to its JVM's heap."""
    given = settings.get("spark.executor.memoryOverhead")
    if given is not None:
        return mebibytes(given, "spark.executor.memoryOverhead")
    memory = mebibytes(settings.get("spark.executor.memory", "1g"), "spark.executor.memory")
    factor = float(settings.get("spark.executor.memoryOverheadFactor", "0.1"))
    least = mebibytes(settings.get("spark.executor.minMemoryOverhead", "384m"), "spark.executor.minMemoryOverhead")
    return max(least, int(memory * factor))


def mebibytes(size: str, key: str) -> int:
    """Spark's size with a unit ("1g", "512m"; MiB without one) in MiB. Raises ConfigError that names `key`."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", size.strip().lower())
    if match is None:
        raise ConfigError(f'{key}: must be a size such as 1024m or 2g (is "{size}")')
    kibibytes = int(match[1]) * {"k": 1, "m": 1024, "": 1024, "g": 1024**2, "t": 1024**3}[match[2]]
    return max(1, kibibytes // 1024)


def need(nodes: int, spare: int) -> str:
    """How many executors are needed, in words."""
    feeding = f" ({spare} to feed them)" if spare else ""
    return f"{nodes} nodes need {nodes + spare} executors{feeding}"


def raise_first(problems: Iterator[Problem]) -> None:
    """Raise ConfigError for the first of `problems`, if there is one."""
    for problem in problems:
        raise problem.error()


def _is_on(settings: Mapping[str, str], key: str, default: str) -> bool:
    return settings.get(key, default).strip().lower() == "true"
