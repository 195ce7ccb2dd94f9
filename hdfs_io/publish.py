"""Atomic publishing: an output appears by rename, complete, or not at all; one command at a time fills it."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from hdfs_io import filesystem, lease
from sparksplit import __version__
from sparksplit.base.errors import InputError, RunError, SparksplitError, UsageError

log = logging.getLogger(__name__)

SUCCESS = "_SUCCESS"
"""Written last: a folder without it is not complete."""
CONFIG = "_CONFIG"
"""Written first: which command's output the folder is, and the hash of its configuration."""

Decision = Literal["done", "fresh", "resume"]

COMMANDS = {
    "preprocess": "a prepared data set",
    "train": "a run of train",
    "compare": "a comparison",
    "predict": "predictions",
}
"""What each command leaves."""
_SIGNS = {
    "preprocess": ("manifest.json",),
    "train": ("run.json", "checkpoints", "metrics.jsonl"),
    "compare": ("results.json", "runs", "measured.json"),
    "predict": ("predictions",),
}
"""Names that tell a command's output whose mark does not name it: marks of before did not."""


@dataclass(frozen=True)
class _Found:
    """What is in the output's place. command: None where nothing but the mark is there, so that nothing is lost."""

    command: str | None
    config_hash: str | None
    input_hash: str | None
    complete: bool


class Output:
    """The output folder of a command: what is there already, and how a new one takes its place.

    path: the folder
    config_hash: of all that can change the result; leaves out the output's own path
    command: which one's it is, of COMMANDS; nothing else is ever replaced
    inputs: what the command reads, by the key that names it: none of it lies in the output, or the other way round
    input_hash: of what the input is now, where the configuration alone does not tell; None: not to be compared. A
        function, where it takes long: called only where there is something to compare it with; what fills the output
        says it with `made_of`
    folder: where an output that fills up in place does so: `path`, or beside it where a complete one has to stay until
        the new one is, too

    Raises UsageError for the root of a file system.
    """

    def __init__(
        self,
        path: str,
        config_hash: str,
        command: str,
        inputs: Mapping[str, str] | None = None,
        input_hash: str | Callable[[], str] | None = None,
    ) -> None:
        self.path = filesystem.followed(path).rstrip("/")
        if not filesystem.name(self.path or "/"):
            raise UsageError(f"{path}: is the root of a file system; choose a folder in it")
        self.config_hash, self.command, self.inputs = config_hash, command, inputs or {}
        self.input_hash = input_hash
        self.folder = self.path
        self.lease = lease.Lease(self.path, command)

    @property
    def owner(self) -> str:
        """What `check_owner` knows this one by."""
        return self.lease.holder.owner

    @contextmanager
    def claimed(
        self, overwrite: bool = False, resume: bool = False, resumable: Collection[str] = ()
    ) -> Iterator[Decision]:
        """Be the only one to fill the output while the block lasts; the decision as of then.

        Nothing is written where it is done. Raises OutputInUse where another command that still runs fills it, and what
        `decide` raises.
        """
        decision = self.decide(overwrite, resume, resumable)
        if decision == "done":
            yield decision
            return
        try:
            self.lease.acquire()
            self._mend()
            yield self.decide(overwrite, resume, resumable)
        finally:
            self.lease.release()

    def decide(self, overwrite: bool = False, resume: bool = False, resumable: Collection[str] = ()) -> Decision:
        """What is to be done, without doing it.

        done: it is complete and was made with the same configuration from the same input. fresh: there is nothing, or
        something incomplete or to be overwritten, that the new output will replace. resume: it is incomplete and may be
        gone on with, also where it is to take the place of a complete one.

        resumable: hashes of configurations, beside the own, whose unfinished output may be gone on with.

        Raises UsageError where the folder was made with another configuration or from other input, and, whatever
        `overwrite` says, where it is no output of this command, or lies in one of its inputs, or the other way round.
        """
        found = self._look(self.path)
        if problem := overlap(self.path, self.inputs):
            raise UsageError(problem)
        mine = {self.config_hash, *resumable}
        self.folder = self.path
        if found is not None and not found.complete:
            if resume and found.config_hash in mine:
                return "resume"
            if resume and not overwrite:
                other = "it was begun with another configuration; without --resume it is begun anew"
                raise UsageError(f"{self.path}: cannot be resumed: {other}")
            return "fresh"
        begun = self._look(self._next) if resume else None
        if begun is not None and begun.config_hash in mine:
            self.folder = self._next
            return "resume"
        if found is None:
            return "fresh"
        if overwrite:
            self.folder = self._next
            return "fresh"
        same = found.config_hash == self.config_hash
        if same and (self.input_hash is None or self._input_hash_now() == found.input_hash):
            return "done"
        other = "made from other input: it has changed since" if same else "made with another configuration"
        raise UsageError(f"{self.path}: exists, {other}; --overwrite replaces it")

    def _look(self, path: str) -> _Found | None:
        """What is at `path`, None where that is nothing. Raises UsageError where this command may not replace it."""
        if not filesystem.exists(path):
            return None
        if not filesystem.is_folder(path):
            raise InputError(f"{path}: the output exists and is not a folder")
        # One that was killed before it had marked the folder has left a part of the mark at most.
        names = {name for name in filesystem.listing(path) if not name.startswith(f".{CONFIG}.")}
        if not names:
            return None
        if CONFIG not in names:
            raise UsageError(f"{path}: exists and is not an output of sparksplit; choose another folder")
        mark = _mark_of(filesystem.read_bytes(filesystem.join(path, CONFIG)))
        command = mark.get("command") or _command_of(names)
        if command not in (None, self.command):
            is_one = COMMANDS.get(str(command), "another output of sparksplit")
            raise UsageError(f"{path}: is {is_one}, not {COMMANDS[self.command]}; choose another folder")
        return _Found(command, mark.get("config_hash"), mark.get("input_hash"), SUCCESS in names)

    @contextmanager
    def staging(self) -> Iterator[str]:
        """A new folder beside the output, to be filled; becomes the output where the block ends without an error.

        Removed otherwise. Within `claimed`.
        """
        folder = _hidden(self.path, "staging")
        filesystem.make_folder(folder)
        try:
            self._mark(folder)
            yield folder
            # A successor sweeps it away; what is still written then makes the folder anew, with a part of the content.
            check_owner(self.path, self.owner)
            if not filesystem.exists(filesystem.join(folder, CONFIG)):
                raise RunError(f"{self.path}: what was to become it was removed while it was filled")
            filesystem.write_bytes(filesystem.join(folder, SUCCESS), b"")
            publish_folder(folder, self.path)
        except BaseException:
            try:
                _discard(folder, self.path)
            except (SparksplitError, OSError) as error:  # the first error is the one to tell
                log.debug("%s: could not be removed: %s", folder, error)
            raise

    def made_of(self, folder: str, input_hash: str) -> None:
        """Say in `folder`, of `staging`, what the output is made of, where that was not known before."""
        self.input_hash = input_hash
        self._mark(folder)

    def begin(self) -> None:
        """Make `folder`, empty but for its mark, for an output that fills up in place. Within `claimed`."""
        check_owner(self.path, self.owner)
        # What was once begun beside it would be gone on with when this one is complete.
        for folder in {self.folder, self._next}:
            _discard(folder, self.path)
        filesystem.make_folder(self.folder)
        self._mark(self.folder)

    def go_on(self) -> None:
        """Go on with what is in `folder`, under the own configuration. Within `claimed`."""
        self._mark(self.folder)

    def abandon(self) -> None:
        """Remove `folder`, which holds nothing worth going on from. Within `claimed`.

        Raises RunError where a successor has taken it over.
        """
        check_owner(self.path, self.owner)
        _discard(self.folder, self.path)

    def complete(self) -> None:
        """Declare an output that filled up in place complete, and put it in its place.

        Raises RunError where a successor has taken it over.
        """
        check_owner(self.path, self.owner)
        filesystem.write_bytes(filesystem.join(self.folder, SUCCESS), b"")
        if self.folder != self.path:
            publish_folder(self.folder, self.path)
            self.folder = self.path

    @property
    def _next(self) -> str:
        return f"{filesystem.parent(self.path).rstrip('/')}/.{filesystem.name(self.path)}.next"

    def _mark(self, folder: str) -> None:
        mark = {"command": self.command, "config_hash": self.config_hash, "created_by": f"sparksplit {__version__}"}
        if isinstance(self.input_hash, str):
            mark["input_hash"] = self.input_hash
        filesystem.write_bytes(filesystem.join(folder, CONFIG), json.dumps(mark).encode() + b"\n")

    def _input_hash_now(self) -> str | None:
        if callable(self.input_hash):
            self.input_hash = self.input_hash()
        return self.input_hash

    def _mend(self) -> None:
        """Bring to its end what a killed predecessor was about to publish, and remove what else it left."""
        folder, last = filesystem.parent(self.path), filesystem.name(self.path)
        names = filesystem.entries(folder)
        # Of two that began in the same moment only one may touch anything: what the other has made by now is in the
        # list only if its lease was written before.
        self.lease.keep()
        new = [name for name in names if name.startswith(f".{last}.staging-")]
        old = [name for name in names if name.startswith(f".{last}.old-")]
        for name in (*(name for name in names if name == filesystem.name(self._next)), *new):
            path = filesystem.join(folder, name)
            if filesystem.exists(filesystem.join(path, SUCCESS)):
                publish_folder(path, self.path)
        for name in old:
            if not filesystem.exists(self.path):
                filesystem.rename(filesystem.join(folder, name), self.path)
        for name in (*new, *old):
            _discard(filesystem.join(folder, name), self.path)
        for name in names:
            if name.startswith(f".{last}.gone-"):
                _remove(filesystem.join(folder, name))
        for name in lease.left_over(self.path, names):
            _remove(filesystem.join(folder, name))


def _mark_of(content: bytes) -> dict[str, Any]:
    """What a mark says; nothing where it is damaged."""
    try:
        mark = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return mark if isinstance(mark, dict) else {}


def _command_of(names: Collection[str]) -> str | None:
    """The command whose output has the `names`; None where it has none but marks, "" where it is no command's."""
    for command, signs in _SIGNS.items():
        if any(name in names for name in signs):
            return command
    return "" if any(not name.startswith("_") for name in names) else None


def overlap(output: str, inputs: Mapping[str, str]) -> str | None:
    """What is wrong with `output` beside the `inputs` (key to path) of its command; None where nothing is.

    An output within an input's folder would be read as one the next time, or go when that is replaced.
    """
    for key, path in inputs.items():
        if filesystem.holds(output, path):
            what = "is" if filesystem.holds(path, output) else "holds"
            return f"{output}: {what} what the command reads ({key}: {path}); choose another output"
        if filesystem.holds(path, output):
            return f"{output}: lies within what the command reads ({key}: {path}); choose another output"
    return None


def made_from(path: str) -> dict[str, str]:
    """What is recorded of how the output `path` was made, and of what; empty where that is not known."""
    file = filesystem.join(path, CONFIG)
    recorded = filesystem.read_json(file) if filesystem.exists(file) else {}
    return {name: recorded[name] for name in ("config_hash", "input_hash") if name in recorded}


def check_owner(path: str, owner: str) -> None:
    """Raise RunError where another than `owner` (Output.owner) fills the output `path` by now."""
    if not lease.is_owner(path, owner):
        raise RunError(f"{path}: another run has taken over this output; this one ends")


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
    try:
        filesystem.rename(temporary, final)
    except BaseException:
        try:
            if not filesystem.exists(final):
                filesystem.rename(old, final)
        except (SparksplitError, OSError) as error:  # the next command does it; the first error is the one to tell
            log.debug("%s: could not be put back: %s", old, error)
        raise
    _discard(old, final)


def _discard(path: str, output: str) -> None:
    """Remove what is at `path`, of the folder `output`, or beside it.

    It is renamed first: what a kill leaves of a folder that was being removed is nothing that could be taken for an
    output, or be in the way of one.
    """
    if filesystem.exists(path):
        gone = _hidden(output, "gone")
        filesystem.rename(path, gone)
        _remove(gone)


def _remove(path: str) -> None:
    """Remove what is out of the way already; only said where that fails: readers may hold its files open on NFS."""
    try:
        filesystem.remove(path)
    except (SparksplitError, OSError) as error:
        log.warning("%s: is left over, the next command for this output tries again: %s", path, error)


def _hidden(path: str, kind: str) -> str:
    """A new name beside `path`, which listings of inputs skip."""
    parent = filesystem.parent(path).rstrip("/")
    return f"{parent}/.{filesystem.name(path)}.{kind}-{uuid.uuid4().hex[:8]}"
