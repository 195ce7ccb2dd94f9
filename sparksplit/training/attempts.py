"""What the attempts of an unfinished run have cost so far: restarts and resumes go on counting from there."""

from __future__ import annotations

from dataclasses import dataclass

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base.errors import InputError
from sparksplit.base.records import Record
from sparksplit.training import checkpoints
from sparksplit.training.record import Progress

_FILE = "_ATTEMPTS"


@dataclass(frozen=True)
class Attempts(Record):
    """restarts: those made within a command by itself, over all commands. seconds: wall time of all commands."""

    restarts: int = 0
    seconds: float = 0.0


def note(run: Fence, attempts: Attempts) -> None:
    """Keep `attempts` in the folder of `run`."""
    run.write_json(filesystem.join(run.folder, _FILE), attempts.to_json())


def forget(run: Fence) -> None:
    """Remove what `note` has kept, since a finished run has it in its record."""
    run.remove(filesystem.join(run.folder, _FILE))


def before(run: str, checkpoint: str) -> tuple[Attempts, int]:
    """(what the attempts of a run that goes on from `checkpoint` have cost, the last epoch that it has finished).

    A driver that was killed has noted no end: then what the checkpoint knows is the least it can have cost. What cannot
    be read counts as nothing: it is not decided here whether the run can go on from the checkpoint.
    """
    try:
        progress = checkpoints.progress_of(checkpoint)
    except InputError:
        progress = Progress("", 1)
    try:
        file = filesystem.join(run, _FILE)
        noted = Attempts.parse(filesystem.read_bytes(file), file)
    except InputError:
        noted = Attempts()
    return Attempts(noted.restarts, max(noted.seconds, progress.seconds)), progress.epochs
