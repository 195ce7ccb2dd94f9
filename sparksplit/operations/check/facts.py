"""Facts about one process: the driver, or an executor's Python."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Facts:
    """One process's facts. They are sent to the driver as JSON."""

    who: str
    """`driver`, or `executor N`"""
    host: str
    address: str
    """The process's address on the network that leads to the driver"""
    python: str
    """major.minor.patch"""
    versions: dict[str, str | None]
    """Versions of packages by name; None for a missing package"""
    available_mebibytes: int
    """Free memory of the host in MiB"""
    clock: float | None = None
    """Seconds that the host's clock is ahead of the driver's clock; None if they could not be measured"""
    folder: str | None = None
    """The problem with the folder; None without a problem, or if no folder was tested"""
    writes_as: str | None = None
    """The user that owns the process's test file in a folder on HDFS; None if the process wrote no file there"""
    unreachable: dict[str, str] = field(default_factory=dict)
    """The processes whose ports could not be reached, and the reasons"""
    gpus: list[str] = field(default_factory=list)
    """Addresses of the GPUs that Spark has assigned to the process's task"""
    disks: dict[str, list[int]] = field(default_factory=dict)
    """The process's local disks by folder: number of the device, and free space in MiB"""
    slot_of: str = ""
    """Equal for all task slots of one executor"""
