"""The facts that a node's measurements depend on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparksplit.diagnosis.measured import Facts
from sparksplit.diagnosis.node.rig import Rig

if TYPE_CHECKING:
    from sparksplit.cluster import Member


def facts(member: Member, rig: Rig, sync_bytes: int) -> Facts:
    """Return the facts of all nodes together. Every node must call this function."""
    import tensorflow as tf

    node_facts = {
        "host": member.host,
        "free": free_bytes(),
        "cores": len(os.sched_getaffinity(0)),
        "devices": [device.name for device in tf.config.list_logical_devices("GPU")] or ["CPU"],
        "sync": sync_bytes,
    }
    by_rank: list[dict[str, Any]] = member.gather("facts", node_facts)
    hosts: list[str] = [each["host"] for each in by_rank]
    return Facts(
        nodes=member.size,
        rows=rig.process.data.manifest.splits["train"].rows,
        row_bytes=rig.row_bytes,
        own_rows=rig.own_rows,
        kept=rig.kept,
        first_reading=rig.first_reading,
        free_mb=min(each["free"] // hosts.count(each["host"]) for each in by_rank) >> 20,
        cores=min(each["cores"] for each in by_rank),
        threads=rig.process.payload.threads,
        devices=by_rank[0]["devices"],
        sync_bytes=max(each["sync"] for each in by_rank),
        held_out_bytes=rig.held_out_bytes,
        hosts=hosts,
        model_bytes=sum(variable.numpy().nbytes for variable in rig.process.model.variables),
    )


def free_bytes() -> int:
    """Return the bytes of memory that this host or this process's control group has left, whichever is less; 0 if
    unknown."""
    left = []
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        left.append(next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError):
        group = next(
            line.split(":", 2)[2]
            for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
            if line.startswith("0::")
        )
        folder = Path("/sys/fs/cgroup") / group.lstrip("/")
        limit, used = ((folder / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
        if limit != "max":
            left.append(max(0, int(limit) - int(used)))
    return min(left, default=0)
