"""The attempts of a run, over restarts and resumes. They are kept in the run's folder while it is unfinished, then in
run.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base.errors import InputError, NodeFailed
from sparksplit.base.records import Record
from sparksplit.training import checkpoints
from sparksplit.training.progress_record import Progress
from sparksplit.training.run_record import Attempt, Cause, RunRecord

_FILE = "_ATTEMPTS"


@dataclass(frozen=True)
class Attempts(Record):
    """The attempts of a run so far, over all commands."""

    restarts: int = 0
    """Automatic restarts."""
    seconds: float = 0.0
    """Seconds of wall time."""
    story: list[Attempt] = field(default_factory=list)
    """The attempts; the present attempt is the last.

    An attempt without an end is the present attempt, or its driver was killed.
    """

    def begun(self, how: str, nodes: int, checkpoint: str | None) -> Attempts:
        """Return a copy with another attempt, which begins now from `checkpoint` on `nodes` nodes.

        how: as Attempt.how.
        """
        update = max(0, checkpoints.number_of(checkpoint))
        return replace(self, story=[*self.story, Attempt(how=how, begun=_now(), nodes=nodes, update=update)])

    def on(self, nodes: int, checkpoint: str | None) -> Attempts:
        """Return a copy whose last attempt has `nodes` nodes and goes on from `checkpoint`."""
        update = max(0, checkpoints.number_of(checkpoint))
        return replace(self, story=[*self.story[:-1], replace(self.story[-1], nodes=nodes, update=update)])

    def ended(self, seconds: float, error: BaseException | None) -> Attempts:
        """Return a copy with the end of the last attempt.

        seconds: how long the attempt has lasted.
        error: what ended the attempt; None if the attempt finished the run.
        """
        if not self.story or self.story[-1].ended is not None:
            return self
        cause = None if error is None else _cause(error)
        return replace(
            self,
            story=[*self.story[:-1], replace(self.story[-1], ended=_now(), seconds=round(seconds, 3), cause=cause)],
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _cause(error: BaseException) -> Cause:
    text = " ".join(str(error).split()) or ("interrupted" if isinstance(error, KeyboardInterrupt) else "no reason")
    if isinstance(error, NodeFailed):
        return Cause(text, error.rank, error.host)
    return Cause(text)


def note(run: Fence, attempts: Attempts) -> None:
    """Write `attempts` into the folder of `run`."""
    run.write_json(filesystem.join(run.folder, _FILE), attempts.to_json())


def forget(run: Fence) -> None:
    """Remove what `note` has written. The record of a finished run has the attempts."""
    run.remove(filesystem.join(run.folder, _FILE))


def take_back(run: Fence) -> None:
    """If a run with a record goes on after all, write the record's attempts again, unless `note` has written some."""
    if noted(run.folder).story:
        return
    try:
        record = RunRecord.read(run.folder)
    except InputError:  # usually there is no record, rarely a damaged one
        return
    note(run, Attempts(record.restarts, record.seconds.total, record.attempts or []))


def noted(run: str) -> Attempts:
    """Return the attempts that `note` has written into the folder `run`; none if they cannot be read."""
    try:
        file = filesystem.join(run, _FILE)
        return Attempts.parse(filesystem.read_bytes(file), file)
    except InputError:
        return Attempts()


def before(run: str, checkpoint: str) -> tuple[Attempts, int]:
    """Return (the attempts of a run that goes on from `checkpoint`, with their cost; the last epoch that the run has
    finished).

    A killed driver has noted no end. The checkpoint's seconds are then the least possible cost. A checkpoint that
    cannot be read counts as nothing: this function does not decide whether the run can go on from it.
    """
    try:
        progress = checkpoints.progress_of(checkpoint)
    except InputError:
        progress = Progress("", 1)
    attempts = noted(run)
    return replace(attempts, seconds=max(attempts.seconds, progress.seconds)), progress.epochs
