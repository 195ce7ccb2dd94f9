"""Temporary folders that are removed even where their owner was killed: by the next one that comes to the same place.

The owner's lock tells whether it is alive, even across containers that share the disk.
"""

from __future__ import annotations

import fcntl
import shutil
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
    # Under a name that nobody sweeps until it is locked: several may begin together.
    folder = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=parent))
    try:
        with (folder / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder = folder.rename(parent / folder.name.removeprefix("."))
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        # What a dead owner's processes still wrote to at the beginning can go by now.
        sweep(parent, prefix, end)


def sweep(parent: Path, prefix: str, end: Callable[[Path], None] = lambda folder: None) -> None:
    """Remove the folders `parent`/`prefix`... of dead owners. end: called with each before: ends who still uses it."""
    for left in parent.glob(f"{prefix}*"):
        if left.is_symlink():  # anybody may have made that here, to anywhere
            continue
        with suppress(OSError), (left / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            end(left)
            for entry in left.iterdir():
                if entry.name != _LOCK:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            shutil.rmtree(left)  # the lock last: a folder without it is nobody's to remove
