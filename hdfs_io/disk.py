"""Local files that must survive a power failure: fsync(2) on files and on the folders that hold their names."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EBADF)
"""Errors of file systems without fsync(2), such as FUSE and SMB, mostly on folders. They are ignored."""


class Writable(Protocol):
    """A file that is being written."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append all of `data`."""


@contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Open a new file for writing. The content is on the disk when the block ends."""
    with open(path, "xb") as file:  # noqa: PTH123
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync(path: str) -> None:
    """Flush to the disk the file `path`, or the names in the folder `path`. Works for files of other writers too."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, PermissionError):  # removed meanwhile, or another user's
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_tree(path: str) -> None:
    """Call `sync` for the folder `path` and for everything in it."""
    for folder, _, names in os.walk(path):
        for name in names:
            sync(f"{folder}/{name}")
        sync(folder)
