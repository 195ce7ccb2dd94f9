"""Atomic publishing: an output appears complete by rename, or not at all. One command at a time fills it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from hdfs_io import ending, filesystem, lease
from hdfs_io.differences import differences, said
from hdfs_io.errors import InputError, RunError, SparksplitError, UsageError
from hdfs_io.fence import PREFIX, Fence, check_owner
from hdfs_io.marks import COMMANDS, CONFIG, SUCCESS, is_own, mark_of, only_marks
from hdfs_io.replacing import discard, hidden, overlap, publish_folder, remove, remove_old

log = logging.getLogger(__name__)

Decision = Literal["done", "fresh", "resume"]


@dataclass(frozen=True)
class _Found:
    """The state of the output's path.

    command: None if the folder holds only marker files, so that nothing would be lost. extends: whether the output
    began with the content of a complete output.
    """

    command: str | None
    config_hash: str | None
    input_hash: str | None
    complete: bool
    keys: Mapping[str, Any]
    extends: bool


class OtherUnfinished(UsageError):
    """The output's path holds an unfinished output that must not be continued. config_hash: hash of that output."""

    def __init__(self, text: str, config_hash: str | None) -> None:
        super().__init__(text)
        self.config_hash = config_hash


class Output:
    """The output folder of a command: finds out what exists already, and puts a new output in its place.

    path: the folder
    config_hash: the hash of everything that can change the result, without the output's own path
    command: the command that writes the output, from COMMANDS. The output of another command is never replaced
    inputs: the paths that the command reads, by configuration key. No input may lie in the output, and the output may
        not lie in an input
    input_hash: the hash of the current input, if the configuration alone does not identify it. None: not compared. Give
        a function if hashing takes long. It is called only if there is a hash to compare with; the caller then records
        the hash with `made_of`
    keys: the values behind `config_hash`, so that the next command can name the differences; see `differences`
    otherwise: what else the user can do if a complete output was made differently, for the message
    extends: whether a complete output with these keys and this hash is a part of this one. This output then begins with
        its content, and replaces it when complete
    folder: the folder of an output that is filled in place. Usually `path`; a folder beside it while a complete output
        must stay until the new one is complete

    Raise UsageError for the root of a file system, and for a folder that lasts only as long as this YARN container.
    """

    def __init__(
        self,
        path: str,
        config_hash: str,
        command: str,
        inputs: Mapping[str, str] | None = None,
        input_hash: str | Callable[[], str] | None = None,
        keys: Mapping[str, Any] | None = None,
        extends: Callable[[Mapping[str, Any], str | None], bool] = lambda keys, config_hash: False,
        otherwise: str = "",
    ) -> None:
        self.path = filesystem.followed(path).rstrip("/")
        if not filesystem.name(self.path or "/"):
            raise UsageError(f"{path}: is the root of a file system; choose a folder in it")
        container = os.environ.get("CONTAINER_ID")
        if container and self.path.startswith("/") and container in filesystem.parent(self.path).split("/"):
            raise UsageError(
                f"{path}: is in the folder of this YARN container, which YARN removes when the container ends; give an "
                "address such as hdfs:///user/me/run, or a folder that all hosts mount"
            )
        self.config_hash, self.command, self.inputs = config_hash, command, inputs or {}
        self.input_hash, self.keys = input_hash, keys or {}
        self._otherwise = f"; {otherwise}" if otherwise else ""
        self._extends, self.extending = extends, False
        """Whether a complete output is extended, as the last `decide` has found."""
        self.folder = self.path
        self.lease = lease.Lease(self.path, command)
        self._fence: Fence | None = None

    @property
    def owner(self) -> str:
        """The owner's id for `check_owner`."""
        return self.lease.holder.owner

    @contextmanager
    def claimed(self, overwrite: bool = False, going_on: Collection[str] | None = None) -> Iterator[Decision]:
        """Hold the right to fill the output while the block lasts. Yield the current decision.

        If the decision is `done`, write nothing; only remove the remains of a command that was killed at its very end.
        Parent folders made for the output are removed if they are empty at the end.

        Each call takes a new lease. The lease is given back at the block's end, even if a signal comes meanwhile. All
        tidying together has a short time (`ending`): the next command for the output finishes the rest.

        Raise OutputInUse if another command that is still running fills the output. Raise the errors of `decide`.
        """
        with ending.block():
            self.lease = lease.Lease(self.path, self.command)
            decision = self.decide(overwrite, going_on)
            if decision == "done":
                self._tidy()
                yield decision
                return
            made = filesystem.missing(filesystem.parent(self.path))
            try:
                self.lease.acquire()
                self._mend()
                yield self.decide(overwrite, going_on)
            finally:
                ending.begin()
                self._leave(made)

    def _leave(self, made: Sequence[str]) -> None:
        """Give back the fence, the lease and the empty folders among `made`. A signal may end one step, but the other
        steps still run.
        """
        try:
            if self._fence is not None:
                self._fence.open()
        finally:
            try:
                self.lease.release()
            finally:
                filesystem.remove_empty(made)

    def _tidy(self) -> None:
        """Give back the lease, and remove the fence, of a command that was killed after it had completed the output."""
        try:
            holder = lease.read(self.lease.file)
            if holder is not None and holder.gone:
                try:
                    self.lease.acquire()
                    if any(name.startswith(PREFIX) for name in filesystem.listing(self.path)):
                        self.enclose().open()
                finally:
                    self.lease.release()
        except (SparksplitError, OSError) as error:  # the output is complete anyway
            log.debug("%s: %s", self.path, error)

    def decide(self, overwrite: bool = False, going_on: Collection[str] | None = None) -> Decision:
        """Return what to do, without doing it.

        done: the output is complete and was made with this configuration from this input.
        fresh: nothing exists, or the existing output is incomplete or to be overwritten. A new output replaces it.
        resume: the output is incomplete and is continued, even if it will replace a complete one.

        going_on: hashes of the configurations whose unfinished output may be continued. An unfinished output of another
        configuration is then replaced only with `overwrite`. None: replace any unfinished output.

        Raise OtherUnfinished for an unfinished output of another configuration. Raise UsageError if the output was made
        with another configuration or from other input. Regardless of `overwrite`, raise UsageError if the folder is not
        an output of this command, lies in an input, or holds an input.
        """
        existing = self._look(self.path)
        if problem := overlap(self.path, self.inputs):
            raise UsageError(problem)
        self.folder, self.extending = self.path, False
        if existing is not None and not existing.complete:
            return self._unfinished(existing, overwrite, going_on)
        begun = self._look(self._next) if going_on and (overwrite or existing is None) else None
        if begun is not None and begun.config_hash in (going_on or ()) and not (overwrite and begun.extends):
            self.folder = self._next
            return "resume"
        if existing is None:
            return "fresh"
        if overwrite:
            self.folder = self._next
            return "fresh"
        same = existing.config_hash == self.config_hash
        if same and (self.input_hash is None or self._input_hash_now() == existing.input_hash):
            return "done"
        if self._extends(existing.keys, existing.config_hash):
            return self._extended()
        raise self._made_otherwise(existing)

    def may_be(self, names: Collection[str]) -> bool:
        """Return whether the output is complete, and was made with the values of `keys` that have these names. For a
        caller that does not know all keys yet.

        names: sections and keys without a section. Empty: any complete output may be the one.

        Raise UsageError if a complete output was made with another value, or if the folder is not an output of this
        command.
        """
        existing = self._look(self.path)
        if existing is None or not existing.complete:
            return False
        then = {name: value for name, value in existing.keys.items() if name in names}
        now = {name: value for name, value in self.keys.items() if name in names}
        if differences(then, now):
            raise self._made_otherwise(replace(existing, keys=then))
        return True

    def _unfinished(self, existing: _Found, overwrite: bool, going_on: Collection[str] | None) -> Decision:
        """Return the decision for the unfinished output at `path`; see `decide`."""
        if going_on is not None and existing.config_hash in going_on:
            return "resume"
        if going_on is None or overwrite:
            return "fresh"
        raise OtherUnfinished(f"{self.path}: is unfinished{self._other(existing, ', ')}", existing.config_hash)

    def _extended(self) -> Decision:
        """Return the decision if a complete output is extended; see `decide`.

        Raise UsageError if another unfinished output already waits to replace it.
        """
        self.folder, self.extending = self._next, True
        begun = self._look(self._next)
        if begun is None:
            return "fresh"
        if begun.config_hash == self.config_hash or self._extends(begun.keys, begun.config_hash):
            return "resume"
        raise UsageError(
            f"{self._next}: is to replace {self.path}, and is unfinished{self._other(begun, ', ')}; finish it with its "
            "own command, or remove it"
        )

    def _made_otherwise(self, existing: _Found) -> UsageError:
        """Return the error for a complete output of another configuration or from other input."""
        same = existing.config_hash == self.config_hash
        other = ", but its input has changed since it was made" if same else self._other(existing, ", made ")
        return UsageError(f"{self.path}: exists{other}; --overwrite replaces it{self._otherwise}")

    def _look(self, path: str) -> _Found | None:
        """Return what exists at `path`; None if nothing does. Raise UsageError if this command may not replace it."""
        if not filesystem.exists(path):
            return None
        if not filesystem.is_folder(path):
            raise InputError(f"{path}: the output exists and is not a folder")
        # A command killed before it marked the folder leaves at most a part of the marker file.
        names = {name for name in filesystem.listing(path) if not name.startswith(f".{CONFIG}.")}
        if not names:
            return None
        if CONFIG not in names:
            raise UsageError(f"{path}: exists and is not an output of sparksplit; choose another folder")
        mark = mark_of(filesystem.read_bytes(filesystem.join(path, CONFIG)))
        command = mark.get("command")
        if command != self.command and not (command is None and only_marks(names)):
            if command is None:
                raise UsageError(
                    f"{path}: {CONFIG} in this folder is damaged, so its command is unknown. "
                    f"Remove the folder, or choose another"
                )
            is_one = COMMANDS.get(str(command), "another output of sparksplit")
            raise UsageError(f"{path}: is {is_one}, not {COMMANDS[self.command]}; choose another folder")
        keys = mark.get("keys")
        hashes = mark.get("config_hash"), mark.get("input_hash")
        extends = mark.get("extends") is True
        return _Found(command, *hashes, SUCCESS in names, keys if isinstance(keys, dict) else {}, extends)

    def _other(self, existing: _Found, how: str) -> str:
        """Return the text that says that the configuration of `existing` differs, with the known keys. Empty if it does
        not differ.
        """
        if existing.config_hash == self.config_hash:
            return ""
        return f"{how}with another configuration{said(differences(existing.keys, self.keys))}"

    @contextmanager
    def staging(self) -> Iterator[str]:
        """Yield a new folder beside the output, to be filled. It becomes the output if the block ends without an error.

        Otherwise it is removed. Use this within `claimed`.
        """
        with self._beside() as folder:
            yield folder
            filesystem.flush(folder)
            # Check after the slow steps. From here on, no step makes the folder anew.
            self._check_staged(folder)
            filesystem.write_bytes(filesystem.join(folder, SUCCESS), b"", parents=False)
            self._publish(folder, self.path, lambda: self._check_staged(folder))

    @contextmanager
    def _beside(self) -> Iterator[str]:
        """Yield a new folder beside the output, with its marker file. Remove it if the block fails."""
        folder = hidden(self.path, "staging")
        filesystem.make_folder(folder)
        try:
            self._mark(folder)
            yield folder
        except BaseException:
            ending.begin()
            try:
                discard(folder, self.path)
            except (SparksplitError, OSError) as error:  # report the first error
                log.debug("%s: could not be removed: %s", folder, error)
            raise

    def _check_staged(self, folder: str) -> None:
        """Raise RunError if a successor has taken over the output, or has removed `folder` from `staging`.

        After such a removal, a late writer may have made the folder anew with a part of the content.
        """
        marked = filesystem.exists(filesystem.join(folder, CONFIG))
        self._check_owner()
        if not marked:
            raise RunError(f"{self.path}: its temporary folder was removed while this command wrote to it")

    def _check_owner(self) -> None:
        check_owner(self.path, self.owner)

    def _publish(self, folder: str, place: str, look: Callable[[], None]) -> None:
        publish_folder(folder, place, look, self._is_own)

    def _is_own(self, name: str) -> bool:
        return is_own(self.command, name)

    def made_of(self, folder: str, input_hash: str) -> None:
        """Record in `folder`, from `staging`, the hash of the input, if it was unknown before."""
        self.input_hash = input_hash
        self._check_staged(folder)
        self._mark(folder)

    def begin(self, taken_over: Iterable[str] = ()) -> None:
        """Make `folder` for an output that is filled in place. It holds only its marker file and files that do not
        belong to the output.

        taken_over: files of the complete output to copy into the new one, as paths within it. Use this within
        `claimed`.
        """
        self._check_owner()
        # A folder begun beside the output earlier would be resumed once this output is complete.
        discard(self._next, self.path, self._check_owner)
        with self._beside() as folder:
            for name in taken_over:
                content = filesystem.read_bytes(filesystem.join(self.path, name))
                filesystem.write_bytes(filesystem.join(folder, name), content)
            self._publish(folder, self.folder, self._check_owner)
        self.enclose()

    def go_on(self) -> None:
        """Continue the output in `folder` with this configuration. Use this within `claimed`."""
        self.enclose()
        self._mark(self.folder, self.fence)

    def enclose(self) -> Fence:
        """Put a new fence around `folder`. Holders of an earlier fence can write nothing more."""
        self._fence = Fence.enclose(self.folder, self.path, self.owner)
        return self._fence

    @contextmanager
    def adding(self) -> Iterator[Fence]:
        """Hold the right to add files to the complete output while the block lasts. Yield its fence.

        Raise OutputInUse if another command fills the output.
        """
        self.lease = lease.Lease(self.path, self.command)
        try:
            self.lease.acquire()
            yield self.enclose()
        finally:
            self._leave(())

    def check(self) -> None:
        """Raise RunError if another command was seen to hold the lease. Costs nothing otherwise."""
        if self.lease.lost.is_set():
            self.fence.check()

    @property
    def fence(self) -> Fence:
        """The fence for writing into `folder`, once the output has begun."""
        if self._fence is None:
            raise RuntimeError("the output has not been started")
        return self._fence

    def abandon(self) -> None:
        """Remove `folder`, which holds nothing to continue from, unless it also holds files of the user. Use this
        within `claimed`.

        Raise RunError if a successor has taken over the output.
        """
        if all(map(self._is_own, filesystem.listing(self.folder))):
            discard(self.folder, self.path, self._check_owner)

    def complete(self) -> None:
        """Mark an output that was filled in place as complete, and move it to `path`.

        Raise RunError if a successor has taken over the output.
        """
        filesystem.flush(self.folder)
        self.fence.write_bytes(filesystem.join(self.folder, SUCCESS), b"")
        self.fence.open()
        if self.folder != self.path:
            self._publish(self.folder, self.path, self._check_owner)
            self.folder = self.path

    @property
    def _next(self) -> str:
        return f"{filesystem.parent(self.path).rstrip('/')}/.{filesystem.name(self.path)}.next"

    def _mark(self, folder: str, fence: Fence | None = None) -> None:
        mark: dict[str, Any] = {"command": self.command, "config_hash": self.config_hash}
        if self.keys:
            mark["keys"] = self.keys
        if self.extending:
            mark["extends"] = True
        if isinstance(self.input_hash, str):
            mark["input_hash"] = self.input_hash
        content = json.dumps(mark).encode() + b"\n"
        path = filesystem.join(folder, CONFIG)
        if fence is None:
            filesystem.write_bytes(path, content, parents=False)
        else:
            fence.write_bytes(path, content)

    def _input_hash_now(self) -> str | None:
        if callable(self.input_hash):
            self.input_hash = self.input_hash()
        return self.input_hash

    def _mend(self) -> None:
        """Finish what a killed predecessor was about to publish, and remove its other remains."""
        folder, last = filesystem.parent(self.path), filesystem.name(self.path)
        names = filesystem.entries(folder)
        # If two commands began at the same time, only one may change anything. Listing first, then checking the
        # lease, is safe: the list has another command's folders only if that command wrote its lease earlier.
        self.lease.keep()
        new = [name for name in names if name.startswith(f".{last}.staging-")]
        old = [name for name in names if name.startswith(f".{last}.old-")]
        for name in (*(name for name in names if name == filesystem.name(self._next)), *new):
            path = filesystem.join(folder, name)
            if all(filesystem.exists(filesystem.join(path, mark)) for mark in (CONFIG, SUCCESS)):
                self._publish(path, self.path, self._check_owner)
        for name in old:
            path = filesystem.join(folder, name)
            if self._look(self.path) is None and filesystem.exists(filesystem.join(path, CONFIG)):
                self._check_owner()
                filesystem.rename(path, self.path)
            else:
                remove_old(path, self.path, self._is_own)
        for name in new:
            discard(filesystem.join(folder, name), self.path)
        for name in names:
            if name.startswith(f".{last}.gone-"):
                remove(filesystem.join(folder, name))
        for name in lease.left_over(self.path, names):
            remove(filesystem.join(folder, name))
