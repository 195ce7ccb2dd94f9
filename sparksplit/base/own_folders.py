"""Temporary folders that are removed even if their owner was killed: the next process that uses the place removes them.

A lock shows whether the owner is alive, even across containers that share the disk. Other users may share the place and
put anything there. So only this user's own folders are touched, no link is followed, and removal uses the descriptor
that was checked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hdfs_io.errors import using_own

_LOCK = ".lock"


def temporary_folder() -> Path:
    """Return this host's folder for temporary files (TMPDIR, usually /tmp).

    Raise Passing, with this host's name, if no such folder can be written to: its disk is full or read-only.
    """
    with using_own(f"temporary files on {socket.gethostname()}"):
        return Path(tempfile.gettempdir())


@contextmanager
def own_folder(parent: Path, prefix: str, end: Callable[[Path], None] = lambda folder: None) -> Iterator[Path]:
    """Yield a new folder `parent`/`prefix`..., removed at the end. Call `sweep` at the beginning and at the end.

    Raise Passing, with this host's name, if the folder cannot be made.
    """
    place = f"{parent} on {socket.gethostname()}"
    with using_own(place):
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent, prefix, end)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with ExitStack() as stack:
            # Several processes may begin together: use a name that no sweep looks for until the file is locked.
            unlocked = folder / f"{_LOCK}-unlocked"
            with using_own(place):
                lock = stack.enter_context(unlocked.open("xb"))
                fcntl.flock(lock, fcntl.LOCK_EX)
                unlocked.rename(folder / _LOCK)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        # Sweep again: at the beginning, a dead owner's processes may still have written to their folder.
        sweep(parent, prefix, end)


def sweep(parent: Path, prefix: str, end: Callable[[Path], None] = lambda folder: None) -> None:
    """Remove the folders in `parent` that begin with `prefix`, if this user owns them and the process that made them
    has ended. While that process lives, it holds a lock on a file in its folder.

    end: called with each folder before its removal, to end processes that the folder's maker has left running.
    """
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError), _opened(left, os.O_DIRECTORY) as folder, _opened(_LOCK, folder=folder) as lock:
            if not stat.S_ISREG(os.fstat(lock).st_mode):
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end(left)
            # Remove the lock last: nobody removes a folder without a lock.
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name == _LOCK):
                    _remove(entry, folder)
            left.rmdir()


@contextmanager
def _opened(path: str | Path, flags: int = 0, folder: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a file or folder of this user. Raise OSError if another user owns it or if it is a link.
    Never wait.

    folder: a relative `path` starts here.
    """
    # O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | flags, dir_fd=folder)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        yield descriptor
    finally:
        os.close(descriptor)


def _remove(entry: os.DirEntry[str], folder: int) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.name, dir_fd=folder)
    else:
        os.unlink(entry.name, dir_fd=folder)
