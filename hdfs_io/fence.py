"""The fence around an output that fills up in place: the one way to write into its folder.

What a command or one of its nodes writes is made in a hidden folder of its own, within the output's, and renamed from
there into its place after a look at the lease. Whoever takes the output over first takes the lease and then removes
the hidden folders of others, before reading or writing anything else. So the rename of one that was superseded finds
its lease lost or its file gone, however long it stood still in between: the file system decides both, in order.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdfs_io import filesystem, lease
from hdfs_io.errors import InputError, RunError, SparksplitError

log = logging.getLogger(__name__)

PREFIX = ".writing-"
_TRIES = 20


def check_owner(path: str, owner: str) -> None:
    """Raise RunError, with who has, where someone other than `owner` (Output.owner) has taken over the output."""
    found = lease.read(lease.file_of(path))
    if found is None or found.owner != owner:
        who = f": {found}" if found else ""
        raise RunError(f"{path}: another run has taken over this output; this one ends{who}")


@dataclass(frozen=True)
class Fence:
    """The right of one attempt to fill `folder`, which is to become the output `path` of `owner` (Output.owner).

    name: of its hidden folder; whoever knows it may write, as long as the folder is there.

    Its methods raise RunError, and change nothing, once another run has taken over the output or another attempt has
    begun.
    """

    folder: str
    path: str
    owner: str
    name: str

    @classmethod
    def enclose(cls, folder: str, path: str, owner: str) -> Fence:
        """The only fence around `folder` from now on."""
        others = [name for name in filesystem.listing(folder) if name.startswith(PREFIX)]
        # In this order: what was there while the lease was this one's is not a successor's.
        check_owner(path, owner)
        for name in others:
            _clear(filesystem.join(folder, name))
        fence = cls(folder, path, owner, f"{PREFIX}{secrets.token_hex(4)}")
        filesystem.make_folder(fence._own, parents=False)
        try:
            check_owner(path, owner)
        except RunError:  # it may be in a successor's folder, who has looked for others already
            fence.open()
            raise
        return fence

    @property
    def _own(self) -> str:
        return filesystem.join(self.folder, self.name)

    def check(self) -> None:
        """Raise RunError where the output is another run's by now."""
        check_owner(self.path, self.owner)
        if not filesystem.exists(self._own):
            raise RunError(f"{self.path}: a newer attempt of this run writes this output now, so this attempt ends")

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write the small file `path`, which readers see as it was or as it is now."""
        temporary = filesystem.join(self._own, secrets.token_hex(4))
        with self.explained():
            filesystem.write_bytes(temporary, content, parents=False)
            self._publish(temporary, path)

    def write_json(self, path: str, value: Any) -> None:
        """Write `value` as JSON, as `write_bytes` does."""
        self.write_bytes(path, filesystem.json_bytes(value))

    def temporary(self, name: str) -> str:
        """The path of a new folder, to be filled (without making missing parents) and given to `publish_folder`."""
        folder = filesystem.join(self._own, name)
        with self.explained():
            filesystem.make_folder(folder, parents=False)
        return folder

    def upload(self, local: Path, path: str) -> None:
        """Copy the local folder to `path`, replacing what is there; it appears by rename."""
        folder = self.temporary(secrets.token_hex(4))
        with self.explained():
            for one in sorted(local.rglob("*")):
                target = filesystem.join(folder, str(one.relative_to(local)))
                if one.is_dir():
                    filesystem.make_folder(target, parents=False)
                else:
                    filesystem.write_bytes(target, one.read_bytes(), parents=False)
        self.publish_folder(folder, path)

    def publish_folder(self, temporary: str, path: str) -> None:
        """Rename the folder `temporary`, from `temporary()`, to `path`, replacing what is there."""
        with self.explained():
            old = self._set_aside(path)
            self._publish(temporary, path)
            filesystem.remove(old)

    def remove(self, path: str) -> None:
        """Remove the file or folder `path`, which disappears at once; does nothing where there is none."""
        with self.explained():
            filesystem.remove(self._set_aside(path))

    def open(self) -> None:
        """Take the fence away: nobody writes any more. Failing to is no error, since the next one does it."""
        try:
            _clear(self._own)
        except SparksplitError as error:
            log.debug("%s: could not be removed: %s", self._own, error)

    def _set_aside(self, path: str) -> str:
        """Move what is at `path` away; returns where to."""
        aside = filesystem.join(self._own, secrets.token_hex(4))
        check_owner(self.path, self.owner)
        if filesystem.exists(path):
            filesystem.rename(path, aside)
        return aside

    def _publish(self, temporary: str, path: str) -> None:
        check_owner(self.path, self.owner)
        if (folder := filesystem.parent(path)) != self.folder:
            filesystem.make_folder(folder, parents=False)
        filesystem.rename(temporary, path)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say why what is missing is missing, in a block that writes what `temporary` has begun."""
        try:
            yield
        except InputError:
            self.check()
            raise


def _clear(folder: str) -> None:
    """Remove a folder into which somebody may still be writing."""
    for _ in range(_TRIES):
        try:
            return filesystem.remove(folder)
        except SparksplitError:  # something was put into it meanwhile
            if not filesystem.exists(folder):
                return None
    return filesystem.remove(folder)
