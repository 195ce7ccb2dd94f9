"""Leases, this process's and others', and a clock."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from hdfs_io import filesystem
from hdfs_io.lease import Holder, Lease

ELSEWHERE = Holder("other", "train", "node7", 4711, "another boot", 12345, "2026-01-02 03:04:05 UTC", 5)


class Time:
    """A clock that only waiting moves, and what happens then: {look: what}."""

    def __init__(self, **happens: object) -> None:
        self.now, self.looks = 0.0, 0
        self.happens = happens

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.looks += 1
        if action := self.happens.get(f"at{self.looks}"):
            action()  # type: ignore[operator]

    def clock(self) -> float:
        return self.now


def write(file: Path, holder: Holder, age: float = 0) -> None:
    file.write_text(json.dumps(asdict(holder)))
    then = file.stat().st_mtime - age
    os.utime(file, (then, then))


def mine(path: Path, time: Time | None = None) -> Lease:
    time = time or Time()
    return Lease(str(path / "out"), "train", time.pause, time.clock)


def seize(lease: Lease) -> None:
    """As if it had taken the lease over from whoever has it."""
    filesystem.write_bytes(lease.file, lease._next())
