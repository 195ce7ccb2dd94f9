"""The attempts of a run, over restarts and resumes: kept in its folder while it is unfinished, then in run.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base.errors import InputError, NodeFailed
from sparksplit.base.records import Record
from sparksplit.training import checkpoints
from sparksplit.training.progress_record import Progress
from sparksplit.training.record import Attempt, Cause, RunRecord

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
        """With another attempt, which begins now from `checkpoint` on `nodes` nodes. how: as Attempt.how."""
        update = max(0, checkpoints.number_of(checkpoint))
        return replace(self, story=[*self.story, Attempt(how=how, begun=_now(), nodes=nodes, update=update)])

    def on(self, nodes: int, checkpoint: str | None) -> Attempts:
        """With another number of nodes for the last attempt, which goes on from `checkpoint`."""
        update = max(0, checkpoints.number_of(checkpoint))
        return replace(self, story=[*self.story[:-1], replace(self.story[-1], nodes=nodes, update=update)])

    def ended(self, seconds: float, error: BaseException | None) -> Attempts:
        """With the end of the last attempt, which has lasted this long; error: what it was ended by."""
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
    """Keep `attempts` in the folder of `run`."""
    run.write_json(filesystem.join(run.folder, _FILE), attempts.to_json())


def forget(run: Fence) -> None:
    """Remove what `note` has kept, since a finished run has it in its record."""
    run.remove(filesystem.join(run.folder, _FILE))


def take_back(run: Fence) -> None:
    """Keep again what the record of a run tells that goes on after all, if nothing is kept."""
    if noted(run.folder).story:
        return
    try:
        record = RunRecord.read(run.folder)
    except InputError:  # there is none, as nearly always, or only a damaged one
        return
    note(run, Attempts(record.restarts, record.seconds.total, record.attempts or []))


def noted(run: str) -> Attempts:
    """What `note` has kept in the folder `run`; what cannot be read counts as nothing."""
    try:
        file = filesystem.join(run, _FILE)
        return Attempts.parse(filesystem.read_bytes(file), file)
    except InputError:
        return Attempts()


def before(run: str, checkpoint: str) -> tuple[Attempts, int]:
    """(what the attempts of a run that goes on from `checkpoint` have cost, the last epoch that it has finished).

    A driver that was killed has noted no end: then what the checkpoint knows is the least it can have cost. What cannot
    be read counts as nothing: it is not decided here whether the run can go on from the checkpoint.
    """
    try:
        progress = checkpoints.progress_of(checkpoint)
    except InputError:
        progress = Progress("", 1)
    attempts = noted(run)
    return replace(attempts, seconds=max(attempts.seconds, progress.seconds)), progress.epochs
