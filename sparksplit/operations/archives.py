"""The archives for spark-submit: this package as a .zip, and a Python environment as a .tar.gz.

The environment's archive leaves out files that no cluster needs (unused.py). Its interpreter is a link to the
interpreter of the base installation, with pyvenv.cfg beside the link. The environment therefore works in any folder of
a host that has this base installation. venv-pack would also rewrite the paths in the environment's scripts, but nothing
here calls these scripts. venv-pack has had no release since 2018.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

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
"""Name of the file that records the content of the environment's archive. It is written after the archive."""

_DATE = (1980, 1, 1, 0, 0, 0)  # earliest date that a .zip can hold
_LEVEL = 3  # igzip's: shrinks TensorFlow's libraries to 35 %, as zlib's level 1 does in four times the time
_BUFFER = 1 << 20  # bytes read, compressed and written at a time
_OWN_LINK = "_editable_impl_sparksplit."  # of `pip install -e` into a checkout: the .zip has the modules


def project_zip() -> bytes:
    """Return the project's packages as a .zip for --py-files. Equal content gives equal bytes.

    The archive's comment holds the version.
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
    """Yield (name in the archive, file) of the packages' modules and templates, and of the files in conf and models."""
    root = Path(__file__).resolve().parent.parent.parent
    for package in PACKAGES:
        for pattern in ("*.py", "*.jinja"):
            for file in (root / package).rglob(pattern):
                name = str(file.relative_to(root))
                if not name.startswith(f"{FOLDER}/"):  # only in an installed package; added below
                    yield name, file
    for folder in ("conf", "models"):
        for file in beside(folder):
            yield f"{FOLDER}/{folder}/{file.name}", file


def beside(folder: str) -> list[Path]:
    """Return the files of conf, jobs or models, sorted. Raise UsageError if sparksplit was imported from a .zip."""
    files = [Path(shipped(f"{folder}/{name}")) for name in shipped_names(folder)]
    if not all(file.is_file() for file in files):
        raise UsageError("package: sparksplit was imported from a .zip; run the one of an environment or a checkout")
    return files


def publish(path: Path, content: bytes, executable: bool = False) -> bool:
    """Write `content` to `path` by rename. Return False if `path` already holds `content`."""
    if path.is_file() and path.read_bytes() == content:
        return False
    with _appearing(path) as file:
        file.write(content)
        if executable:
            os.fchmod(file.fileno(), 0o755)
    return True


def environment_digest(prefix: Path) -> str:
    """Return a hash of the names, sizes and times of the environment's files, without reading the files.

    Compiled files do not count, because Python adds them while the environment is in use.
    """
    digest = hashlib.sha256()
    for name, file in environment_files(prefix):
        if name.endswith(".pyc"):
            continue
        status = file.lstat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def pack_environment(prefix: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """Write the virtual environment `prefix` to `target` (.tar.gz), by rename.

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
            # Keep the times, because Python compares them with the times in its compiled files.
            archive.add(file, name, recursive=False, filter=_nobodys)
            packed += file.lstat().st_size
            progress(packed, total)


def base_interpreter() -> str:
    """Return the folder of the Python interpreter that an unpacked environment needs at this path on every host."""
    return str(Path(sys.base_prefix) / "bin")


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def environment_files(prefix: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name in the archive, file or link) in a fixed order.

    Raise UsageError if `prefix` is not a virtual environment, or if its packages are links to folders of this host.
    """
    if not (prefix / "pyvenv.cfg").is_file():
        raise UsageError(
            f"environment: {prefix} is not a virtual environment, and only these can be packed. Install "
            "sparksplit in one (python3 -m venv), and run its own `sparksplit package`"
        )
    _refuse_links(prefix)
    is_unused = unused(prefix)
    for folder, folders, names in os.walk(prefix):
        folders.sort()
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in sorted([*names, *links]):
            file = Path(folder) / name
            place = str(file.relative_to(prefix))
            if not name.startswith(_OWN_LINK) and not _is_loop(file) and not is_unused(place):
                yield place, file


def _refuse_links(prefix: Path) -> None:
    """Raise UsageError if packages other than sparksplit are only links to a folder of this host.

    pip and uv mark such a package in its metadata (PEP 610), whatever the link looks like.
    """
    places: dict[str, str] = {}
    for site in prefix.glob("lib/python*/site-packages"):
        for installed in distributions(path=[str(site)]):
            origin = json.loads(installed.read_text("direct_url.json") or "{}")
            if origin.get("dir_info", {}).get("editable") and installed.name != "sparksplit":
                places[installed.name or "a package without a name"] = unquote(urlsplit(origin["url"]).path)
    if places:
        every = ", ".join(f"{name} ({place})" for name, place in sorted(places.items()))
        raise UsageError(
            f"environment: other hosts lack the modules of {every}: installed with --editable, and so only linked into "
            f"{prefix}. Install without --editable: pip install {shlex.join(sorted(places.values()))}"
        )


def _is_loop(file: Path) -> bool:
    """Return whether `file` is a link to a folder that contains the link. With this link, YARN starts no container."""
    return file.is_symlink() and file.parent.resolve().is_relative_to(file.resolve())


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file. The file gets the name `path` if the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with using(str(path), "cannot be written"):
            with temporary.open("wb") as file:
                yield file
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
