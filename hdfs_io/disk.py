"""Files of this host's own disks that a power failure must not take back: fsync(2), of files and of their names."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EBADF)
"""What some file systems (FUSE, SMB) say about fsync(2), of folders above all: there is nothing to be had."""


class Writable(Protocol):
    """A file that is being written."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append `data`, all of it."""


@contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """A new file to be written in pieces; on the disk when the block has ended."""
    with open(path, "xb") as file:  # noqa: PTH123
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync(path: str) -> None:
    """Have the file `path`, or the names in the folder `path`, on the disk, whoever wrote them."""
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
    """`sync` for the folder `path` and all that it holds."""
    for folder, _, names in os.walk(path):
        for name in names:
            sync(f"{folder}/{name}")
        sync(folder)
