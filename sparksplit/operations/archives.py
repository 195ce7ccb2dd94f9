"""The archives that spark-submit takes: this package as a .zip, and a Python environment as a .tar.gz.

The environment's archive is the environment without what a cluster does not need (unused.py). Its interpreter is a
link to the base installation's, with pyvenv.cfg beside it, so it works wherever it is unpacked on a host that has that
base installation. venv-pack would also rewrite the paths in the environment's scripts, which nothing here calls; it has
had no release since 2018.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from isal import igzip

from hdfs_io.errors import using
from sparksplit.base.errors import UsageError
from sparksplit.base.shipped import FOLDER, shipped, shipped_names
from sparksplit.base.version import __version__
from sparksplit.operations.unused import unused

PACKAGES = ("sparksplit", "hdfs_io")
ZIP = "sparksplit.zip"
ENVIRONMENT = "environment.tar.gz"
STAMP = "environment.txt"
"""Says what the environment's archive was made from; written after it."""

_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a .zip can hold
_LEVEL = 3  # of igzip: 35 % of TensorFlow's libraries are left, as after level 1 of zlib's in four times the time
_BUFFER = 1 << 20  # bytes read, compressed and written at a time
_LEFT_OUT = ("_editable_impl_", "__editable__")  # links of `pip install -e` into a checkout that other hosts lack


def project_zip() -> bytes:
    """The project's packages as a .zip for --py-files; the same content gives the same bytes.

    Its comment is the version.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.comment = f"sparksplit {__version__}".encode()
        for name, file in sorted(_modules()):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return content.getvalue()


def _modules() -> Iterator[tuple[str, Path]]:
    """(name in the archive, file) of everything that executors import."""
    root = Path(__file__).resolve().parent.parent.parent
    for package in PACKAGES:
        for pattern in ("*.py", "*.jinja"):
            for file in (root / package).rglob(pattern):
                name = str(file.relative_to(root))
                if not name.startswith(f"{FOLDER}/"):  # in an installed package; the files that are needed come below
                    yield name, file
    for folder in ("conf", "models"):
        for file in beside(folder):
            yield f"{FOLDER}/{folder}/{file.name}", file


def beside(folder: str) -> list[Path]:
    """The files of conf, jobs or models, sorted. Raises UsageError if they are inside a .zip themselves."""
    files = [Path(shipped(f"{folder}/{name}")) for name in shipped_names(folder)]
    if not all(file.is_file() for file in files):
        raise UsageError("package: sparksplit was imported from a .zip; run the one of an environment or a checkout")
    return files


def publish(path: Path, content: bytes, executable: bool = False) -> bool:
    """Make `path` hold `content`, by rename; False if it already did."""
    if path.is_file() and path.read_bytes() == content:
        return False
    with _appearing(path) as file:
        file.write(content)
        if executable:
            os.fchmod(file.fileno(), 0o755)
    return True


def environment_digest(prefix: Path) -> str:
    """A hash of the environment's files: of their names, sizes and times, without reading them.

    Compiled files do not count, since Python adds them while the environment is in use.
    """
    digest = hashlib.sha256()
    for name, file in environment_files(prefix):
        if name.endswith(".pyc"):
            continue
        status = file.lstat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def pack_environment(prefix: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """Write the virtual environment `prefix` to `target` (.tar.gz), which appears by rename.

    progress: called with the bytes packed so far and the bytes of all files.
    """
    files = list(environment_files(prefix))
    total = sum(file.lstat().st_size for _, file in files)
    packed = 0
    with (
        _appearing(target) as raw,
        igzip.IGzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as zipped,  # type: ignore[no-untyped-call]
        tarfile.TarFile(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT, copybufsize=_BUFFER) as archive,
    ):
        for name, file in files:
            # Times are kept, because Python compares them with those in its compiled files.
            archive.add(file, name, recursive=False, filter=_nobodys)
            packed += file.lstat().st_size
            progress(packed, total)


def base_interpreter() -> str:
    """The interpreter that an unpacked environment needs, at this path on every host."""
    return str(Path(sys.base_prefix) / "bin")


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def environment_files(prefix: Path) -> Iterator[tuple[str, Path]]:
    """(name in the archive, file or link) in a fixed order. Raises UsageError if `prefix` is no virtual environment."""
    if not (prefix / "pyvenv.cfg").is_file():
        raise UsageError(
            f"environment: {prefix} is not a virtual environment, and only these can be packed. Install "
            "sparksplit in one"
            " (python3.11 -m venv), and run its own `sparksplit package`"
        )
    is_unused = unused(prefix)
    for folder, folders, names in os.walk(prefix):
        folders.sort()
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in sorted([*names, *links]):
            file = Path(folder) / name
            place = str(file.relative_to(prefix))
            if not name.startswith(_LEFT_OUT) and not _is_loop(file) and not is_unused(place):
                yield place, file


def _is_loop(file: Path) -> bool:
    """Whether `file` is a link to a folder that contains it: YARN starts no container over such a link."""
    return file.is_symlink() and file.parent.resolve().is_relative_to(file.resolve())


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the name `path` when it is complete."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with using(str(path), "cannot be written"):
            with temporary.open("wb") as file:
                yield file
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
