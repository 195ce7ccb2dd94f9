"""Check Spark's settings for what nodes need: pure functions, shared by `train`, `check` and sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparksplit.base.errors import ConfigError, RunError
from sparksplit.spark.settings.masters import addresses_of

YARN_EXECUTORS = 2
"""Spark's default of spark.executor.instances on YARN."""
TENSORFLOW_MEBIBYTES = 1024
"""MiB that an executor's container needs besides its JVM. Python, TensorFlow and a small model take 0.7 to 1 GB."""
RECOMMENDED_OVERHEAD = "1536m"

LEAST_MEBIBYTES = 450
"""MiB that Spark requires for the JVMs of the driver and the executors."""

_WHOLE = (
    "spark.executor.cores",
    "spark.task.cpus",
    "spark.executor.instances",
    "spark.cores.max",
    "spark.yarn.maxAppAttempts",
)
_SWITCHES = (
    "spark.dynamicAllocation.enabled",
    "spark.speculation",
    "spark.python.worker.reuse",
    "spark.authenticate",
)
_SIZES = {
    "spark.executor.memory": LEAST_MEBIBYTES,
    "spark.driver.memory": LEAST_MEBIBYTES,
    "spark.executor.memoryOverhead": 0,
}
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

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"

    def error(self) -> SettingError:
        """Return the exception for this problem."""
        return SettingError(self)


class SettingError(ConfigError):
    """A setting breaks the run. problem: its key, what is wrong and what to set."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class NoExecutors(RunError):
    """Spark has too few executors. problem: the key that asks for them, or that keeps them away, and the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def value_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Yield values that Spark could not read. Spark would end at its start, or take a minute, often without naming the
    key.
    """
    for key in _WHOLE:
        if key in settings and not re.fullmatch(r"0*[1-9]\d*", settings[key].strip()):
            yield Problem(key, f"must be a whole number above 0 (is {settings[key]})")
    for key in _SWITCHES:
        if key in settings and settings[key].strip().lower() not in ("true", "false"):
            yield Problem(key, f"must be true or false (is {settings[key]})")
    for key, least in _SIZES.items():
        if key not in settings:
            continue
        try:
            if mebibytes(settings[key], key) < least:
                yield Problem(key, f"must be at least {least}m, which Spark itself needs (is {settings[key]})")
        except SettingError as error:
            yield error.problem
    master = settings.get("spark.master", "")
    if master.startswith("spark://") and not addresses_of(master):
        yield Problem("spark.master", f"must be spark://HOST:PORT (is {master}); a master's default port is 7077")
    elif master and not re.match(r"yarn$|spark://|local($|\[)|local-cluster\[|k8s://", master):
        yield Problem("spark.master", f"must be yarn or spark://HOST:PORT (is {master})")


def readable(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` without the keys in value_problems, so that the rest can be checked."""
    wrong = {problem.key for problem in value_problems(settings)}
    return {key: value for key, value in settings.items() if key not in wrong}


def granted_cores(settings: Mapping[str, str]) -> int:
    """Return the cores that Spark grants to a task, and so to a node, which is one task.

    An executor has one task slot but may have more cores. On Spark standalone, without spark.executor.cores, it has all
    cores of its worker.
    """
    return int(settings.get("spark.task.cpus") or 1)


def has_executors(settings: Mapping[str, str]) -> bool:
    """Whether the master has executors. Spark's masters `local` and `local[N]` run all tasks in the driver's JVM."""
    return re.fullmatch(r"local(\[.*\])?", settings.get("spark.master", "")) is None


def is_standalone(settings: Mapping[str, str]) -> bool:
    """Whether the master is a Spark standalone master."""
    return settings.get("spark.master", "").startswith("spark://")


def most_executors(settings: Mapping[str, str]) -> int | None:
    """Return how many executors the settings allow; None if unknown."""
    if local := _LOCAL_CLUSTER.fullmatch(settings.get("spark.master", "")):
        return int(local[1])
    if is_standalone(settings):
        # Spark standalone does not look at spark.executor.instances.
        cores, most = settings.get("spark.executor.cores"), settings.get("spark.cores.max")
        return int(most) // int(cores) if cores and most else None
    given = settings.get("spark.executor.instances")
    return int(given) if given else YARN_EXECUTORS if settings.get("spark.master") == "yarn" else None


def master_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Yield masters and settings under which no node can run, for any number of nodes.

    settings: Spark's configuration, including `spark.master`.
    """
    master = settings.get("spark.master", "")
    if not has_executors(settings):
        yield Problem(
            "spark.master",
            f"{master} runs everything in one process, and every node needs an executor of its own (only `train` does"
            " without): use local-cluster[2,1,1024] (executors, cores, MiB), yarn or spark://..., or start with"
            " `sparksplit`, which starts a local cluster if no master is set",
        )
    for key, why in (
        ("spark.dynamicAllocation.enabled", "when Spark removes an executor, its node ends"),
        ("spark.speculation", "Spark would start a node twice"),
    ):
        if is_on(settings, key, "false"):
            yield Problem(key, f"must be false (is true): {why}")


def start_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Yield problems for any number of nodes that can be found before Spark starts."""
    yield from value_problems(settings)
    settings = readable(settings)
    yield from master_problems(settings)
    yield from standalone_problems(settings)
    master = settings.get("spark.master", "")
    local = _LOCAL_CLUSTER.fullmatch(master)
    cores = settings.get("spark.executor.cores") or (local[2] if local else "1" if master == "yarn" else None)
    own_cores = "spark.executor.cores" in settings or "spark.task.cpus" in settings
    if local and not own_cores and int(local[2]) > 1:
        wanted = int(local[1]) * int(local[2])
        text = (
            f"{master} is {_counted(local[1], 'executor')} of {local[2]} cores, so {local[2]} task slots each, and an "
            f"executor must have one task slot; use local-cluster[{wanted},1,{local[3]}]: {wanted} executors of 1 core"
        )
        yield Problem("spark.master", text)
    elif cores is not None:
        yield from slot_problems(int(cores) // int(settings.get("spark.task.cpus", "1")), int(cores))
    yield from gpu_problems(settings)


def _counted(number: str, what: str) -> str:
    return f"{number} {what}" if number == "1" else f"{number} {what}s"


def standalone_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Yield settings under which no command, with or without nodes, ever gets an executor on Spark standalone."""
    settings = readable(settings)
    if not is_standalone(settings):
        return
    if settings.get("spark.submit.deployMode") == "cluster":
        text = "must be client (is cluster): Spark standalone runs no Python driver on its workers"
        yield Problem("spark.submit.deployMode", text)
    if most_executors(settings) == 0:
        cores, most = settings["spark.executor.cores"], settings["spark.cores.max"]
        text = f"must be at least {cores}, the value of spark.executor.cores, or no executor starts (is {most})"
        yield Problem("spark.cores.max", text)


def run_problems(settings: Mapping[str, str], nodes: int, spare: int = 0) -> Iterator[Problem]:
    """Yield problems of a run of `nodes` nodes; certain and general problems come first.

    spare: executors needed in addition to the nodes.
    """
    yield from start_problems(settings)
    settings = readable(settings)
    local = _LOCAL_CLUSTER.fullmatch(settings.get("spark.master", ""))
    most, needed = most_executors(settings), nodes + spare
    if most is not None and most < needed:
        key, wanted = "spark.executor.instances", str(needed)
        if local:
            key, wanted = "spark.master", f"local-cluster[{needed},{local[2]},{local[3]}]"
        elif is_standalone(settings):
            key, wanted = "spark.cores.max", str(needed * int(settings["spark.executor.cores"]))
        text = f"{need(nodes, spare)}, and the settings allow {most}; set fewer nodes, or set {key} to {wanted}"
        yield Problem("nodes", text)


def slot_problems(slots: int, cores: int | None = None) -> Iterator[Problem]:
    """Yield a problem unless an executor has one task slot. With two slots, two nodes could share one executor and its
    GPU.

    cores: spark.executor.cores; None if it is not set, and the executors themselves have reported their slots.
    """
    if slots == 1:
        return
    if cores is None:
        yield Problem(
            "spark.executor.cores",
            f"is not set, so an executor takes all cores of its worker and has {slots} task slots, but must have one."
            " Set spark.executor.cores and spark.task.cpus to the cores of a node",
        )
    elif slots == 0:
        text = f"must not be below spark.task.cpus (is {cores}); set both to the cores of a node"
        yield Problem("spark.executor.cores", text)
    else:
        yield Problem(
            "spark.task.cpus",
            f"an executor must have one task slot (has {slots}); set it to {cores}, the value of spark.executor.cores",
        )


def why_few(settings: Mapping[str, str], executors: int) -> str:
    """Return advice if Spark has had too few executors, and none was lost."""
    cores, memory = settings.get("spark.executor.cores", "?"), settings.get("spark.executor.memory", "1g")
    cores += " core" if cores == "1" else " cores"
    if is_standalone(settings):
        free = f"{cores} and {memory} (spark.executor.cores, spark.executor.memory)"
        if executors:
            return f"check that the other workers have {free} free, and that spark.cores.max is high enough"
        host = settings.get("spark.driver.host", "the driver")
        return (
            f"check that a worker has {free} free and reaches {host} (spark.driver.host). In a worker's work folder,"
            f" {settings.get('spark.app.id', 'APPLICATION')}/*/stderr says why an executor ended"
        )
    if settings.get("spark.master") == "yarn":
        return (
            f"check that the queue has room, and that one container may have {cores} and {memory} +"
            f" {overhead_mebibytes(settings)}m (spark.executor.cores, memory and memoryOverhead)"
        )
    return "the cluster may be busy"


def gpu_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Yield GPU keys that are missing beside others, or that do not give each node exactly one GPU."""
    given = [key for key, _ in _GPU_KEYS if settings.get(key)]
    standalone = is_standalone(settings)
    for key, value in _GPU_KEYS if given else ():
        if not settings.get(key):
            # A standalone worker discovers its GPUs itself.
            if not (standalone and key.endswith("discoveryScript")):
                yield Problem(key, f"is not set, but {given[0]} is; set it to {value}")
        elif key.endswith("amount") and settings[key].strip() not in ("1", "1.0"):
            yield Problem(
                key, f"must be 1, since each node uses one GPU (is {settings[key]}); for more GPUs, use more executors"
            )


def comfort_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Yield problems that a run may survive, such as scarce memory or Python workers that restart. Only `check` reports
    them.
    """
    settings = readable(settings)
    if not is_on(settings, "spark.python.worker.reuse", "true"):
        why = "without it, predict loads its model for every task instead of once per Python worker"
        yield Problem("spark.python.worker.reuse", f"must be true (is false): {why}")
    if settings.get("spark.executor.pyspark.memory"):
        yield Problem(
            "spark.executor.pyspark.memory",
            f"must not be set (is {settings['spark.executor.pyspark.memory']}): it limits the address space, and"
            " TensorFlow reserves three times the memory that it uses. Set spark.executor.memoryOverhead instead",
        )
    if is_standalone(settings) and "spark.executor.instances" in settings and "spark.cores.max" not in settings:
        cores = settings.get("spark.executor.cores", "the cores of a worker")
        yield Problem(
            "spark.executor.instances",
            "has no effect on Spark standalone, where an application takes all free cores. Set"
            f" spark.cores.max to {settings['spark.executor.instances']} x {cores} instead",
        )
    if settings.get("spark.master", "") == "yarn":
        overhead = overhead_mebibytes(settings)
        if overhead < TENSORFLOW_MEBIBYTES:
            yield Problem(
                "spark.executor.memoryOverhead",
                f"must be at least {TENSORFLOW_MEBIBYTES}m for Python and TensorFlow (is {overhead}m);"
                f" set it to {RECOMMENDED_OVERHEAD} or more, or YARN kills the executors",
            )
        attempts = settings.get("spark.yarn.maxAppAttempts")
        in_cluster = settings.get("spark.submit.deployMode") == "cluster"  # YARN restarts a driver only in this mode
        if in_cluster and (attempts is None or int(attempts) > 1):
            yield Problem(
                "spark.yarn.maxAppAttempts",
                f"must be 1 (is {attempts or 'not set: the cluster decides'}): a second attempt would find the"
                " unfinished output of the first",
            )


def overhead_mebibytes(settings: Mapping[str, str]) -> int:
    """Return the MiB of an executor's container besides its JVM's heap."""
    given = settings.get("spark.executor.memoryOverhead")
    if given is not None:
        return mebibytes(given, "spark.executor.memoryOverhead")
    memory = mebibytes(settings.get("spark.executor.memory", "1g"), "spark.executor.memory")
    factor = float(settings.get("spark.executor.memoryOverheadFactor", "0.1"))
    least = mebibytes(settings.get("spark.executor.minMemoryOverhead", "384m"), "spark.executor.minMemoryOverhead")
    return max(least, int(memory * factor))


def mebibytes(size: str, key: str) -> int:
    """Turn Spark's size with a unit ("1g", "512m"; MiB without a unit) into MiB. Raise ConfigError that names `key`."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", size.strip().lower())
    if match is None:
        raise Problem(key, f'must be a size such as 1024m or 2g (is "{size}")').error()
    kibibytes = int(match[1]) * {"k": 1, "m": 1024, "": 1024, "g": 1024**2, "t": 1024**3}[match[2]]
    return max(1, kibibytes // 1024)


def need(nodes: int, spare: int) -> str:
    """Return in words how many executors are needed."""
    feeding = f" ({spare} to feed them)" if spare else ""
    return f"{nodes} nodes need {nodes + spare} executors{feeding}"


def raise_first(problems: Iterator[Problem]) -> None:
    """Raise SettingError for the first of `problems`, if there is one."""
    for problem in problems:
        raise problem.error()


def is_on(settings: Mapping[str, str], key: str, default: str) -> bool:
    """Whether a true-or-false setting is true."""
    return settings.get(key, default).strip().lower() == "true"
