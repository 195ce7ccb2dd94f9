"""Files by path or URI, over pyarrow's file systems: the one place that knows schemes.

Everything that reads or writes a user's path goes through here, never through `open`, so that a scheme added in
`resolve` works everywhere. Unlike `os`, writing makes missing parents, and removing what is not there is not an error.
A path that is not what it should be raises InputError; a problem that may pass (a full disk, a network) raises
RunError.
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
"""(scheme, authority, path): `file:///x`, `hdfs://host`, and `file:/x`, which is the same as with three slashes."""


def resolve(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of `path` and the path within it: plain paths and file:// are local, hdfs:// is HDFS.

    `hdfs://host:port/x` names a NameNode (port 8020 if none is given), `hdfs://service/x` a name service of
    HADOOP_CONF_DIR, `hdfs:///x` the default file system there. No NameNode is contacted yet.

    Raises InputError for an empty path, for a scheme that is not known, and where HADOOP_CONF_DIR is needed.
    """
    authority, inner = _parts(path)
    return fs.LocalFileSystem() if authority is None else hdfs.file_system(authority), inner


def absolute(path: str) -> str:
    """`path` in a form that means the same on the driver and on every executor, without `..` and doubled slashes."""
    authority, inner = _parts(path)
    return inner if authority is None else f"hdfs://{authority}{inner}"


def _parts(path: str) -> tuple[str | None, str]:
    """(authority on HDFS, or None where `path` is local; the absolute path there)."""
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
    """Whether `path` is one that `resolve` takes; other schemes are for Spark's readers alone."""
    uri = _URI.fullmatch(path)
    return uri is None or uri[2] is uri[3] is None or uri[1].lower() in ("file", "hdfs")


def _normal(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")  # two slashes at its beginning would stay


def followed(path: str) -> str:
    """`absolute(path)`; where that is a symbolic link, what it leads to: a rename would replace the link."""
    path = absolute(path)
    return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114


def real(path: str) -> str:
    """`path` in the one form that all spellings of a place share: absolute, without symbolic links, and on HDFS with
    the name service instead of one of its NameNodes."""
    path = absolute(path)
    if not path.startswith("hdfs://"):
        return os.path.realpath(path)
    authority, slash, inner = path[7:].partition("/")
    return f"hdfs://{hadoop_conf.service_of(authority)}{slash}{inner}"


def holds(outer: str, inner: str) -> bool:
    """Whether `inner` is `outer` or lies within it, whether or not either exists and however they are spelt."""
    outer, inner = real(outer), real(inner)
    return inner == outer or inner.startswith(join(outer, ""))


def for_spark(path: str) -> str:
    """`path` as Spark's readers and writers take it: a local one as file://, since their default on a Hadoop cluster is
    HDFS, and with the characters of their patterns escaped. It may have a scheme that only they know."""
    path = absolute(path) if is_known(path) else path
    uri = f"file://{path}" if path.startswith("/") else path
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", uri)


def join(path: str, *parts: str) -> str:
    """`path` with `parts` appended, for paths and URIs alike."""
    bare = path.rstrip("/")
    return "/".join((f"{bare}//" if path.startswith(f"{bare}//") and bare.endswith(":") else bare, *parts))


def parent(path: str) -> str:
    """The folder that holds `path`; a root is its own parent."""
    root, inner = _split(path)
    return root + (inner.rpartition("/")[0] or "/")


def name(path: str) -> str:
    """The last part of `path`; empty for a root."""
    return _split(path)[1].rpartition("/")[2]


def _split(path: str) -> tuple[str, str]:
    """What comes before the path in a URI, and the path itself, absolute and without a trailing slash."""
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
    """What is known of a file without opening it."""

    bytes: int
    modified: int
    """Nanoseconds since 1970, as precise as the file system keeps them."""


def size(path: str) -> int:
    """Bytes of the file at `path`. Raises InputError where there is none."""
    return facts(path).bytes


def facts(path: str) -> FileFacts:
    """The facts of the file at `path`. Raises InputError where there is none."""
    info = _info(path)
    if info.type != fs.FileType.File:
        kinds = {fs.FileType.Directory: "is a folder", fs.FileType.NotFound: "does not exist"}
        error = Missing if info.type == fs.FileType.NotFound else InputError
        raise error(f"{path}: {kinds.get(info.type, 'is neither a file nor a folder')}")
    return _facts(info)


def modified(path: str) -> float | None:
    """When the file or folder at `path` was last written, in seconds of its file system's clock; None without one."""
    info = _info(path)
    return None if info.type == fs.FileType.NotFound else info.mtime_ns / 1e9


def listing(path: str) -> dict[str, int | None]:
    """Names in the folder `path`, sorted, with their bytes (None for folders); empty where there is no folder."""
    return {name: None if facts is None else facts.bytes for name, facts in entries(path).items()}


def entries(path: str) -> dict[str, FileFacts | None]:
    """Names in the folder `path`, sorted, with their facts (None for folders); empty where there is no folder."""
    filesystem, inner = resolve(path)
    with _named(path):
        found = filesystem.get_file_info(fs.FileSelector(inner, allow_not_found=True))
    return {
        info.base_name: None if info.type == fs.FileType.Directory else _facts(info)
        for info in sorted(found, key=lambda info: str(info.base_name))
    }


def tree(path: str) -> dict[str, FileFacts]:
    """Paths, relative to the folder `path`, of all files in it and its sub-folders, sorted, with their facts."""
    filesystem, inner = resolve(path)
    with _named(path):
        found = filesystem.get_file_info(fs.FileSelector(inner, recursive=True))
    start = len(inner.rstrip("/")) + 1
    files = {str(info.path)[start:]: _facts(info) for info in found if info.type == fs.FileType.File}
    return dict(sorted(files.items()))


def _facts(info: fs.FileInfo) -> FileFacts:
    return FileFacts(int(info.size or 0), int(info.mtime_ns or 0))  # a pipe has no size


def open_input(path: str) -> Any:
    """The file at `path` as a pyarrow file with random access. Raises InputError where it cannot be read."""
    filesystem, inner = resolve(path)
    with _named(path):
        return filesystem.open_input_file(inner)


def read_bytes(path: str) -> bytes:
    """The whole content of a small file."""
    with open_input(path) as file, _named(path):
        return bytes(file.read())


def read_json(path: str) -> Any:
    """The value in a small JSON file. Raises InputError where it cannot be read or is not JSON."""
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is not valid JSON") from None


def make_folder(path: str, parents: bool = True) -> None:
    """Make the folder `path`, where missing, and its `parents`; InputError where those are missing and not wanted."""
    filesystem, inner = resolve(path)
    with _named(path, "cannot be made"):
        filesystem.create_dir(inner, recursive=parents)


def missing(path: str) -> list[str]:
    """The folder `path` and its parents, from the inside, as far as they are not there."""
    found = []
    while not exists(path):
        found.append(path)
        path = parent(path)
    return found


def remove_empty(paths: Sequence[str]) -> None:
    """Remove those of the folders `paths`, given from the inside, in which there is nothing; others stay."""
    for path in paths:
        filesystem, inner = resolve(path)
        with suppress(OSError, RunError):  # gone, or someone has put something there, or HDFS is away
            if isinstance(filesystem, fs.LocalFileSystem):
                os.rmdir(inner)  # noqa: PTH106
            else:
                filesystem.handler.delete_empty_dir(inner)


def write_bytes(path: str, content: bytes, parents: bool = True) -> None:
    """Write a small file, as `writing` does."""
    with writing(path, parents) as file:
        file.write(content)


@contextmanager
def writing(path: str, parents: bool = True) -> Iterator[disk.Writable]:
    """A file to be written in pieces. It appears at `path` whole, when the block has ended without an error: readers
    see the old content or the new one. Locally that is on the disk by then, by its name too; HDFS has it in the memory
    of each DataNode that it was sent to.

    parents: whether to make missing folders; InputError where they are missing and not wanted.
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
            with suppress(OSError):  # a failed device may be read-only by now: the first error is the one to report
                os.unlink(temporary)  # noqa: PTH108
            raise


def flush(folder: str) -> None:
    """Have `folder`, its name and all that it holds on the disk, whoever wrote it. On HDFS it does nothing:
    hdfs-native has no hsync."""
    filesystem, inner = resolve(folder)
    if isinstance(filesystem, fs.LocalFileSystem):
        with _named(folder, "cannot be written"):
            disk.sync_tree(inner)
            disk.sync(posixpath.dirname(inner.rstrip("/")))


def create_bytes(path: str, content: bytes) -> bool:
    """Write a small file where there is nothing; False where there is something, which stays.

    If several do this at once, on whatever hosts, exactly one is told True. Only on file systems without hard links may
    the file be seen empty for a moment.
    """
    make_folder(parent(path))
    filesystem, inner = resolve(path)
    folder, _, last = inner.rpartition("/")
    temporary = f"{folder}/.{last}.{uuid.uuid4().hex[:8]}"
    with _named(path, "cannot be written"):
        if not isinstance(filesystem, fs.LocalFileSystem):
            with filesystem.open_output_stream(temporary, compression=None) as stream:
                stream.write(content)
            return bool(filesystem.handler.move_new(temporary, inner))
        try:
            with filesystem.open_output_stream(temporary, compression=None) as stream:
                stream.write(content)
            return _link_new(temporary, inner, content)
        finally:
            with suppress(OSError):  # the first error is the one to report
                os.unlink(temporary)  # noqa: PTH108


def _link_new(temporary: str, path: str, content: bytes) -> bool:
    """Make the file `temporary`, with its `content`, appear at `path`; False where there is something already."""
    try:
        os.link(temporary, path)
        return True
    except FileExistsError:
        return os.stat(temporary).st_nlink > 1  # noqa: PTH116 -- NFS: it was done, and the answer lost
    except OSError:
        pass  # FAT, SMB and others have no links
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
    """Write `value` as JSON, as `write_bytes` does."""
    write_bytes(path, json_bytes(value), parents)


def json_bytes(value: Any) -> bytes:
    """`value` as the JSON of a file that people read, too."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def remove(path: str) -> None:
    """Remove the file or folder at `path` and all that it holds; does nothing where there is none."""
    filesystem, inner = resolve(path)
    with _named(path, "cannot be removed"):
        kind = filesystem.get_file_info(inner).type
        if kind == fs.FileType.Directory:
            filesystem.delete_dir(inner)
        elif kind != fs.FileType.NotFound:
            with suppress(FileNotFoundError):  # someone else has just removed it
                filesystem.delete_file(inner)


def rename(old: str, new: str) -> None:
    """Rename a file or a folder within one file system: the step that makes an output appear. Locally, its new name is
    on the disk by then; of what it holds, `flush` makes sure."""
    filesystem, inner = resolve(old)
    with _named(new, "cannot be written"):
        target = resolve(new)[1]
        filesystem.move(inner, target)
        if isinstance(filesystem, fs.LocalFileSystem):
            disk.sync(posixpath.dirname(target))


@contextmanager
def _named(path: str, problem: str = "cannot be read") -> Iterator[None]:
    """Turn an OSError into an error that names `path`: InputError or RunError, as `file_error` says."""
    try:
        with using(path, problem):
            yield
    except pa.ArrowInvalid as error:  # a character that no path can have
        raise InputError(f"{path!r}: {problem}: {' '.join(str(error).split())}") from None
