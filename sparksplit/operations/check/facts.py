"""What is known about one process: the driver, or an executor's Python."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Facts:
    """One process's facts. They are sent to the driver as JSON."""

    who: str
    """`driver`, or `executor N`"""
    host: str
    address: str
    """Its own address, on the network that leads to the driver"""
    python: str
    """major.minor.patch"""
    versions: dict[str, str | None]
    """Versions of packages by name; None for a missing package"""
    available_mebibytes: int
    """Free memory of the host"""
    clock: float | None = None
    """How many seconds the host's clock is ahead of the driver's; None if that could not be measured"""
    folder: str | None = None
    """What is wrong with the folder; None if nothing is, or none was asked about"""
    writes_as: str | None = None
    """The user whose is what it has written into a folder on HDFS; None if it has not"""
    unreachable: dict[str, str] = field(default_factory=dict)
    """Which other processes' ports could not be reached, and why"""
    gpus: list[str] = field(default_factory=list)
    """Addresses of the GPUs that Spark has assigned to its task"""
    disks: dict[str, list[int]] = field(default_factory=dict)
    """Its local disks by folder: the device's number, and how many MiB are free"""
    slot_of: str = ""
    """Equal for all task slots of one executor"""
