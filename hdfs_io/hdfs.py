"""HDFS as a pyarrow file system that behaves like the local one, over hdfs-native (a client without a JVM).

A file is sent when it is closed. Until then it is buffered: in memory, and beyond SPOOL_BYTES on the local disk. The
whole file is sent under a hidden name and then renamed. A write by hdfs-native fails if a DataNode is lost. The whole
file is then sent again under another name, until the NameNode offers other DataNodes. Readers see the old file or the
new file, never a part.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from hdfs_native import Client, WriteOptions
from pyarrow import fs

from hdfs_io import hadoop_conf
from hdfs_io.errors import may_pass
from hdfs_io.hdfs_client import FIRST_CONTACT, beat, client, repeat, translated

SPOOL_BYTES = 32 * 2**20
_PIECE_BYTES = 4 * 2**20
_AHEAD_BYTES = 2**20

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def file_system(authority: str) -> fs.FileSystem:
    """Return the file system at `authority`: `host:port`, or a name service of HADOOP_CONF_DIR. It may be used after a
    fork.
    """
    return fs.PyFileSystem(_Handler(authority))


class _Handler(fs.FileSystemHandler):  # type: ignore[misc]
    """pyarrow's operations on one HDFS."""

    def __init__(self, authority: str) -> None:
        self.authority = authority

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other.authority == self.authority

    def __hash__(self) -> int:
        return hash(self.authority)

    def _do(self, path: str, operation: Callable[[Client], _T]) -> _T:
        opened = client(self.authority)
        return repeat(f"hdfs://{self.authority}{path}", lambda: operation(opened))

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path.rstrip("/") or "/"

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        try:
            return _file_info(self._do(path, lambda client: client.get_file_info(path)), path)
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def owner(self, path: str) -> str:
        """Return the user who owns the file or folder at `path`."""
        return str(self._do(path, lambda client: client.get_file_info(path)).owner)

    def _expect_folder(self, path: str) -> None:
        kind = self._info(path).type
        if kind != fs.FileType.Directory:
            raise (FileNotFoundError if kind == fs.FileType.NotFound else NotADirectoryError)(f"{path} is not a folder")

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        folder = selector.base_dir
        try:
            statuses = self._do(folder, lambda client: list(client.list_status(folder, selector.recursive)))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        if any(not status.isdir and status.path.rstrip("/") == folder.rstrip("/") for status in statuses):
            raise NotADirectoryError(f"{folder} is a file")
        return [_file_info(status, status.path) for status in statuses]

    def create_dir(self, path: str, recursive: bool) -> None:
        permission = 0o777 & ~hadoop_conf.umask()
        self._do(path, lambda client: client.mkdirs(path, permission, create_parent=recursive))

    def delete_dir(self, path: str) -> None:
        self._expect_folder(path)
        self._delete(path)

    def delete_empty_dir(self, path: str) -> None:
        """Like rmdir(2): raise OSError if the folder is not empty."""
        opened = client(self.authority)
        repeat(path, lambda: opened.get_file_info(path).isdir and opened.delete(path, recursive=False), FIRST_CONTACT)

    def _delete(self, path: str) -> None:
        self._do(path, lambda client: client.delete(path, recursive=True))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        selector = fs.FileSelector(path, allow_not_found=missing_dir_ok)
        for info in self.get_file_info_selector(selector):
            self._delete(info.path)

    def delete_root_dir_contents(self) -> None:
        self.delete_dir_contents("/")

    def delete_file(self, path: str) -> None:
        info = self._info(path)
        if info.type == fs.FileType.Directory:
            raise IsADirectoryError(f"{path} is a folder")
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(path)
        self._delete(path)

    def move(self, src: str, dest: str) -> None:
        """Like rename(2): replace a file or an empty folder at `dest`; never move into a folder."""
        self._rename(src, dest, overwrite=True)

    def _rename(self, src: str, dest: str, overwrite: bool) -> None:
        tries = 0

        def rename(client: Client) -> None:
            nonlocal tries
            tries += 1
            try:
                client.rename(src, dest, overwrite=overwrite)
            except FileNotFoundError:
                # On a later try, the NameNode may have done the rename before, and the connection lost its answer.
                if tries == 1 or self._info(dest).type == fs.FileType.NotFound:
                    raise

        self._do(dest, rename)

    def move_new(self, src: str, dest: str) -> bool:
        """Like `move`, but only if nothing exists at `dest`. Otherwise return False.

        No other process may use `src`. `src` does not exist afterwards.
        """
        moved = False
        try:
            self._rename(src, dest, overwrite=False)
            moved = True
        except OSError as error:
            # The file that was at `dest` may be gone again by now.
            if not isinstance(error, FileExistsError) and self._info(dest).type == fs.FileType.NotFound:
                raise
            moved = self._info(src).type == fs.FileType.NotFound
        finally:
            if not moved:
                self._drop(src)
        return moved

    def copy_file(self, src: str, dest: str) -> None:
        with self.open_input_file(src) as source, self.open_output_stream(dest, None) as target:
            while piece := source.read(_PIECE_BYTES):
                target.write(piece)

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        if self._info(path).type == fs.FileType.Directory:
            raise IsADirectoryError(f"{path} is a folder")
        place = f"hdfs://{self.authority}{path}"
        return pa.PythonFile(_Reader(place, lambda: client(self.authority).read(path)), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(self.new_file(path), mode="w")

    def new_file(self, path: str) -> _Writer:
        """Return a file that is sent as a whole when it is closed."""
        self._expect_folder(path.rpartition("/")[0] or "/")
        return _Writer(partial(self._send, path))

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError("files on HDFS cannot be appended to")

    def _send(self, path: str, spool: Any) -> None:
        """Create the file `path` with the content of `spool`."""
        folder, _, name = path.rpartition("/")
        left: list[str] = []
        permission = 0o666 & ~hadoop_conf.umask()
        options = WriteOptions(permission=permission, overwrite=False, create_parent=False)

        def attempt(client: Client) -> str:
            # Never use the name of an earlier attempt: its writer may still hold that file.
            temporary = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}"
            left.append(temporary)
            try:
                # Use the inner writer: after an error, dropping the outer writer would try for 16 s to complete the
                # file.
                file = client.inner.create(temporary, options)
            except Exception as error:
                if isinstance(translated(error), PermissionError):  # the NameNode has not made the file
                    left.remove(temporary)
                raise
            spool.seek(0)
            while piece := spool.read(_PIECE_BYTES):
                file.write(piece)
                beat()
            file.close()
            return temporary

        try:
            written = self._do(path, attempt)
            self.move(written, path)
            left.remove(written)
        finally:
            self._drop(*left)

    def _drop(self, *temporaries: str) -> None:
        """Remove hidden files that are not needed any more. A failure is only logged."""
        for count, temporary in enumerate(temporaries, 1):
            try:
                repeat(temporary, partial(client(self.authority).delete, temporary), FIRST_CONTACT)
            except Exception as error:
                more = len(temporaries) - count
                others = f" (and perhaps {more} more beside it)" if more else ""
                _log.warning("hdfs://%s%s is left%s: %s", self.authority, temporary, others, error)
                return  # after a long failure there are many, and each would wait as long


def _file_info(status: Any, path: str) -> fs.FileInfo:
    kind = fs.FileType.Directory if status.isdir else fs.FileType.File
    size = None if status.isdir else status.length
    return fs.FileInfo(path, kind, size=size, mtime_ns=status.modification_time * 1_000_000)


class _Reader:
    """A file for random access, with read-ahead if small reads follow one another."""

    closed = False

    def __init__(self, place: str, reopen: Callable[[], Any]) -> None:
        self._place, self._reopen = place, reopen
        self._file = repeat(place, reopen)
        self._size = len(self._file)
        self._position = 0
        self._ahead, self._ahead_start = b"", 0

    def read(self, count: int | None = None) -> bytes:
        missing = self._size - self._position
        count = missing if count is None or count < 0 else min(count, missing)
        if count <= 0:
            return b""
        start = self._position - self._ahead_start
        if start < 0 or start + count > len(self._ahead):
            # Read ahead if the reads are sequential, because every read costs a connection to a DataNode.
            on = start == len(self._ahead) or 0 < start < len(self._ahead)
            self._fetch(min(max(count, _AHEAD_BYTES if on else count), missing))
            start = 0
        self._position += count
        return self._ahead if count == len(self._ahead) else self._ahead[start : start + count]

    def _fetch(self, count: int) -> None:
        self._ahead = repeat(self._place, lambda: self._read_range(self._position, count))
        self._ahead_start = self._position

    def _read_range(self, position: int, count: int) -> bytes:
        try:
            parts = []
            for start in range(0, count, _PIECE_BYTES):
                parts.append(self._file.read_range(position + start, min(_PIECE_BYTES, count - start)))
                beat()
            return parts[0] if len(parts) == 1 else b"".join(parts)
        except (OSError, RuntimeError):
            # Reopen: the old reader would keep asking the DataNodes that had the blocks when it was opened.
            file = self._reopen()
            if len(file) != self._size:
                raise OSError(errno.ESTALE, "the file was replaced while it was read") from None
            self._file = file
            raise

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        self.closed, self._ahead = True, b""


class _Writer:
    """Buffers a file and sends it when it is closed. A file that is never closed is never sent."""

    closed = False

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send, self._count = send, 0
        self._failure: OSError | None = None
        self._spool = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115

    def write(self, data: Any) -> int:
        if self._failure is not None:  # a caller that closes a multi-part file still writes the end
            raise self._failure
        try:
            written = self._spool.write(memoryview(data))
        except BaseException as error:  # such as a full disk: closing must not send an incomplete file
            self.drop()
            if isinstance(error, OSError):
                folder = f" in {tempfile.tempdir}" if tempfile.tempdir else ""
                where = f"{error.strerror}{folder} on {socket.gethostname()}, where the file is buffered"
                # The user did not name that folder: if it is gone or read-only, another host may do better.
                self._failure = OSError(error.errno if may_pass(error) else errno.EIO, where)
                raise self._failure from None
            raise
        self._count += written
        return written

    def tell(self) -> int:
        return self._count

    def flush(self) -> None:
        """Do nothing: the file appears as a whole when it is closed."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with self._spool:
                self._send(self._spool)

    def drop(self) -> None:
        """Close the file without sending anything."""
        self.closed = True
        with suppress(OSError):  # the disk may be too full for the rest of the buffer
            self._spool.close()

    def __del__(self) -> None:
        self._spool.close()
