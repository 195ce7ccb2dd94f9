"""Atomic publishing: an output appears by rename, complete, or not at all."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Literal

from hdfs_io import filesystem
from sparksplit import __version__
from sparksplit.errors import InputError, RunError, UsageError

SUCCESS = "_SUCCESS"
"""Written last: a folder without it is not complete."""
CONFIG = "_CONFIG"
"""Written first: whose output the folder is, and the hash of its configuration."""
OWNER = "_OWNER"
"""In an output that fills up in place: which process fills it, the last that began or went on."""


class Output:
    """The output folder of a command: what is there already, and how a new one takes its place.

    path: the folder
    config_hash: of all that can change the result; leaves out the output's own path
    input_hash: of what the input is now, where the configuration alone does not tell; None: not to be compared
    """

    def __init__(self, path: str, config_hash: str, input_hash: str | None = None) -> None:
        self.path = filesystem.absolute(path).rstrip("/")
        self.config_hash = config_hash
        self.input_hash = input_hash
        self.owner = uuid.uuid4().hex

    def decide(
        self, overwrite: bool = False, resume: bool = False, resumable: Collection[str] = ()
    ) -> Literal["done", "fresh", "resume"]:
        """What is to be done, without doing it.

        done: it is complete and was made with the same configuration from the same input. fresh: there is nothing, or
        something incomplete or to be overwritten, that the new output will replace. resume: it is incomplete and may be
        gone on with.

        resumable: hashes of configurations, beside the own, whose unfinished output may be gone on with.

        Raises UsageError where the folder was made with another configuration or from other input, or is not
        sparksplit's: that one is never replaced, not even with `overwrite`.
        """
        if not filesystem.exists(self.path):
            return "fresh"
        if not filesystem.is_folder(self.path):
            raise InputError(f"{self.path}: the output exists and is not a folder")
        names = filesystem.listing(self.path)
        if not names:
            return "fresh"
        if CONFIG not in names:
            raise UsageError(f"{self.path}: exists and is not an output of sparksplit; choose another folder")
        if overwrite:
            return "fresh"
        recorded, inputs = (self._recorded(name) for name in ("config_hash", "input_hash"))
        same = recorded == self.config_hash
        if SUCCESS in names:
            if same and self.input_hash in (None, inputs):
                return "done"
            other = "made from other input: it has changed since" if same else "made with another configuration"
            raise UsageError(f"{self.path}: exists, {other}; --overwrite replaces it")
        if not resume:
            return "fresh"
        if same or recorded in resumable:
            return "resume"
        raise UsageError(f"{self.path}: cannot be resumed: it was begun with another configuration")

    def _recorded(self, name: str) -> str | None:
        recorded = filesystem.read_json(filesystem.join(self.path, CONFIG))
        return recorded.get(name) if isinstance(recorded, dict) else None

    @contextmanager
    def staging(self) -> Iterator[str]:
        """A new folder beside the output, to be filled; becomes the output where the block ends without an error.

        Removed otherwise, as are those that killed predecessors left.
        """
        folder = self._beside("staging")
        self._sweep()
        filesystem.make_folder(folder)
        try:
            self._mark(folder)
            yield folder
            # A successor sweeps it away; what is still written then makes the folder anew, with a part of the content.
            if not filesystem.exists(filesystem.join(folder, CONFIG)):
                raise _replaced(self.path)
            filesystem.write_bytes(filesystem.join(folder, SUCCESS), b"")
            publish_folder(folder, self.path)
        except BaseException:
            filesystem.remove(folder)
            raise

    def begin(self) -> None:
        """Make the output folder, empty but for its mark, for an output that fills up in place."""
        self._sweep()
        filesystem.remove(self.path)
        filesystem.make_folder(self.path)
        self.claim()

    def claim(self) -> None:
        """Make this the one that fills up the output in place, under its own configuration.

        A predecessor may still be running: where a scheduler has lost sight of it, nobody ends it. It is not waited
        for; it ends by itself when it next calls `check_owner`.
        """
        self._mark(self.path)
        filesystem.write_bytes(filesystem.join(self.path, OWNER), self.owner.encode())

    def complete(self) -> None:
        """Declare an output that filled up in place complete. Raises RunError where a successor has taken it over."""
        check_owner(self.path, self.owner)
        filesystem.write_bytes(filesystem.join(self.path, SUCCESS), b"")

    def _mark(self, folder: str) -> None:
        made = {"config_hash": self.config_hash, "created_by": f"sparksplit {__version__}"}
        if self.input_hash is not None:
            made["input_hash"] = self.input_hash
        filesystem.write_bytes(filesystem.join(folder, CONFIG), json.dumps(made).encode() + b"\n")

    def _beside(self, kind: str) -> str:
        return _hidden(self.path, kind)

    def _sweep(self) -> None:
        folder, last = filesystem.parent(self.path), filesystem.name(self.path)
        for name in filesystem.listing(folder):
            if name.startswith((f".{last}.staging-", f".{last}.old-")):
                filesystem.remove(filesystem.join(folder, name))


def made_from(path: str) -> dict[str, str]:
    """What is recorded of how the output `path` was made, and of what; empty where that is not known."""
    file = filesystem.join(path, CONFIG)
    recorded = filesystem.read_json(file) if filesystem.exists(file) else {}
    return {name: recorded[name] for name in ("config_hash", "input_hash") if name in recorded}


def check_owner(path: str, owner: str) -> None:
    """Raise RunError where another than `owner` (Output.owner) fills up the output `path` by now."""
    file = filesystem.join(path, OWNER)
    if not filesystem.exists(file) or filesystem.read_bytes(file) != owner.encode():
        raise _replaced(path)


def _replaced(path: str) -> RunError:
    return RunError(f"{path}: another run has taken over this output; this one ends")


def publish_file(path: str, content: bytes) -> None:
    """Write a file that appears whole, or not at all."""
    filesystem.write_bytes(path, content)


def publish_folder(temporary: str, final: str) -> None:
    """Rename the folder `temporary` to `final`, in place of what is there.

    What was there is set aside first and removed last: a crash in between leaves one of the two whole, or
    neither, never a mixture.
    """
    filesystem.make_folder(filesystem.parent(final))
    if not filesystem.exists(final):
        filesystem.rename(temporary, final)
        return
    old = _hidden(final, "old")
    filesystem.rename(final, old)
    filesystem.rename(temporary, final)
    filesystem.remove(old)


def _hidden(path: str, kind: str) -> str:
    """A new name beside `path`, which listings of inputs skip."""
    parent = filesystem.parent(path).rstrip("/")
    return f"{parent}/.{filesystem.name(path)}.{kind}-{uuid.uuid4().hex[:8]}"
