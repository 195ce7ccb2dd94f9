"""A lease on an output: a small hidden file beside the output. It names the command that fills the output and shows
that this command still runs.

The driver's lease thread renews the file every RENEW_SECONDS. A command that finds another command's lease watches
whether the file changes. It measures the file's age by the file system's clock only, because the hosts' clocks may
differ.

To replace a lease file: write the new content beside it, check who holds the lease, then rename. To take a lease over:
also remove its former owner's files beside it. So a late rename finds nothing to rename, however long its process was
paused after the check.
"""

from __future__ import annotations

import contextvars
import json
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from hdfs_io import filesystem
from hdfs_io.errors import InputError, Missing, OutputInUse
from hdfs_io.filesystem import FileFacts

RENEW_SECONDS = 10.0
EXPIRE_SECONDS = 60.0
"""A lease that was not renewed for this long no longer belongs to its owner."""
WATCH_SECONDS = 15.0
"""Watch an old lease for at least this long. It may be old because a machine slept or a NameNode was not available."""
_LOOK_SECONDS = 0.5
_AWAY_SECONDS = 600.0
"""Extra time to watch a lease, at most, if its file system answers slowly again and again."""

_SHORT, _NO_OWNER = 8, "unknown"
"""Characters of an owner's id in a file's name, and the text that replaces an invalid id there."""
_NEXT = "next"
"""Last part of the name of a file that will replace a lease file."""

_DEAD = -1
"""When a process started that only waits for its parent."""

log = logging.getLogger(__name__)

_given_back: set[str] = set()
"""Owners of the leases that this process has given back. A file of theirs that could not be removed belongs to nobody.
"""


@dataclass(frozen=True)
class Holder:
    """The command that fills an output.

    owner: a unique id.
    machine: the kernel's boot id and process-number namespace; "" if unknown. Copies of one virtual machine snapshot
        share it, so the host's name counts too.
    started: when the process `pid` started, in the kernel's ticks, because process numbers are reused.
    renewed: number of renewals.
    """

    owner: str
    command: str
    host: str
    pid: int
    machine: str
    started: int | None
    since: str
    renewed: int = 0
    application_id: str | None = None

    def __str__(self) -> str:
        if not self.owner:
            return "an unknown command (the hidden .owner file beside it is damaged)"
        application = f", {self.application_id}" if self.application_id else ""
        return f"{self.command} on {self.host} (process {self.pid}{application}), since {self.since}"

    @property
    def gone(self) -> bool:
        """Whether the holder's process is known to have ended or to have given the lease back. Known only on the
        holder's machine, or in its process.
        """
        return self.owner in _given_back or (self._on_this_machine and _ended(self.pid, self.started))

    @property
    def here(self) -> bool:
        """Whether the holder is this process."""
        return self._on_this_machine and self.pid == os.getpid() and not self.gone

    @property
    def _on_this_machine(self) -> bool:
        return bool(self.machine) and (self.machine, self.host) == (_machine(), socket.gethostname())


_UNKNOWN = Holder("", "", "", 0, "", None, "")


class Lease:
    """This process's lease in `file` on the output `path`. `acquire` takes it. After `release`, this object cannot take
    it again.

    pause, clock: for tests.
    """

    def __init__(
        self,
        path: str,
        command: str,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path, self.file = path, file_of(path)
        self.holder = Holder(
            owner=uuid.uuid4().hex,
            command=command,
            host=socket.gethostname(),
            pid=os.getpid(),
            machine=_machine(),
            started=_started(os.getpid()),
            since=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        )
        self._pause, self._clock = pause, clock
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self.lost = threading.Event()
        """Set once another command is seen to hold the lease."""
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lease. Raise OutputInUse if another command holds it. Wait if it is not clear whether that command
        still runs.

        If several commands begin at the same time, one gets the lease.
        """
        end = self._clock() + 2 * EXPIRE_SECONDS
        while not self._take():
            if self._clock() > end:
                raise in_use(self.path, read(self.file) or _UNKNOWN)
            self._pause(_LOOK_SECONDS)
        self._start()

    def await_free(self) -> None:
        """Return once no other command holds the lease. The lease is not taken. Raise OutputInUse if another command
        holds it. Wait if it is not clear whether that command still runs.
        """
        other = read(self.file)
        if other is not None and not other.gone:
            self._watch(other)

    def _take(self) -> bool:
        """Take the lease. Return False if another command is just taking it over, or has just given it back. Raise
        OutputInUse.
        """
        other = read(self.file)
        if other is not None and not other.gone:
            other = self._watch(other)
        if self._create(self.file) if other is None else self._take_over(self.file, other):
            return True
        now = read(self.file)
        if now is not None and now != other and not now.gone:
            raise in_use(self.path, now)
        return False

    def _watch(self, other: Holder) -> Holder | None:
        """Wait until the lease of `other` has ended, and return the lease that is there then. Raise OutputInUse if it
        does not end.
        """
        if other.here:
            raise in_use(self.path, other)
        written, old = filesystem.modified(self.file), age(self.file)
        if old is None:  # given back, and perhaps taken by another command since
            now = read(self.file)
            return now if now is None or now.gone else self._watch(now)
        # A clock that went back since the last renewal makes the lease look younger than 0 s.
        patience = max(EXPIRE_SECONDS - max(old, 0.0), WATCH_SECONDS)
        log.warning(
            "%s: is being written by %s; waiting up to %.0f s to see whether that command still runs",
            self.path,
            other,
            patience,
        )
        # A pause counts as long as it should last. If it lasts longer, this process stood still (SIGSTOP, a paused
        # virtual machine). The owner may have stood still too, so its silence meanwhile means nothing.
        left, spare = patience, _AWAY_SECONDS
        while left > 0:
            pause = min(_LOOK_SECONDS, left)
            self._pause(pause)
            asked = self._clock()
            now = read(self.file)
            answered = self._clock() - asked
            left = max(0.0, left - pause - answered)
            if answered > _LOOK_SECONDS and left < WATCH_SECONDS:
                # The file system was not available to the owner either, or this process stood still: give the owner
                # time to renew.
                more = min(spare, WATCH_SECONDS - left)
                left, spare = left + more, spare - more
            if now is None or now.gone:
                return now
            # A lease of another version cannot be read, but its timestamp shows that it is being renewed.
            if now != other or filesystem.modified(self.file) not in (None, written):
                raise in_use(self.path, now)
        return other

    def _take_over(self, file: str, ended: Holder) -> bool:
        """Replace the ended lease `ended` in `file` by this one. Return False if another command was faster."""
        # Only the creator of the `turn` file may replace the ended lease. `turn` is a lease too: if its creator is
        # killed at this point, `turn` is taken over in the same way.
        turn = f"{file}.{_short(ended.owner)}"
        if not self._create(turn):
            maker = read(turn)
            if maker is None or not (maker.gone or abs(age(turn) or 0) > EXPIRE_SECONDS):
                return False
            if not self._take_over(turn, maker):
                return False
            filesystem.remove(_next_of(file, maker.owner))
        try:
            if read(file) is None:
                return self._create(file)
            if not self._replace(file, lambda now: now == ended):
                return False
            # The last renewal of `ended` may have come in between: then its process is alive.
            filesystem.remove(_next_of(file, ended.owner))
            now = read(file)
            return now is not None and now.owner == self.holder.owner
        finally:
            filesystem.remove(turn)

    def held(self) -> bool:
        """Whether this object still holds the lease."""
        return is_owner(self.path, self.holder.owner)

    def keep(self) -> None:
        """Raise OutputInUse if another command holds the lease now, or held it for a while: it may have filled the
        output.
        """
        current = read(self.file)
        if current is None:
            raise OutputInUse(
                f"{self.path}: another command has written this output in the meantime; run this command again"
            )
        if current.owner != self.holder.owner:
            raise in_use(self.path, current)

    def tell(self, application_id: str | None) -> None:
        """Add the Spark application's id, once known, to the lease that other commands read.

        Raise OutputInUse if another command holds the lease now, or held it for a while.
        """
        self.keep()
        with self._lock:
            self.holder = replace(self.holder, application_id=application_id)
        if not self._write():
            self.keep()

    def release(self) -> None:
        """Give the lease back. A failure is no error, because the lease expires.

        The lease's thread gives it back, because signals do not reach that thread. A Ctrl-C ends only the wait for the
        thread.
        """
        self._stop.set()
        if self._thread is None:
            self._start()
        assert self._thread is not None
        self._thread.join(EXPIRE_SECONDS)

    def _start(self) -> None:
        # In this thread's context, so that the tidying of the block that holds the lease has one `ending`.
        hold = partial(contextvars.copy_context().run, self._hold)
        self._thread = threading.Thread(target=hold, name=f"lease {self.path}", daemon=True)
        self._thread.start()

    def _hold(self) -> None:
        """Renew the lease until it is to be given back, then give it back."""
        while not self._stop.wait(RENEW_SECONDS):
            try:
                if not self._write():
                    self.lost.set()
                    break
            except Exception as error:  # the next try may work; without another try, the lease would expire
                log.debug("%s: the lease could not be renewed: %s", self.path, error)
        try:
            if self.held():
                filesystem.remove(self.file)
        except Exception as error:
            log.debug("%s: the lease could not be released: %s", self.path, error)
        finally:
            _given_back.add(self.holder.owner)

    def _create(self, file: str) -> bool:
        """Write the lease to `file` if no file exists there. Return whether the file was created."""
        return filesystem.create_bytes(file, self._next(), named=self.path)

    def _write(self) -> bool:
        """Renew the lease. Return False if another command holds it now."""
        with self._lock:  # without the lock, an earlier renewal might be written after a later one
            return self._replace(self.file, lambda now: now is not None and now.owner == self.holder.owner)

    def _replace(self, file: str, expected: Callable[[Holder | None], bool]) -> bool:
        """Replace the lease in `file` by this one if `expected` accepts the old lease. Return whether it did."""
        new = _next_of(file, self.holder.owner)
        try:
            filesystem.write_bytes(new, self._next())
            if not expected(read(file)):
                return False
            filesystem.rename(new, file)
            return True
        except InputError:
            if filesystem.exists(new):
                raise
            return False  # the command that took the lease over has removed `new`
        finally:
            filesystem.remove(new)

    def _next(self) -> bytes:
        """Count one more renewal and return the lease's content."""
        with self._lock:
            self.holder = replace(self.holder, renewed=self.holder.renewed + 1)
            return json.dumps(asdict(self.holder)).encode() + b"\n"


def file_of(path: str) -> str:
    """Return the file of the lease on the output `path`. It is hidden and beside the output, so that it outlives the
    output.
    """
    return f"{filesystem.parent(path).rstrip('/')}/.{filesystem.name(path)}.owner"


def left_over(path: str, found: Mapping[str, FileFacts | None]) -> list[str]:
    """Return the names among `found` of lease files that killed commands left beside the output `path`.

    Leave out files that were written less than EXPIRE_SECONDS before the lease file itself: they may still be in use.
    """
    lease = filesystem.name(file_of(path))
    parts = re.compile(rf"\.*{re.escape(lease)}(\.([0-9a-f]{{{_SHORT}}}|{_NO_OWNER}|{_NEXT}))+")
    of_lease = found.get(lease)
    if of_lease is None:
        return []
    old = of_lease.modified - EXPIRE_SECONDS * 1e9
    return [name for name, facts in found.items() if facts and facts.modified < old and parts.fullmatch(name)]


def _short(owner: str) -> str:
    return owner[:_SHORT] if owner.isalnum() else _NO_OWNER


def _next_of(file: str, owner: str) -> str:
    """Return the file with which `owner` will replace the lease `file`."""
    return f"{file}.{_short(owner)}.{_NEXT}"


def read(file: str) -> Holder | None:
    """Return the holder of the lease `file`; None if there is no lease."""
    while filesystem.exists(file):
        try:
            return _parsed(filesystem.read_bytes(file))
        except Missing:  # just given back, and perhaps taken again
            continue
    return None


def _parsed(content: bytes) -> Holder:
    try:
        holder = Holder(**json.loads(content))
        return holder if isinstance(holder.owner, str) and isinstance(holder.pid, int) else _UNKNOWN
    except (TypeError, ValueError, RecursionError):  # of another version, or no lease: only the file's age counts
        return _UNKNOWN


def is_owner(path: str, owner: str) -> bool:
    """Whether `owner` (Holder.owner) holds the lease on the output `path`."""
    holder = read(file_of(path))
    return holder is not None and holder.owner == owner


def in_use(path: str, holder: Holder) -> OutputInUse:
    """Return the error that says which command fills the output `path`."""
    return OutputInUse(f"{path}: is being written by {holder}; wait until that command ends, or stop it")


def age(file: str) -> float | None:
    """Return the seconds since `file` was written, by its file system's clock. None if the file is gone."""
    probe = f"{file}.{uuid.uuid4().hex[:8]}"
    filesystem.write_bytes(probe, b"")
    try:
        now, then = filesystem.modified(probe), filesystem.modified(file)
    finally:
        filesystem.remove(probe)
    return None if now is None or then is None else now - then


def _machine() -> str:
    """Return a text that is equal for processes that see each other's process numbers. "" if the kernel does not give
    it.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _ended(pid: int, started: int | None) -> bool:
    """Whether the process `pid`, which started at `started`, is known to have ended.

    With the mount option hidepid, /proc hides the processes of other users. Signal 0 still finds them.
    """
    now = _started(pid)
    if now is not None:
        return now != started
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # OverflowError: a damaged lease
        return True
    except OSError:  # another user's process
        pass
    return False


def _started(pid: int) -> int | None:
    """Return when the process `pid` started, in the kernel's ticks. _DEAD if it is a zombie without threads. None if
    /proc does not show the process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The second field, the process's name, may contain anything.
    fields = stat.rpartition(")")[2].split()
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    return _DEAD if state == "X" or (state == "Z" and threads <= 1) else started
