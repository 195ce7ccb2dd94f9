"""Atomic publishing: an output appears by rename, complete, or not at all; one command at a time fills it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from hdfs_io import filesystem, lease
from hdfs_io.differences import differences, said
from hdfs_io.errors import InputError, RunError, SparksplitError, UsageError
from hdfs_io.fence import PREFIX, Fence, check_owner
from hdfs_io.marks import COMMANDS, CONFIG, SUCCESS, is_own, mark_of, only_marks
from hdfs_io.replacing import discard, hidden, overlap, publish_folder, remove, remove_old

log = logging.getLogger(__name__)

Decision = Literal["done", "fresh", "resume"]


@dataclass(frozen=True)
class _Found:
    """What is in the output's place. command: None where only the mark is there, so that nothing would be lost.
    extends: whether it began with the content of a complete output."""

    command: str | None
    config_hash: str | None
    input_hash: str | None
    complete: bool
    keys: Mapping[str, Any]
    extends: bool


class OtherUnfinished(UsageError):
    """In the output's place is an unfinished one that is not to be continued. config_hash: its own."""

    def __init__(self, text: str, config_hash: str | None) -> None:
        super().__init__(text)
        self.config_hash = config_hash


class Output:
    """The output folder of a command: what is there already, and how a new one takes its place.

    path: the folder
    config_hash: the hash of everything that can change the result; leaves out the output's own path
    command: whose output it is, of COMMANDS; no other command's output is ever replaced
    inputs: what the command reads, by the configuration's key: none may lie in the output, nor the output in one of
    them
    input_hash: the hash of the input as it is now, where the configuration alone does not tell; None: not compared. A
        function where hashing takes long: it is called only if there is something to compare with, and whoever fills
        the output records the hash with `made_of`
    keys: what `config_hash` was made of, so that the next command can say what differs: as in `differences`
    extends: whether a complete output with these keys and this hash is a part of this one, which then begins with its
        content and replaces it when complete
    folder: where an output that fills up in place does so: `path`, or beside it while a complete output has to stay
        until the new one is complete too

    Raises UsageError for the root of a file system.
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
    ) -> None:
        self.path = filesystem.followed(path).rstrip("/")
        if not filesystem.name(self.path or "/"):
            raise UsageError(f"{path}: is the root of a file system; choose a folder in it")
        self.config_hash, self.command, self.inputs = config_hash, command, inputs or {}
        self.input_hash, self.keys = input_hash, keys or {}
        self._extends, self.extending = extends, False
        """Whether a complete output is extended, as the last `decide` has found."""
        self.folder = self.path
        self.lease = lease.Lease(self.path, command)
        self._fence: Fence | None = None

    @property
    def owner(self) -> str:
        """The id that `check_owner` compares."""
        return self.lease.holder.owner

    @contextmanager
    def claimed(self, overwrite: bool = False, going_on: Collection[str] | None = None) -> Iterator[Decision]:
        """Be the only one to fill the output while the block lasts; gives the decision as it then is.

        Writes nothing where that is done; what a command that was killed at its very end has left beside it is removed.
        Folders that are made for it, and that are empty at its end, are removed.

        Each time with a lease of its own, which is given back at the block's end even if a signal comes meanwhile.

        Raises OutputInUse where another command that is still running fills it, and whatever `decide` raises.
        """
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
            self._leave(made)

    def _leave(self, made: Sequence[str]) -> None:
        """Give everything back, the folders that were `made` too; a signal ends one of the steps, and not the rest."""
        try:
            if self._fence is not None:
                self._fence.open()
        finally:
            try:
                self.lease.release()
            finally:
                filesystem.remove_empty(made)

    def _tidy(self) -> None:
        """Give back the lease of a command that completed the output and was killed before it could, and take its fence
        away."""
        try:
            found = lease.read(self.lease.file)
            if found is not None and found.gone:
                try:
                    self.lease.acquire()
                    if any(name.startswith(PREFIX) for name in filesystem.listing(self.path)):
                        self.enclose().open()
                finally:
                    self.lease.release()
        except (SparksplitError, OSError) as error:  # the output is complete all the same
            log.debug("%s: %s", self.path, error)

    def decide(self, overwrite: bool = False, going_on: Collection[str] | None = None) -> Decision:
        """What to do, without doing it.

        done: it is complete and was made with the same configuration from the same input. fresh: there is nothing, or
        something incomplete or to be overwritten, which the new output will replace. resume: it is incomplete and is
        continued, even if it is to replace a complete one.

        going_on: hashes of the configurations whose unfinished output is continued. Then one of another configuration
        is replaced only with `overwrite`. None: whatever is unfinished is replaced.

        Raises OtherUnfinished for such an unfinished output. Raises UsageError where the folder was made with another
        configuration or from other input and, whatever `overwrite` says, where it is no output of this command, lies in
        one of its inputs, or holds one.
        """
        found = self._look(self.path)
        if problem := overlap(self.path, self.inputs):
            raise UsageError(problem)
        self.folder, self.extending = self.path, False
        if found is not None and not found.complete:
            return self._unfinished(found, overwrite, going_on)
        begun = self._look(self._next) if going_on and (overwrite or found is None) else None
        if begun is not None and begun.config_hash in (going_on or ()) and not (overwrite and begun.extends):
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
        if self._extends(found.keys, found.config_hash):
            return self._extended()
        other = ", but its input has changed since it was made" if same else self._other(found, ", made ")
        raise UsageError(f"{self.path}: exists{other}; --overwrite replaces it")

    def _unfinished(self, found: _Found, overwrite: bool, going_on: Collection[str] | None) -> Decision:
        """What to do with the unfinished output in its place; as `decide`."""
        if going_on is not None and found.config_hash in going_on:
            return "resume"
        if going_on is None or overwrite:
            return "fresh"
        raise OtherUnfinished(f"{self.path}: is unfinished{self._other(found, ', ')}", found.config_hash)

    def _extended(self) -> Decision:
        """What to do where a complete output is extended; as `decide`. Raises UsageError where another output that is
        to replace it is unfinished."""
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

    def _look(self, path: str) -> _Found | None:
        """What is at `path`; None where there is nothing. Raises UsageError where this command may not replace it."""
        if not filesystem.exists(path):
            return None
        if not filesystem.is_folder(path):
            raise InputError(f"{path}: the output exists and is not a folder")
        # A command that was killed before it had marked the folder leaves at most a part of the mark.
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

    def _other(self, found: _Found, how: str) -> str:
        """That the configuration of what was `found` is another, and which keys differ, as far as that is known."""
        if found.config_hash == self.config_hash:
            return ""
        return f"{how}with another configuration{said(differences(found.keys, self.keys))}"

    @contextmanager
    def staging(self) -> Iterator[str]:
        """A new folder beside the output, to be filled; becomes the output if the block ends without an error.

        It is removed otherwise. Use it within `claimed`.
        """
        with self._beside() as folder:
            yield folder
            filesystem.flush(folder)
            # After what may take long; and nothing from here on makes the folder anew.
            self._check_staged(folder)
            filesystem.write_bytes(filesystem.join(folder, SUCCESS), b"", parents=False)
            self._publish(folder, self.path, lambda: self._check_staged(folder))

    @contextmanager
    def _beside(self) -> Iterator[str]:
        """A new folder beside the output, with its mark; removed if the block fails."""
        folder = hidden(self.path, "staging")
        filesystem.make_folder(folder)
        try:
            self._mark(folder)
            yield folder
        except BaseException:
            try:
                discard(folder, self.path)
            except (SparksplitError, OSError) as error:  # the first error is the one to report
                log.debug("%s: could not be removed: %s", folder, error)
            raise

    def _check_staged(self, folder: str) -> None:
        """Raise RunError where a successor has taken over the output, or has removed `folder`, from `staging`: whoever
        was still writing then may have made it anew, with a part of the content."""
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
        """Record in `folder`, from `staging`, what the output is made of, where that was not known before."""
        self.input_hash = input_hash
        self._check_staged(folder)
        self._mark(folder)

    def begin(self, taken_over: Iterable[str] = ()) -> None:
        """Make `folder`, empty but for its mark and what is not the output's own, for an output that fills up in place.

        taken_over: paths of files within the complete output that it begins with a copy of. Use it within `claimed`.
        """
        self._check_owner()
        # Anything begun beside it earlier would be resumed once this one is complete.
        discard(self._next, self.path, self._check_owner)
        with self._beside() as folder:
            for name in taken_over:
                content = filesystem.read_bytes(filesystem.join(self.path, name))
                filesystem.write_bytes(filesystem.join(folder, name), content)
            self._publish(folder, self.folder, self._check_owner)
        self.enclose()

    def go_on(self) -> None:
        """Continue with what is in `folder`, under this configuration. Use it within `claimed`."""
        self.enclose()
        self._mark(self.folder, self.fence)

    def enclose(self) -> Fence:
        """Fence `folder` anew: whoever had been given the fence before writes nothing more."""
        self._fence = Fence.enclose(self.folder, self.path, self.owner)
        return self._fence

    def check(self) -> None:
        """Raise RunError if the lease was seen to be another's; costs nothing while it was not."""
        if self.lease.lost.is_set():
            self.fence.check()

    @property
    def fence(self) -> Fence:
        """The way to write into `folder`, once it has begun."""
        if self._fence is None:
            raise RuntimeError("the output has not been started")
        return self._fence

    def abandon(self) -> None:
        """Remove `folder`, which holds nothing worth continuing from, unless there is something else in it. Use it
        within `claimed`.

        Raises RunError where a successor has taken it over.
        """
        if all(map(self._is_own, filesystem.listing(self.folder))):
            discard(self.folder, self.path, self._check_owner)

    def complete(self) -> None:
        """Declare complete an output that filled up in place, and move it into its place.

        Raises RunError where a successor has taken it over.
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
        """Finish what a killed predecessor was about to publish, and remove whatever else it left."""
        folder, last = filesystem.parent(self.path), filesystem.name(self.path)
        names = filesystem.entries(folder)
        # Of two that began at the same moment only one may touch anything: what the other has made by now is in the
        # list only if its lease was written earlier.
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
