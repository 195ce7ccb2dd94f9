"""The fence around an output that is filled in place. All writes into the output's folder go through it.

A command or a node writes into a hidden folder of its own inside the output's folder. Then it checks the lease and
renames the files into place. A new owner first takes the lease, then removes the hidden folders of others, and only
then reads or writes. So a late rename by a former owner fails, however long its process was paused: its lease is lost
or its file is gone. The order of the operations in the file system decides.
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
    """Raise RunError if `owner` (Output.owner) no longer owns the output. The message names the new owner."""
    holder = lease.read(lease.file_of(path))
    if holder is None or holder.owner != owner:
        who = f": {holder}" if holder else ""
        raise RunError(f"{path}: another run has taken over this output; this one ends{who}")


@dataclass(frozen=True)
class Fence:
    """The right of one attempt to fill `folder`, which becomes the output `path` of `owner` (Output.owner).

    name: the attempt's hidden folder. Any process that knows the name may write while the folder exists.

    After another run has taken over the output, or another attempt has begun, the methods raise RunError and change
    nothing.
    """

    folder: str
    path: str
    owner: str
    name: str

    @classmethod
    def enclose(cls, folder: str, path: str, owner: str) -> Fence:
        """Return the new fence around `folder`. All earlier fences become invalid."""
        others = [name for name in filesystem.listing(folder) if name.startswith(PREFIX)]
        # List first, then check the lease: folders seen while this run held the lease are not a successor's.
        check_owner(path, owner)
        for name in others:
            _clear(filesystem.join(folder, name))
        fence = cls(folder, path, owner, f"{PREFIX}{secrets.token_hex(4)}")
        filesystem.make_folder(fence._own, parents=False)
        try:
            check_owner(path, owner)
        except RunError:  # the successor has already searched for other fences and may have missed this one
            fence.open()
            raise
        return fence

    @property
    def _own(self) -> str:
        return filesystem.join(self.folder, self.name)

    def check(self) -> None:
        """Raise RunError if another run owns the output now, or if a newer attempt writes it."""
        check_owner(self.path, self.owner)
        if not filesystem.exists(self._own):
            raise RunError(f"{self.path}: a newer attempt of this run writes this output now, so this attempt ends")

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write the small file `path`. Readers see the old content or the new content, never a part."""
        temporary = filesystem.join(self._own, secrets.token_hex(4))
        with self.explained():
            filesystem.write_bytes(temporary, content, parents=False)
            self._publish(temporary, path)

    def write_json(self, path: str, value: Any) -> None:
        """Write `value` as JSON with `write_bytes`."""
        self.write_bytes(path, filesystem.json_bytes(value))

    def temporary(self, name: str) -> str:
        """Return the path of a new folder. Fill it without making missing parents, then pass it to `publish_folder`."""
        folder = filesystem.join(self._own, name)
        with self.explained():
            filesystem.make_folder(folder, parents=False)
        return folder

    def upload(self, local: Path, path: str) -> None:
        """Copy the local folder to `path` and replace an existing one. The new folder appears by rename."""
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
        """Rename the folder `temporary`, from `temporary()`, to `path`, and replace an existing one."""
        with self.explained():
            old = self._set_aside(path)
            self._publish(temporary, path)
            filesystem.remove(old)

    def remove(self, path: str) -> None:
        """Remove the file or folder `path`. It disappears at once. Do nothing if nothing exists there."""
        with self.explained():
            filesystem.remove(self._set_aside(path))

    def open(self) -> None:
        """Take the fence away, so that nobody can write any more. A failure is no error, because the next fence removes
        this one.
        """
        try:
            _clear(self._own)
        except SparksplitError as error:
            log.debug("%s: could not be removed: %s", self._own, error)

    def _set_aside(self, path: str) -> str:
        """Move the file or folder at `path` away, if it exists. Return its new path."""
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
        """Explain a missing file in a block that writes into a folder from `temporary`: raise RunError if the output
        has a new owner or attempt.
        """
        try:
            yield
        except InputError:
            self.check()
            raise


def _clear(folder: str) -> None:
    """Remove a folder into which another process may still be writing."""
    for _ in range(_TRIES):
        try:
            return filesystem.remove(folder)
        except SparksplitError:  # another process has put a file into the folder meanwhile
            if not filesystem.exists(folder):
                return None
    return filesystem.remove(folder)
