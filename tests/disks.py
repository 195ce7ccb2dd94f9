"""Disks that are too small, for tests of what happens when one is full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, kibibytes: int = 64) -> Iterator[Path]:
    """A file system of so many KiB at `folder`; skips the test, and says so, where none may be mounted."""
    folder.mkdir(exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: a full disk needs the right to mount a tmpfs ({mounted.stderr.strip()})")
    try:
        yield folder
    finally:
        # Lazily: a mapped file may still be in use.
        subprocess.run(["umount", "-l", str(folder)], check=True)


def make_read_only(disk: Path) -> None:
    """As the kernel does with a disk that fails (errors=remount-ro)."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
