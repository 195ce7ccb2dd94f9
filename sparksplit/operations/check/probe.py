"""Collects facts about a process and its connections to other processes, on the driver and in every executor."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
import platform
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pyarrow import fs

from hdfs_io import filesystem
from sparksplit.base.own_folders import temporary_folder
from sparksplit.base.shipped import FOLDER
from sparksplit.base.version import __version__
from sparksplit.network.listening import own_address_towards
from sparksplit.operations.check.facts import Facts

PACKAGES = (
    "tensorflow",
    "keras",
    "tensorflowonspark",
    "pyarrow",
    "numpy",
    "pandas",
    "pydantic",
    "PyYAML",
    "hdfs-native",
)
REACH_SECONDS = 5.0

Address = tuple[str, int]


@dataclass(frozen=True)
class Probe:
    """The questions to every executor.

    driver: address of the driver's port. folder: folder to test. file: file that the driver has left in the folder.
    """

    driver: Address
    folder: str | None
    file: str | None

    def __call__(self, _: Iterable[Any]) -> Iterator[str]:
        """Run one task of a barrier stage, and yield its facts as JSON."""
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        who = f"executor {context.partitionId()}"
        address = own_address_towards(self.driver)
        with port(address) as open_port:
            everyone = [json.loads(text) for text in context.allGather(json.dumps([who, *open_port]))]
            unreachable, clock = {}, None
            for other, host, number in [["driver", *self.driver], *everyone]:
                if other == who:
                    continue
                try:
                    ahead = reach((host, number))
                except OSError as error:
                    unreachable[f"{other} at {host}:{number}"] = str(error)
                    continue
                clock = ahead if other == "driver" else clock
            # Keep the port open until all processes have tried it.
            context.barrier()
        gpu = context.resources().get("gpu")
        tried = Tried(None) if self.folder is None else try_folder(self.folder, self.file)
        yield json.dumps(
            asdict(
                Facts(
                    who,
                    folder=tried.wrong,
                    writes_as=tried.owner,
                    unreachable=unreachable,
                    clock=None if clock is None else round(-clock, 3),
                    gpus=list(gpu.addresses) if gpu is not None else [],
                    disks=local_disks(),
                    # The parent process is Spark's Python daemon. There is one in each executor.
                    slot_of=f"{address} {os.getppid()}",
                    **own_facts(address),
                )
            )
        )


def own_facts(address: str) -> dict[str, Any]:
    """Return the fields of Facts that a process can find by itself."""
    import pyspark

    versions: dict[str, str | None] = {"sparksplit": own_version(), "pyspark": pyspark.__version__}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "host": socket.gethostname(),
        "address": address,
        "python": platform.python_version(),
        "versions": versions,
        "available_mebibytes": _available_mebibytes(),
    }


def own_version() -> str:
    """Return the version of sparksplit, and a digest of its code.

    An archive from before a change of the code has the same version number.
    """
    digest = hashlib.sha256()
    for package in ("hdfs_io", "sparksplit"):
        for name, content in sorted(_modules(importlib.resources.files(package), package)):
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{__version__} (code {digest.hexdigest()[:8]})"


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of a package's modules, also if the package was imported from a .zip.

    Leave out the files that are shipped with the package, because a checkout has these files elsewhere.
    """
    for entry in folder.iterdir():
        if entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry.read_bytes()
        elif entry.is_dir() and f"{name}/{entry.name}" != FOLDER:
            yield from _modules(entry, f"{name}/{entry.name}")


def local_disks() -> dict[str, list[int]]:
    """Return `Facts.disks` of an executor's Python: the disks on which nodes spool rows (cluster/launcher.py)."""
    disks = {}
    for folder in (os.environ.get("SPARK_LOCAL_DIRS") or str(temporary_folder())).split(","):
        there = next(path for path in (Path(folder), *Path(folder).parents) if path.exists())
        disks[folder] = [there.stat().st_dev, shutil.disk_usage(there).free // 2**20]
    return disks


@dataclass(frozen=True)
class Tried:
    """The result of writing and reading a small file.

    wrong: the problem; None without a problem. owner: on HDFS, the user that owned the file.
    """

    wrong: str | None
    owner: str | None = None


def try_folder(folder: str, file: str | None = None) -> Tried:
    """Write a small file into `folder`, read the file back, and remove the file.

    file: another process's file, which must exist. If the file is missing, `folder` is another folder in this process.
    """
    content = uuid.uuid4().hex.encode()
    path = filesystem.join(folder, f".sparksplit-check-{content.decode()[:8]}")
    try:
        if not filesystem.is_folder(folder):
            there = filesystem.exists(folder)
            return Tried(f"{folder} is not a folder" if there else f"{folder} does not exist; create this folder first")
        if file is not None and not filesystem.exists(file):
            return Tried(
                f"{folder} is not the same folder as on the driver; use HDFS, or a folder that all hosts mount"
            )
        filesystem.write_bytes(path, content)
        try:
            if filesystem.read_bytes(path) != content:
                return Tried(f"{path} has other content when it is read back")
            return Tried(None, _owner(path))
        finally:
            filesystem.remove(path)
    except Exception as error:  # any error of a file system is a finding
        return Tried(" ".join(str(error).split()) or type(error).__name__)


def _owner(path: str) -> str | None:
    system, inner = filesystem.resolve(path)
    return None if isinstance(system, fs.LocalFileSystem) else str(system.handler.owner(inner))


@contextmanager
def port(address: str) -> Iterator[Address]:
    """Open a port on `address` that sends the host's time to every connection."""
    with socket.create_server((address, 0), backlog=128) as server:
        closing = threading.Event()

        def answer() -> None:
            while not closing.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(f"{time.time()!r}\n".encode())

        thread = threading.Thread(target=answer, name="check-port", daemon=True)
        thread.start()
        try:
            yield server.getsockname()[:2]
        finally:
            closing.set()
            # Closing alone would not end `accept`.
            server.shutdown(socket.SHUT_RDWR)
            thread.join(1)


def reach(address: Address) -> float:
    """Return the seconds that the clock behind `address` is ahead of this host's clock.

    Raise OSError if `address` does not answer in time.
    """
    before = time.time()
    with socket.create_connection(address, REACH_SECONDS) as connection, connection.makefile("rb") as file:
        text = file.readline(64)
    after = time.time()
    if not text:
        raise OSError("the connection was closed without an answer")
    return float(text) - (before + after) / 2


def _available_mebibytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) // 1024
    return 0
