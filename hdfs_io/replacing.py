"""Replace one folder by another with renames. Check the output's owner before each rename.

The old folder is set aside first and removed last. A crash in between leaves one of the two folders complete, or
neither in place, never a mixture. The next command finishes the replacement.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping

from hdfs_io import ending, filesystem
from hdfs_io.errors import SparksplitError
from hdfs_io.marks import CONFIG

log = logging.getLogger(__name__)


def publish_folder(temporary: str, final: str, look: Callable[[], None], is_own: Callable[[str], bool]) -> None:
    """Rename the folder `temporary`, which is already flushed to the disk, to `final`. Remove the existing folder.

    look: called right before each rename; raises if another command owns the output now.
    is_own: whether a name in the old folder is a part of the replaced output. Other files move to the new folder.
    """
    there = filesystem.exists(final)
    look()
    if not there:
        filesystem.rename(temporary, final)
        return
    old = hidden(final, "old")
    try:
        filesystem.rename(final, old)
        look()
        filesystem.rename(temporary, final)
    except BaseException:
        ending.begin()
        # Look which renames have happened: a signal, or a disk that cannot sync, may come after a rename.
        try:
            if filesystem.exists(old) and not filesystem.exists(final):
                filesystem.rename(old, final)
        except (SparksplitError, OSError) as error:  # the next command puts it back; report the first error
            log.debug("%s: could not be put back: %s", old, error)
        raise
    remove_old(old, final, is_own)


def remove_old(old: str, final: str, is_own: Callable[[str], bool]) -> None:
    """Remove the folder `old`, which `final` has replaced. Files in `old` that do not belong to the output move to
    `final`.

    Files that cannot be moved or removed stay in `old`. `old` is then no output any more, and nobody puts it back.
    """
    names = filesystem.listing(old)
    left = [name for name in names if not is_own(name) and not _moved(filesystem.join(old, name), final)]
    if not left:
        discard(old, final)
        return
    # Remove the marker file first: without it, the rest cannot be taken for an output.
    for name in sorted(filter(is_own, names), key=lambda name: name != CONFIG):
        path = filesystem.join(old, name)
        try:
            filesystem.remove(path)
        except (SparksplitError, OSError) as error:
            log.warning("%s: could not be removed: %s. The next command for this output tries again", path, error)
            return


def _moved(path: str, folder: str) -> bool:
    """Move `path` into `folder`. Return whether this worked."""
    place = filesystem.join(folder, filesystem.name(path))
    try:
        if filesystem.exists(place):
            log.warning("%s: stays there, because the new output has a file of this name too", path)
            return False
        filesystem.rename(path, place)
    except (SparksplitError, OSError) as error:
        log.warning(
            "%s: could not be moved to %s: %s. The next command for this output tries again", path, place, error
        )
        return False
    return True


def discard(path: str, output: str, look: Callable[[], None] = lambda: None) -> None:
    """Remove the file or folder at `path`: the folder `output`, or something beside it.

    Rename it first. If the removal is killed half-way, the rest cannot be taken for an output or block a new one. look:
    as for `publish_folder`, if other processes know the path.
    """
    if filesystem.exists(path):
        gone = hidden(output, "gone")
        look()
        filesystem.rename(path, gone)
        remove(gone)


def remove(path: str) -> None:
    """Remove a file or folder that is already out of the way. A failure is only logged, because readers may hold files
    open on NFS.
    """
    try:
        filesystem.remove(path)
    except (SparksplitError, OSError) as error:
        log.warning("%s: could not be removed: %s. The next command for this output tries again", path, error)


def hidden(path: str, kind: str) -> str:
    """Return a new name beside `path` that listings of inputs skip."""
    parent = filesystem.parent(path).rstrip("/")
    return f"{parent}/.{filesystem.name(path)}.{kind}-{uuid.uuid4().hex[:8]}"


def overlap(output: str, inputs: Mapping[str, str]) -> str | None:
    """Return why `output` conflicts with the command's `inputs` (key to path); None if there is no conflict.

    An output inside an input's folder would be read as input the next time, or vanish when the input is replaced.
    """
    for key, path in inputs.items():
        if filesystem.holds(output, path):
            what = "is" if filesystem.holds(path, output) else "holds"
            return f"{output}: {what} what the command reads ({key}: {path}); choose another output"
        if filesystem.holds(path, output):
            return f"{output}: lies within what the command reads ({key}: {path}); choose another output"
    return None
