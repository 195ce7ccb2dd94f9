"""Files by path or URI, over pyarrow's file systems. Only this module knows the schemes.

Everything that reads or writes a user's path calls this module, never `open`. So a scheme added in `resolve` works
everywhere. Unlike `os`, writing makes missing parents, and removing a missing path is no error. A wrong path raises
InputError. A problem that may go away (a full disk, a network failure) raises RunError.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from hdfs_io import disk, hadoop_conf, hdfs
from hdfs_io.errors import InputError, Missing, RunError, using

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)
"""(scheme, authority, path): `file:///x`, `hdfs://host`, and `file:/x`, which means `file:///x`."""


def resolve(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of `path` and the path within it. Plain paths and file:// are local; hdfs:// is HDFS.

    `hdfs://host:port/x` names a NameNode (default port 8020). `hdfs://service/x` names a name service of
    HADOOP_CONF_DIR. `hdfs:///x` is the default file system of HADOOP_CONF_DIR. No NameNode is contacted yet.

    Raise InputError for an empty path, an unknown scheme, or a path that needs HADOOP_CONF_DIR if that is missing.
    """
    authority, inner = _parts(path)
    return fs.LocalFileSystem() if authority is None else hdfs.file_system(authority), inner


def absolute(path: str) -> str:
    """Return `path` in a form that is valid on the driver and on every executor, without `..` and doubled slashes."""
    authority, inner = _parts(path)
    return inner if authority is None else f"hdfs://{authority}{inner}"


def _parts(path: str) -> tuple[str | None, str]:
    """Return the authority on HDFS (None if `path` is local) and the absolute path there."""
    if not path:
        raise InputError("the path is empty")
    uri = _URI.fullmatch(path)
    if uri is None or uri[2] is uri[3] is None:
        return None, _normal(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111
    scheme, authority, inner = uri[1].lower(), uri[2] or "", uri[3] or "/"
    if scheme == "file":
        if authority not in ("", "localhost"):
            raise InputError(
                f"{path}: names the host {authority}, but file:// reads only this machine's files. Write file:///PATH"
            )
        return None, _normal(unquote(inner))
    if scheme == "hdfs":  # nothing in the path is percent-encoded, as in Hadoop
        try:
            authority = hadoop_conf.with_port(authority) if authority else hadoop_conf.default_authority()
            return authority, _normal(inner)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    raise InputError(f"{path}: unknown scheme {uri[1]}://; use a path, file:// or hdfs://")


def is_known(path: str) -> bool:
    """Whether `resolve` accepts the scheme of `path`. Only Spark's readers know other schemes."""
    uri = _URI.fullmatch(path)
    return uri is None or uri[2] is uri[3] is None or uri[1].lower() in ("file", "hdfs")


def _normal(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")  # normpath keeps two slashes at the beginning


def followed(path: str) -> str:
    """Return `absolute(path)`. If the path is a symbolic link, return its target, because a rename would replace the
    link.
    """
    path = absolute(path)
    return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114


def real(path: str) -> str:
    """Return the canonical form of `path`: absolute and without symbolic links. On HDFS, a NameNode's address becomes
    its name service.
    """
    path = absolute(path)
    if not path.startswith("hdfs://"):
        return os.path.realpath(path)
    authority, slash, inner = path[7:].partition("/")
    return f"hdfs://{hadoop_conf.service_of(authority)}{slash}{inner}"


def holds(outer: str, inner: str) -> bool:
    """Whether `inner` is `outer` or lies within `outer`. The paths need not exist; their spelling does not matter."""
    outer, inner = real(outer), real(inner)
    return inner == outer or inner.startswith(join(outer, ""))


def for_spark(path: str) -> str:
    """Return `path` for Spark's readers and writers, with the characters of Spark's patterns escaped.

    A local path becomes file://, because Spark's default on a Hadoop cluster is HDFS. A scheme that only Spark knows
    stays.
    """
    path = absolute(path) if is_known(path) else path
    uri = f"file://{path}" if path.startswith("/") else path
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", uri)


def join(path: str, *parts: str) -> str:
    """Return `path` with `parts` appended. Works for paths and URIs."""
    bare = path.rstrip("/")
    return "/".join((f"{bare}//" if path.startswith(f"{bare}//") and bare.endswith(":") else bare, *parts))


def parent(path: str) -> str:
    """Return the folder that holds `path`. A root is its own parent."""
    root, inner = _split(path)
    return root + (inner.rpartition("/")[0] or "/")


def name(path: str) -> str:
    """Return the last part of `path`; empty for a root."""
    return _split(path)[1].rpartition("/")[2]


def _split(path: str) -> tuple[str, str]:
    """Return the URI's part before the path, and the absolute path without a trailing slash."""
    path = absolute(path)
    root = path[: path.index("/", 7)] if path.startswith("hdfs://") else ""
    return root, path[len(root) :].rstrip("/")


def _info(path: str) -> fs.FileInfo:
    filesystem, inner = resolve(path)
    with _named(path):
        return filesystem.get_file_info(inner)


def exists(path: str) -> bool:
    """Whether there is a file or a folder at `path`."""
    return bool(_info(path).type != fs.FileType.NotFound)


def is_folder(path: str) -> bool:
    """Whether there is a folder at `path`."""
    return bool(_info(path).type == fs.FileType.Directory)


def is_file(path: str) -> bool:
    """Whether there is a file at `path`."""
    return bool(_info(path).type == fs.FileType.File)


@dataclass(frozen=True)
class FileFacts:
    """A file's facts, read without opening the file."""

    bytes: int
    modified: int
    """Nanoseconds since 1970, as precise as the file system stores them."""


def size(path: str) -> int:
    """Return the size in bytes of the file at `path`. Raise InputError if there is no file."""
    return facts(path).bytes


def facts(path: str) -> FileFacts:
    """Return the facts of the file at `path`. Raise InputError if there is no file."""
    info = _info(path)
    if info.type != fs.FileType.File:
        kinds = {fs.FileType.Directory: "is a folder", fs.FileType.NotFound: "does not exist"}
        error = Missing if info.type == fs.FileType.NotFound else InputError
        raise error(f"{path}: {kinds.get(info.type, 'is neither a file nor a folder')}")
    return _facts(info)


def modified(path: str) -> float | None:
    """Return when the file or folder at `path` was last written, in seconds by the file system's clock. None if
    missing.
    """
    info = _info(path)
    return None if info.type == fs.FileType.NotFound else info.mtime_ns / 1e9


def listing(path: str) -> dict[str, int | None]:
    """Return the sorted names in the folder `path`, with sizes in bytes (None for folders). Empty if the folder is
    missing.
    """
    return {name: None if facts is None else facts.bytes for name, facts in entries(path).items()}


def entries(path: str) -> dict[str, FileFacts | None]:
    """Return the sorted names in the folder `path`, with facts (None for folders). Empty if the folder is missing."""
    filesystem, inner = resolve(path)
    with _named(path):
        infos = filesystem.get_file_info(fs.FileSelector(inner, allow_not_found=True))
    return {
        info.base_name: None if info.type == fs.FileType.Directory else _facts(info)
        for info in sorted(infos, key=lambda info: str(info.base_name))
    }


def tree(path: str) -> dict[str, FileFacts]:
    """Return the facts of all files in the folder `path` and its sub-folders, by sorted relative path."""
    filesystem, inner = resolve(path)
    with _named(path):
        infos = filesystem.get_file_info(fs.FileSelector(inner, recursive=True))
    start = len(inner.rstrip("/")) + 1
    files = {str(info.path)[start:]: _facts(info) for info in infos if info.type == fs.FileType.File}
    return dict(sorted(files.items()))


def _facts(info: fs.FileInfo) -> FileFacts:
    return FileFacts(int(info.size or 0), int(info.mtime_ns or 0))  # a pipe has no size


def open_input(path: str) -> Any:
    """Open the file at `path` as a pyarrow file with random access. Raise InputError if the file cannot be read."""
    filesystem, inner = resolve(path)
    with _named(path):
        return filesystem.open_input_file(inner)


def read_bytes(path: str) -> bytes:
    """Return the whole content of a small file."""
    with open_input(path) as file, _named(path):
        return bytes(file.read())


def read_json(path: str) -> Any:
    """Return the value in a small JSON file. Raise InputError if the file cannot be read or is not JSON."""
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is not valid JSON") from None


def make_folder(path: str, parents: bool = True) -> None:
    """Make the folder `path` if it is missing, and its missing parents too if `parents` is true.

    Raise InputError if parents are missing and `parents` is false.
    """
    filesystem, inner = resolve(path)
    with _named(path, "cannot be made"):
        filesystem.create_dir(inner, recursive=parents)


def missing(path: str) -> list[str]:
    """Return the folder `path` and its parents that do not exist, innermost first."""
    folders = []
    while not exists(path):
        folders.append(path)
        path = parent(path)
    return folders


def remove_empty(paths: Sequence[str]) -> None:
    """Remove the empty folders among `paths`. Inner folders come first in `paths`; folders with content stay."""
    for path in paths:
        filesystem, inner = resolve(path)
        with suppress(OSError, RunError):  # removed by another process, not empty any more, or HDFS not available
            if isinstance(filesystem, fs.LocalFileSystem):
                os.rmdir(inner)  # noqa: PTH106
            else:
                filesystem.handler.delete_empty_dir(inner)


def write_bytes(path: str, content: bytes, parents: bool = True) -> None:
    """Write a small file, with the guarantees of `writing`."""
    with writing(path, parents) as file:
        file.write(content)


@contextmanager
def writing(path: str, parents: bool = True) -> Iterator[disk.Writable]:
    """Open a file to write in pieces. The file appears at `path` complete, after the block has ended without an error.
    Readers see the old content or the new content.

    Local: the content and the name are on the disk when the block has ended. HDFS: the content is in the memory of each
    DataNode of the file.

    parents: make missing folders. If false, a missing folder raises InputError.
    """
    if parents:
        make_folder(parent(path))
    filesystem, inner = resolve(path)
    with _named(path, "cannot be written"):
        if not isinstance(filesystem, fs.LocalFileSystem):  # on HDFS files appear whole anyway
            file = filesystem.handler.new_file(inner)
            try:
                yield file
            except BaseException:
                file.drop()
                raise
            file.close()
            return
        folder, _, last = inner.rpartition("/")
        temporary = f"{folder}/.{last}.{uuid.uuid4().hex[:8]}"
        try:
            with disk.new_file(temporary) as local:
                yield local
            filesystem.move(temporary, inner)
            disk.sync(folder)
        except BaseException:
            with suppress(OSError):  # a failed device may be read-only by now; report the first error
                os.unlink(temporary)  # noqa: PTH108
            raise


def flush(folder: str) -> None:
    """Flush `folder`, its name and its content to the disk, whoever wrote them. On HDFS do nothing, because hdfs-native
    has no hsync.
    """
    filesystem, inner = resolve(folder)
    if isinstance(filesystem, fs.LocalFileSystem):
        with _named(folder, "cannot be written"):
            disk.sync_tree(inner)
            disk.sync(posixpath.dirname(inner.rstrip("/")))


def create_bytes(path: str, content: bytes, named: str | None = None) -> bool:
    """Create a small file at `path`. Return False and change nothing if something exists there.

    If several processes call this at once, on any hosts, exactly one gets True. Only on file systems without hard links
    may readers see the file empty for a moment.

    named: the path that errors name, if the user does not know `path`.
    """
    make_folder(parent(path))
    filesystem, inner = resolve(path)
    folder, _, last = inner.rpartition("/")
    temporary = f"{folder}/.{last}.{uuid.uuid4().hex[:8]}"
    with _named(named or path, "cannot be written"):
        if not isinstance(filesystem, fs.LocalFileSystem):
            with filesystem.open_output_stream(temporary, compression=None) as stream:
                stream.write(content)
            return bool(filesystem.handler.move_new(temporary, inner))
        try:
            with filesystem.open_output_stream(temporary, compression=None) as stream:
                stream.write(content)
            return _link_new(temporary, inner, content)
        finally:
            with suppress(OSError):  # report the first error
                os.unlink(temporary)  # noqa: PTH108


def _link_new(temporary: str, path: str, content: bytes) -> bool:
    """Make the file `temporary`, with its `content`, appear at `path`. Return False if something exists there."""
    try:
        os.link(temporary, path)
        return True
    except FileExistsError:
        return os.stat(temporary).st_nlink > 1  # noqa: PTH116 -- NFS made the link but lost the answer
    except OSError:
        pass  # FAT, SMB and some other file systems have no hard links
    try:
        with open(path, "xb") as file:  # noqa: PTH123
            try:
                file.write(content)
                file.flush()
            except BaseException:
                os.unlink(path)  # noqa: PTH108
                raise
    except FileExistsError:
        return False
    return True


def write_json(path: str, value: Any, parents: bool = True) -> None:
    """Write `value` as JSON with `write_bytes`."""
    write_bytes(path, json_bytes(value), parents)


def json_bytes(value: Any) -> bytes:
    """Return `value` as indented JSON, because people read the file too."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def remove(path: str) -> None:
    """Remove the file or folder at `path` with all its content. Do nothing if nothing exists there."""
    filesystem, inner = resolve(path)
    with _named(path, "cannot be removed"):
        kind = filesystem.get_file_info(inner).type
        if kind == fs.FileType.Directory:
            filesystem.delete_dir(inner)
        elif kind != fs.FileType.NotFound:
            with suppress(FileNotFoundError):  # another process has just removed the file
                filesystem.delete_file(inner)


def rename(old: str, new: str) -> None:
    """Rename a file or a folder within one file system. This step makes an output appear. Local: the new name is on the
    disk afterwards; only `flush` flushes the content.
    """
    filesystem, inner = resolve(old)
    with _named(new, "cannot be written"):
        target = resolve(new)[1]
        filesystem.move(inner, target)
        if isinstance(filesystem, fs.LocalFileSystem):
            disk.sync(posixpath.dirname(target))


@contextmanager
def _named(path: str, problem: str = "cannot be read") -> Iterator[None]:
    """Turn an OSError into an error that names `path`: the InputError or RunError from `file_error`."""
    try:
        with using(path, problem):
            yield
    except pa.ArrowInvalid as error:  # the path has a forbidden character
        raise InputError(f"{path!r}: {problem}: {' '.join(str(error).split())}") from None
