"""Temporary folders that are removed even where their owner was killed: by the next one that comes to the same place.

The owner's lock tells whether it is alive, even across containers that share the disk. Other users may share the place,
and put anything there at any time: only this user's own folders count, no link is followed, and what is removed is what
was looked at.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = ".lock"


@contextmanager
def own_folder(parent: Path, prefix: str, end: Callable[[Path], None] = lambda folder: None) -> Iterator[Path]:
    """A new folder `parent`/`prefix`..., removed at the end; `sweep`s at both ends."""
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent, prefix, end)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        # Under a name that no sweep looks for until it is locked: several may begin together.
        unlocked = folder / f"{_LOCK}-unlocked"
        with unlocked.open("xb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            unlocked.rename(folder / _LOCK)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        # What a dead owner's processes still wrote to at the beginning can go by now.
        sweep(parent, prefix, end)


def sweep(parent: Path, prefix: str, end: Callable[[Path], None] = lambda folder: None) -> None:
    """Remove this user's folders `parent`/`prefix`... of dead owners. end: called with each before: ends who still uses
    it."""
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError), _opened(left, os.O_DIRECTORY) as folder, _opened(_LOCK, folder=folder) as lock:
            if not stat.S_ISREG(os.fstat(lock).st_mode):
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end(left)
            # The lock last: a folder without it is nobody's to remove.
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name == _LOCK):
                    _remove(entry, folder)
            left.rmdir()


@contextmanager
def _opened(path: str | Path, flags: int = 0, folder: int | None = None) -> Iterator[int]:
    """A descriptor of something of this user's own. Raises OSError where it is another user's, or a link; never waits.

    folder: where `path` is relative to.
    """
    # A FIFO would otherwise be waited for, until somebody writes to it.
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
