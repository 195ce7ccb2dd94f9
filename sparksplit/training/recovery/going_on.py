"""Whether a command goes on with a run that an earlier command left unfinished, and what to say when a command leaves
one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hdfs_io import filesystem
from hdfs_io.marks import SUCCESS
from hdfs_io.publish import OtherUnfinished, Output
from sparksplit.base.errors import InputError, UsageError
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.training import checkpoints
from sparksplit.training.inputs import RunInputs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reached:
    """How far the nodes of an attempt are.

    step: the furthest step that any node is known to have finished; 0 if none is known.
    nodes: the number of nodes of the attempt, if another number of nodes would count steps otherwise. None: every
        number of nodes counts the same steps, because mini-batches are dealt from all lanes.
    """

    step: int = 0
    nodes: int | None = None


def going_on(output: Output, inputs: RunInputs, options: Options) -> set[str] | None:
    """Return the configuration hashes of the unfinished runs in `output` that the command goes on with; None to begin
    anew.

    The hashes are the command's own and, with `options.resume`, the hashes of this configuration with other numbers of
    nodes. The hash knows no rows of a DataFrame. So only `options.resume` can say that the rows are the same.

    Raise OutputInUse if another command is still filling the output with another run. Raise OtherUnfinished, a
    UsageError, if another run would lose its checkpoints.
    """
    if options.restart:
        return None
    own_hashes: set[str] = set() if inputs.has_frame else {inputs.hash()}
    hashes = inputs.hashes() if options.resume else own_hashes
    try:
        output.decide(options.overwrite, hashes)
        return hashes
    except OtherUnfinished:
        # The other run's command may still be running and about to write its first checkpoint.
        output.lease.await_free()
    try:
        output.decide(options.overwrite, hashes)
    except OtherUnfinished as error:
        if checkpoints.latest(output.path) is None:
            return None
        raise OtherUnfinished(f"{error}; {_what_to_do(error, inputs, options)}", error.config_hash) from error
    return hashes


def _what_to_do(error: OtherUnfinished, inputs: RunInputs, options: Options) -> str:
    anew = "--restart starts from the beginning, without its checkpoints"
    back = f"with the old configuration and content the command goes on from the last checkpoint; {anew}"
    if options.resume:
        return back
    if inputs.has_frame and error.config_hash == inputs.hash():
        return f"if it began with the same rows, --resume goes on with it; {anew}"
    if error.config_hash in inputs.hashes():
        return f"--resume goes on with it on the new number of nodes; {anew}"
    return back


@contextmanager
def told_how(output: Output, reached: Callable[[], Reached] = Reached, unit: str = "updates") -> Iterator[None]:
    """If the block fails, say how to go on and what is lost.

    If a user's mistake ended the run before its first checkpoint, remove what the run has begun. The block's error is
    always raised, even if something else fails meanwhile.

    reached: returns how far the nodes are.
    unit: the users' word for a step.
    """
    try:
        yield
    except BaseException as error:
        try:
            checkpoint = checkpoints.latest(output.folder)
            if checkpoint is None and isinstance(error, UsageError):
                output.abandon()
            elif not isinstance(error, UsageError):
                say(_left(checkpoint, reached(), unit) + _kept(output))
        except Exception as other:
            log.debug("%s: could not be looked at: %s", output.folder, other)
        raise


def _kept(output: Output) -> str:
    """Return the message on the complete output that this run was to replace; empty if there is none."""
    beside = output.folder != output.path and filesystem.exists(filesystem.join(output.path, SUCCESS))
    return f"; the finished run in {output.path} is unchanged" if beside else ""


def _left(checkpoint: str | None, reached: Reached, unit: str) -> str:
    """Return the message on what the run has left. Nodes may have done a little more than they have reported."""
    if checkpoint is None:
        told = f": at least {reached.step:,} {unit} are lost" if reached.step else ""
        return f"there is no checkpoint yet{told}; the same command starts from the beginning"
    try:
        progress = checkpoints.progress_of(checkpoint)
        lost = reached.step - progress.step if reached.nodes in (None, progress.nodes) else 0
    except InputError:  # damaged; the next command says so
        lost = 0
    more = f", and at least {lost:,} {unit} after it are lost" if lost > 0 else ""
    return f"the last checkpoint is {checkpoint}{more}; the same command goes on from it"
