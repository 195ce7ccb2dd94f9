"""How a folder takes another's place: by renames, each after a last look at whose the output is.

What was there is set aside first and removed last. A crash in between leaves one of the two whole, or neither, never a
mixture; the next command finishes it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping

from hdfs_io import filesystem
from hdfs_io.errors import SparksplitError
from hdfs_io.marks import CONFIG

log = logging.getLogger(__name__)


def publish_folder(temporary: str, final: str, look: Callable[[], None], is_own: Callable[[str], bool]) -> None:
    """Rename the folder `temporary`, which is on the disk, to `final`, and remove what is there.

    look: called right before each rename; it raises where the output is another's by now. is_own: whether a name in the
    old folder is a part of what is replaced; what is not moves to the new folder.
    """
    there = filesystem.exists(final)
    look()
    if not there:
        filesystem.rename(temporary, final)
        return
    old = hidden(final, "old")
    filesystem.rename(final, old)
    try:
        look()
        filesystem.rename(temporary, final)
    except BaseException:
        try:
            if not filesystem.exists(final):
                filesystem.rename(old, final)
        except (SparksplitError, OSError) as error:  # the next command does it; report the first error
            log.debug("%s: could not be put back: %s", old, error)
        raise
    remove_old(old, final, is_own)


def remove_old(old: str, final: str, is_own: Callable[[str], bool]) -> None:
    """Remove the folder `old`, in whose place `final` is by now; what in it is not the output's own moves to `final`.

    What can neither be moved nor be removed stays in `old`, which is no output any more: nobody puts it back.
    """
    names = filesystem.listing(old)
    left = [name for name in names if not is_own(name) and not _moved(filesystem.join(old, name), final)]
    if not left:
        discard(old, final)
        return
    # The mark first: without it, what is left cannot be taken for an output.
    for name in sorted(filter(is_own, names), key=lambda name: name != CONFIG):
        path = filesystem.join(old, name)
        try:
            filesystem.remove(path)
        except (SparksplitError, OSError) as error:
            log.warning("%s: could not be removed: %s. The next command for this output tries again", path, error)
            return


def _moved(path: str, folder: str) -> bool:
    """Move `path` into `folder`; whether that was possible."""
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
    """Remove what is at `path`: the folder `output`, or something beside it.

    It is renamed first: if the removal is killed half-way, what is left cannot be taken for an output or be in the way
    of one. look: as for `publish_folder`, where others know the path.
    """
    if filesystem.exists(path):
        gone = hidden(output, "gone")
        look()
        filesystem.rename(path, gone)
        remove(gone)


def remove(path: str) -> None:
    """Remove what is already out of the way; a failure is only logged, since readers may hold its files open on NFS."""
    try:
        filesystem.remove(path)
    except (SparksplitError, OSError) as error:
        log.warning("%s: could not be removed: %s. The next command for this output tries again", path, error)


def hidden(path: str, kind: str) -> str:
    """A new name beside `path` that listings of inputs skip."""
    parent = filesystem.parent(path).rstrip("/")
    return f"{parent}/.{filesystem.name(path)}.{kind}-{uuid.uuid4().hex[:8]}"


def overlap(output: str, inputs: Mapping[str, str]) -> str | None:
    """What is wrong with `output`, given the `inputs` (key to path) of its command; None where nothing is.

    An output inside an input's folder would be read as input the next time, or vanish when the input is replaced.
    """
    for key, path in inputs.items():
        if filesystem.holds(output, path):
            what = "is" if filesystem.holds(path, output) else "holds"
            return f"{output}: {what} what the command reads ({key}: {path}); choose another output"
        if filesystem.holds(path, output):
            return f"{output}: lies within what the command reads ({key}: {path}); choose another output"
    return None
