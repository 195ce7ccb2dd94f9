"""Checkpoints: all that a run needs to go on, written where all nodes agree, published by rename.

A checkpoint is a folder `update-NNNNNNNNN` with `state.npz` (what every rank has alike), `node-R.npz` for nodes whose
own state differs (the random state of Dropout), and `checkpoint.json` (the update, the ledger, the history).
"""

from __future__ import annotations

import io
import re
import secrets
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hdfs_io import filesystem
from sparksplit.errors import InputError

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

FOLDER = "checkpoints"
_NAME = re.compile(r"^update-(\d{9,})$")
_FORMAT = 2


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    update: updates since the run began: changes of the weights that all nodes share. step: mini-batches that the node
    with the most has trained on, which says where in the rows the run is. syncs: exchanges between nodes.
    ledger: Ledger.to_json. history: one mapping per finished epoch, as in metrics.jsonl. loss_sum, loss_rows, metrics:
    the unfinished epoch's training loss and metric state so far. seconds: of the run so far, all attempts together.
    """

    config_hash: str
    nodes: int
    update: int = 0
    step: int = 0
    syncs: int = 0
    ledger: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    loss_sum: float = 0.0
    loss_rows: int = 0
    seconds: float = 0.0
    sync_bytes: int = 0
    resumed: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read back. own: this node's own state, None where none was written for its rank."""

    progress: Progress
    state: Arrays
    own: Arrays | None


def write(
    run: str,
    progress: Progress,
    state: Arrays,
    own: Arrays,
    rank: int,
    gather: Callable[[str, Any], list[Any]],
    keep: int,
) -> None:
    """Write one checkpoint of all nodes into `run`; rank 0 publishes it and removes all but the last `keep`.

    Every node must call it. A crash at any point leaves the previous checkpoints loadable.
    """
    number = progress.update
    staging = gather(f"checkpoint-{number}", secrets.token_hex(4))[0]
    folder = filesystem.join(run, FOLDER)
    temporary = filesystem.join(folder, f".update-{number:09d}.{staging}")
    if own:
        filesystem.write_bytes(filesystem.join(temporary, f"node-{rank}.npz"), _pack(own))
    if rank == 0:
        filesystem.write_bytes(filesystem.join(temporary, "state.npz"), _pack(state))
        filesystem.write_json(
            filesystem.join(temporary, "checkpoint.json"), {"format_version": _FORMAT, **asdict(progress)}
        )
    gather(f"checkpoint-{number}-written", True)
    if rank == 0:
        final = filesystem.join(folder, f"update-{number:09d}")
        filesystem.remove(final)
        filesystem.rename(temporary, final)
        _prune(folder, number, keep)


def latest(run: str) -> str | None:
    """The path of the newest checkpoint in the folder of `run`, None without one."""
    folder = filesystem.join(run, FOLDER)
    names = sorted((name for name in filesystem.listing(folder) if _NAME.match(name)), key=_number)
    return filesystem.join(folder, names[-1]) if names else None


def progress_of(path: str) -> Progress:
    """How far the run was at the checkpoint `path`. Raises InputError where it is damaged."""
    file = filesystem.join(path, "checkpoint.json")
    values = filesystem.read_json(file)
    try:
        if values.pop("format_version") != _FORMAT:
            raise InputError(f"{file}: was written by another version of sparksplit")
        return Progress(**values)
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{file}: is not a checkpoint's description") from None


def read(path: str, rank: int) -> Checkpoint:
    """The checkpoint `path` as node `rank` needs it. Raises InputError where it is damaged."""
    progress = progress_of(path)
    state = _unpack(filesystem.join(path, "state.npz"))
    own = filesystem.join(path, f"node-{rank}.npz")
    # Random states belong to a number of nodes: with another one they begin afresh.
    return Checkpoint(progress, state, _unpack(own) if filesystem.exists(own) else None)


def named(prefix: str, variables: Sequence[Any]) -> dict[str, Array]:
    """Keras variables as arrays, by `prefix` and their place."""
    return {name: np.asarray(variable.numpy()) for name, variable in _names(prefix, variables)}


def assign(prefix: str, variables: Sequence[Any], arrays: Arrays, source: str) -> None:
    """The inverse of `named`. Raises InputError where names or shapes differ: another model or optimizer."""
    for name, variable in _names(prefix, variables):
        if name not in arrays or tuple(arrays[name].shape) != tuple(variable.shape):
            raise InputError(f"{source}: does not fit this model and optimizer ({name} is missing or of another shape)")
        variable.assign(arrays[name])


def _names(prefix: str, variables: Sequence[Any]) -> list[tuple[str, Any]]:
    # By place: Keras numbers names by how many layers the process has made.
    return [(f"{prefix}{place:04d}", variable) for place, variable in enumerate(variables)]


def _pack(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(arrays))
    return buffer.getvalue()


def _unpack(file: str) -> dict[str, Array]:
    try:
        with np.load(io.BytesIO(filesystem.read_bytes(file)), allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{file}: is damaged: {error}") from None


def _prune(folder: str, newest: int, keep: int) -> None:
    names = list(filesystem.listing(folder))
    # A run that goes on with other nodes may count fewer updates than the checkpoints of before.
    later = [name for name in names if _NAME.match(name) and _number(name) > newest]
    finished = sorted((name for name in names if _NAME.match(name) and name not in later), key=_number)
    for name in [*later, *finished[:-keep], *(name for name in names if name.startswith(".update-"))]:
        filesystem.remove(filesystem.join(folder, name))


def _number(name: str) -> int:
    match = _NAME.match(name)
    return int(match[1]) if match else -1
