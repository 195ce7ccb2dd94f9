"""Turns facts into findings. All functions are pure, and tested without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sparksplit.operations.check.facts import Facts
from sparksplit.spark.settings.requirements import (
    TENSORFLOW_MEBIBYTES,
    Problem,
    comfort_problems,
    is_standalone,
    run_problems,
)

CLOCK_SECONDS = 5.0
"""Hosts whose clocks differ by more seconds are named.

Their logs cannot be read together, and tickets and tokens expire early or late. No result of a run depends on a clock.
"""

SAME_CODE = "ship the driver's own sparksplit.zip with --py-files (sparksplit package)"


def setting_findings(settings: Mapping[str, str], nodes: int, spare: int = 0) -> list[Problem]:
    """Return the findings from Spark's settings alone.

    settings: including `spark.master`. spare: number of executors that feed the nodes.
    """
    return [*run_problems(settings, nodes, spare), *comfort_problems(settings)]


def fact_findings(
    settings: Mapping[str, str],
    driver: Facts,
    executors: Sequence[Facts],
    nodes: int | None = None,
    spooled: Sequence[int] = (),
) -> list[Problem]:
    """Return the findings from the facts of the driver and the executors.

    nodes: number of nodes that are planned; None if each executor may be a node. spooled: bytes that each node will
    spool, by rank.
    """
    everyone = [driver, *executors]
    return [
        *_versions(driver, executors),
        *(Problem("path", f"{facts.who} on {facts.host}: {facts.folder}") for facts in everyone if facts.folder),
        *_owners(driver, executors),
        *_memory(settings, executors, nodes),
        *_disks(settings, executors, spooled),
        *_gpus(settings, executors),
        *_ports(everyone),
        *_clocks(executors),
    ]


def _versions(driver: Facts, executors: Sequence[Facts]) -> Iterator[Problem]:
    wrong: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for facts in executors:
        if _minor(facts.python) != _minor(driver.python):
            wrong["Python", driver.python, facts.python].append(facts.host)
        for name, version in driver.versions.items():
            installed = facts.versions.get(name)
            if version is not None and installed != version:
                wrong[name, version, installed or "missing"].append(facts.host)
    for (name, wanted, installed), hosts in wrong.items():
        remedy = (
            SAME_CODE
            if name == "sparksplit"
            else "install the same version there, or ship the environment (sparksplit package --environment)"
        )
        yield Problem(name, f"must be {wanted} as on the driver (is {installed} on {_names(hosts)}); {remedy}")


def _owners(driver: Facts, executors: Sequence[Facts]) -> Iterator[Problem]:
    others = {facts.writes_as: facts.host for facts in executors if facts.writes_as not in (None, driver.writes_as)}
    for user, host in others.items():
        yield Problem(
            "user",
            f"executors write as {user} (on {host}), the driver as {driver.writes_as}: give both the same"
            " HADOOP_USER_NAME, or a Kerberos ticket",
        )


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]


def _memory(settings: Mapping[str, str], executors: Sequence[Facts], nodes: int | None) -> Iterator[Problem]:
    """Yield the hosts with too little free memory for their nodes.

    It is unknown which nodes a host will get. Each executor of a host counts as a node, up to the number of nodes.

    On YARN, yield nothing: settings limit the containers.
    """
    if settings.get("spark.master") == "yarn":
        return
    for host, on_host in _by_host(executors).items():
        available = min(facts.available_mebibytes for facts in on_host)
        most = len(on_host) if nodes is None else min(len(on_host), nodes)
        if available < (needed := most * TENSORFLOW_MEBIBYTES):
            its = "node takes" if most == 1 else f"{most} nodes take"
            yield Problem("memory", f"{host} has {available} MiB left, and its {its} about {needed}: use fewer there")


def _disks(settings: Mapping[str, str], executors: Sequence[Facts], spooled: Sequence[int]) -> Iterator[Problem]:
    """Yield the disks with too little space for the rows that nodes spool.

    It is unknown which nodes a host will get. Each executor of a host counts as a node, up to the number of nodes, with
    the bytes of the largest node.
    """
    if not spooled:
        return
    each = -(-max(spooled) // 2**20)
    for host, on_host in _by_host(executors).items():
        folders = {folder: disk for facts in on_host for folder, disk in facts.disks.items()}
        devices = {device: (free, folder) for folder, (device, free) in folders.items()}
        nodes = min(len(on_host), len(spooled))
        on_each = -(-nodes // max(1, len(devices)))
        for free, folder in devices.values():
            if free < on_each * each:
                yield Problem(
                    _disk_key(settings),
                    f"{host}: {folder} is on a disk with {free} MiB free, and {on_each} of the nodes spool {each} MiB"
                    " each there (input_mode: spark); name larger disks, more of them, or use more hosts",
                )


def _disk_key(settings: Mapping[str, str]) -> str:
    """Return the setting that names an executor's local disks."""
    if settings.get("spark.master") == "yarn":
        return "yarn.nodemanager.local-dirs"
    return "SPARK_LOCAL_DIRS" if is_standalone(settings) else "spark.local.dir"


def _gpus(settings: Mapping[str, str], executors: Sequence[Facts]) -> Iterator[Problem]:
    if not settings.get("spark.task.resource.gpu.amount"):
        return
    for host, on_host in _by_host(executors).items():
        given = [gpu for facts in on_host for gpu in facts.gpus]
        if any(not facts.gpus for facts in on_host):
            yield Problem("spark.task.resource.gpu.amount", f"is set, but an executor on {host} was given no GPU")
        shared = sorted({gpu for gpu in given if given.count(gpu) > 1})
        if shared:
            yield Problem(
                "spark.executor.resource.gpu.discoveryScript",
                f"several executors on {host} were given GPU {', '.join(shared)}: have YARN isolate GPUs"
                " (LinuxContainerExecutor with cgroups), or run one executor per host",
            )


def _ports(everyone: Sequence[Facts]) -> Iterator[Problem]:
    for facts in everyone:
        for other, reason in facts.unreachable.items():
            yield Problem(
                "ports",
                f"{facts.who} on {facts.host} cannot reach {other} ({reason}): the hosts' firewalls must let"
                " driver and executors connect to each other on any unprivileged port",
            )


def _clocks(executors: Sequence[Facts]) -> Iterator[Problem]:
    for host, on_host in _by_host(executors).items():
        clocks = [facts.clock for facts in on_host if facts.clock is not None]
        worst = max(clocks, key=abs, default=0.0)
        if abs(worst) > CLOCK_SECONDS:
            side = "ahead of" if worst > 0 else "behind"
            yield Problem("clock", f"{host} is {abs(worst):.0f} s {side} the driver: set the hosts' clocks by NTP")


def _by_host(executors: Sequence[Facts]) -> dict[str, list[Facts]]:
    """Return the executors of each host, by its name. Addresses tell hosts with equal names apart, such as cloned
    machines."""
    hosts: dict[tuple[str, str], list[Facts]] = defaultdict(list)
    for facts in executors:
        hosts[facts.host, facts.address].append(facts)
    times = Counter(host for host, _ in hosts)
    return {host if times[host] == 1 else f"{host} ({address})": on_host for (host, address), on_host in hosts.items()}


def _names(hosts: Sequence[str]) -> str:
    unique = sorted(set(hosts))
    return ", ".join(unique[:3]) + (f" and {len(unique) - 3} more" if len(unique) > 3 else "")
