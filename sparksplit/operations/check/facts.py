"""What is known of one process: the driver, or an executor's Python."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Facts:
    """One process. It travels to the driver as JSON."""

    who: str
    """`driver`, or `executor N`"""
    host: str
    address: str
    """Its own, on the network that leads to the driver"""
    python: str
    """major.minor.patch"""
    versions: dict[str, str | None]
    """Of packages by name; None where one is missing"""
    available_mebibytes: int
    """Free memory of the host"""
    clock: float | None = None
    """Seconds that the host's clock is ahead of the driver's; None where that could not be measured"""
    folder: str | None = None
    """What is wrong with the folder; None where nothing is, or none was asked about"""
    unreachable: dict[str, str] = field(default_factory=dict)
    """Which other processes' ports could not be reached, and why"""
    gpus: list[str] = field(default_factory=list)
    """Addresses of the GPUs that Spark has assigned to its task"""
    slot_of: str = ""
    """The same for all task slots of one executor"""
