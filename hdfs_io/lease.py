"""A lease on an output: a small hidden file beside it that says which command is filling it, and that it still runs.

The driver renews the file every RENEW_SECONDS, in its own thread. Whoever finds another's lease watches whether it
changes, and asks the file system for how long it has not: only that clock counts, since hosts' clocks need not agree.

Whoever replaces the lease's file first writes the new content beside it, then looks whose the lease is, then renames.
Whoever takes a lease over removes what its owner has written beside it. So a rename that comes late, however long its
process stood still after the look, finds nothing to rename.
"""

from __future__ import annotations

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
from pathlib import Path

from hdfs_io import filesystem
from hdfs_io.errors import InputError, Missing, OutputInUse
from hdfs_io.filesystem import FileFacts

RENEW_SECONDS = 10.0
EXPIRE_SECONDS = 60.0
"""A lease that has not been renewed for this long no longer belongs to its owner."""
WATCH_SECONDS = 15.0
"""An old lease is watched for at least this long: it may be old because a machine slept or a NameNode was away."""
_LOOK_SECONDS = 0.5
_AWAY_SECONDS = 600.0
"""Beyond that, it is watched for at most this long where its file system is slow to answer."""

_SHORT, _NO_OWNER = 8, "unknown"
"""How much of an owner's id fits into a file's name, and what stands there in place of an id that cannot."""
_NEXT = "next"
"""The last part of the name of a file that is to replace a lease's."""

log = logging.getLogger(__name__)

_given_back: set[str] = set()
"""Owners of this process's leases that it has given back: a file that could not be removed then is nobody's."""


@dataclass(frozen=True)
class Holder:
    """Who is filling an output.

    owner: a unique id. machine: the kernel's boot id and process-number namespace, "" where they cannot be known;
    virtual machines that were copied from one snapshot have the same, so the host's name counts, too. started: when the
    process `pid` started, in the kernel's ticks, since process numbers are reused. renewed: how many times.
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
        """Whether its process is known to have ended, or to have given it back; that is known only on the machine that
        it ran on, or in it."""
        return self.owner in _given_back or (self._on_this_machine and _started(self.pid) != self.started)

    @property
    def here(self) -> bool:
        """Whether it is this very process."""
        return self._on_this_machine and self.pid == os.getpid() and not self.gone

    @property
    def _on_this_machine(self) -> bool:
        return bool(self.machine) and (self.machine, self.host) == (_machine(), socket.gethostname())


_UNKNOWN = Holder("", "", "", 0, "", None, "")


class Lease:
    """This process's lease in `file` on the output `path`, taken with `acquire`, and given back once and for all.

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
        """Set once another is seen to hold the lease."""
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Take the lease. Raises OutputInUse where another holds it; waits to find out where that is not clear.

        Of several that begin at the same moment, one gets it.
        """
        end = self._clock() + 2 * EXPIRE_SECONDS
        while not self._take():
            if self._clock() > end:
                raise in_use(self.path, read(self.file) or _UNKNOWN)
            self._pause(_LOOK_SECONDS)
        self._start()

    def await_free(self) -> None:
        """Return once nobody else holds the lease, which is not taken. Raises OutputInUse where another holds it; waits
        to find out where that is not clear."""
        found = read(self.file)
        if found is not None and not found.gone:
            self._watch(found)

    def _take(self) -> bool:
        """Take the lease; False where another is just taking it over, or has just given it back. Raises OutputInUse."""
        found = read(self.file)
        if found is not None and not found.gone:
            found = self._watch(found)
        if self._create(self.file) if found is None else self._take_over(self.file, found):
            return True
        now = read(self.file)
        if now is not None and now != found and not now.gone:
            raise in_use(self.path, now)
        return False

    def _watch(self, found: Holder) -> Holder | None:
        """The lease that is there once that of `found` has ended. Raises OutputInUse if it does not end."""
        if found.here:
            raise in_use(self.path, found)
        written, old = filesystem.modified(self.file), age(self.file)
        if old is None:  # given back, and perhaps taken by another since
            now = read(self.file)
            return now if now is None or now.gone else self._watch(now)
        patience = max(EXPIRE_SECONDS - old, WATCH_SECONDS)
        log.warning(
            "%s: is being written by %s; waiting up to %.0f s to see whether that command still runs",
            self.path,
            found,
            patience,
        )
        end = self._clock() + patience
        last = end + _AWAY_SECONDS
        while (left := end - self._clock()) > 0:
            self._pause(min(_LOOK_SECONDS, left))
            asked = self._clock()
            now = read(self.file)
            if self._clock() - asked > _LOOK_SECONDS:
                # The file system was away for the lease's owner too, who now renews it.
                end = min(last, max(end, self._clock() + WATCH_SECONDS))
            if now is None or now.gone:
                return now
            # A lease of another version cannot be read, but one can see that it is being written.
            if now != found or filesystem.modified(self.file) not in (None, written):
                raise in_use(self.path, now)
        return found

    def _take_over(self, file: str, ended: Holder) -> bool:
        """Replace the lease of `ended` in `file` by this one; False where another got there first."""
        # Only the maker of this file may replace that lease, and whoever comes later finds the maker's. It is a lease
        # too: if its maker is killed at that moment, it is taken over in the same way.
        turn = f"{file}.{_short(ended.owner)}"
        if not self._create(turn):
            maker = read(turn)
            if maker is None or not (maker.gone or (age(turn) or 0) > EXPIRE_SECONDS):
                return False
            if not self._take_over(turn, maker):
                return False
            filesystem.remove(_next_of(file, maker.owner))
        try:
            if read(file) is None:
                return self._create(file)
            if not self._replace(file, lambda now: now == ended):
                return False
            # Its last renewal may have come between: then it is alive.
            filesystem.remove(_next_of(file, ended.owner))
            now = read(file)
            return now is not None and now.owner == self.holder.owner
        finally:
            filesystem.remove(turn)

    def held(self) -> bool:
        """Whether the lease is still this one's."""
        return is_owner(self.path, self.holder.owner)

    def keep(self) -> None:
        """Raise OutputInUse where the lease is another's now, or was for a while: it may have filled the output."""
        found = read(self.file)
        if found is None:
            raise OutputInUse(
                f"{self.path}: another command has written this output in the meantime; run this command again"
            )
        if found.owner != self.holder.owner:
            raise in_use(self.path, found)

    def tell(self, application_id: str | None) -> None:
        """Add the Spark application's id, once there is one, to what others are told.

        Raises OutputInUse where the lease is another's now, or was for a while.
        """
        self.keep()
        with self._lock:
            self.holder = replace(self.holder, application_id=application_id)
        if not self._write():
            self.keep()

    def release(self) -> None:
        """Give the lease back; failing to is no error, since it expires.

        The lease's thread does so, because no signal reaches it: a Ctrl-C ends only the waiting for it.
        """
        self._stop.set()
        if self._thread is None:
            self._start()
        assert self._thread is not None
        self._thread.join(EXPIRE_SECONDS)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._hold, name=f"lease {self.path}", daemon=True)
        self._thread.start()

    def _hold(self) -> None:
        """Renew the lease until it is to be given back, and give it back."""
        while not self._stop.wait(RENEW_SECONDS):
            try:
                if not self._write():
                    self.lost.set()
                    break
            except Exception as error:  # whatever it was, the next try may succeed; without one the lease would expire
                log.debug("%s: the lease could not be renewed: %s", self.path, error)
        try:
            if self.held():
                filesystem.remove(self.file)
        except Exception as error:
            log.debug("%s: the lease could not be released: %s", self.path, error)
        finally:
            _given_back.add(self.holder.owner)

    def _create(self, file: str) -> bool:
        """Write the lease to `file` where there is none; whether there was none."""
        return filesystem.create_bytes(file, self._next())

    def _write(self) -> bool:
        """Renew the lease; False where it is another's by now."""
        with self._lock:  # or an earlier renewal might be written after a later one
            return self._replace(self.file, lambda now: now is not None and now.owner == self.holder.owner)

    def _replace(self, file: str, expected: Callable[[Holder | None], bool]) -> bool:
        """Replace the lease in `file` by this one, if it is what is `expected`; whether it was."""
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
            return False  # whoever has taken it over has removed it
        finally:
            filesystem.remove(new)

    def _next(self) -> bytes:
        """The lease's content, renewed once more."""
        with self._lock:
            self.holder = replace(self.holder, renewed=self.holder.renewed + 1)
            return json.dumps(asdict(self.holder)).encode() + b"\n"


def file_of(path: str) -> str:
    """The file of the lease on the output `path`: hidden, and beside the output, so that it outlives it."""
    return f"{filesystem.parent(path).rstrip('/')}/.{filesystem.name(path)}.owner"


def left_over(path: str, found: Mapping[str, FileFacts | None]) -> list[str]:
    """Of the names `found` beside the output `path`, those of leases on it that killed commands have left.

    Whatever was written more recently than a lease takes to expire may still be in use.
    """
    lease = filesystem.name(file_of(path))
    parts = re.compile(rf"\.*{re.escape(lease)}(\.([0-9a-f]{{{_SHORT}}}|{_NO_OWNER}|{_NEXT}))+")
    own = found.get(lease)
    if own is None:
        return []
    old = own.modified - EXPIRE_SECONDS * 1e9
    return [name for name, facts in found.items() if facts and facts.modified < old and parts.fullmatch(name)]


def _short(owner: str) -> str:
    return owner[:_SHORT] if owner.isalnum() else _NO_OWNER


def _next_of(file: str, owner: str) -> str:
    """The file with which `owner` is about to replace the lease `file`."""
    return f"{file}.{_short(owner)}.{_NEXT}"


def read(file: str) -> Holder | None:
    """Who holds the lease `file`; None without one."""
    while filesystem.exists(file):
        try:
            return _parsed(filesystem.read_bytes(file))
        except Missing:  # given back at this moment, and perhaps taken again
            continue
    return None


def _parsed(content: bytes) -> Holder:
    try:
        holder = Holder(**json.loads(content))
        return holder if isinstance(holder.owner, str) else _UNKNOWN
    except (TypeError, ValueError, RecursionError):  # of another version, or no lease at all: only its age counts
        return _UNKNOWN


def is_owner(path: str, owner: str) -> bool:
    """Whether `owner` (Holder.owner) holds the lease on the output `path`."""
    found = read(file_of(path))
    return found is not None and found.owner == owner


def in_use(path: str, holder: Holder) -> OutputInUse:
    """The error that says who is filling the output `path`."""
    return OutputInUse(f"{path}: is being written by {holder}; wait until that command ends, or stop it")


def age(file: str) -> float | None:
    """Seconds since `file` was written, by its file system's clock; None where it is not there any more."""
    probe = f"{file}.{uuid.uuid4().hex[:8]}"
    filesystem.write_bytes(probe, b"")
    try:
        now, then = filesystem.modified(probe), filesystem.modified(file)
    finally:
        filesystem.remove(probe)
    return None if now is None or then is None else now - then


def _machine() -> str:
    """What processes have in common if they see each other's numbers; "" where the kernel does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """When the process `pid` began, in the kernel's ticks; None where there is none, or only a threadless zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The second field, the process's name, may contain anything.
    fields = stat.rpartition(")")[2].split()
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    return None if state == "X" or (state == "Z" and threads <= 1) else started
