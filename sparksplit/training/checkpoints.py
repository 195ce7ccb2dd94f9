"""Checkpoints: everything that a run needs to go on. They are written where all nodes agree, and published by rename.

A checkpoint is a folder `update-NNNNNNNNN` with these files:
- `state.npz`: the state that is the same on every rank
- `node-R.npz`: a node's own state, if nodes have one (such as the random state of Dropout)
- `checkpoint.json`: the update, the ledger, the history, each file's size and checksum, and a checksum of its own
"""

from __future__ import annotations

import io
import json
import re
import secrets
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hdfs_io import activity, disk, filesystem
from hdfs_io.errors import using
from hdfs_io.fence import Fence
from sparksplit.base.errors import InputError
from sparksplit.base.progress import say
from sparksplit.training.progress_record import Progress

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

FOLDER = "checkpoints"
_NAME = re.compile(r"^update-(\d{9,})$")
_FORMAT = 3
_STATE, _DESCRIPTION, _CHECKSUM = "state.npz", "checkpoint.json", "checksum"
_READERS = 4  # files that are checked at once
_PIECE_BYTES = 1 << 20

Files = Mapping[str, Sequence[int]]
"""For each file's name, its size in bytes and its CRC-32."""


class Damaged(InputError):
    """A checkpoint's content is not what was written, or one of its files is missing."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read back. own: the node's own state; empty if nodes have none."""

    progress: Progress
    state: Arrays
    own: Arrays


def write(
    run: Fence,
    progress: Progress,
    state: Arrays,
    own: Arrays,
    rank: int,
    gather: Callable[[str, Any], list[Any]],
    keep: int,
) -> None:
    """Write one checkpoint of all nodes into `run`. Rank 0 publishes it and removes all but the last `keep`
    checkpoints.

    One older checkpoint stays if only that one can be resumed with another number of nodes.
    own: this node's own state. Either all nodes have some, or none has.
    Every node must call this. A crash at any point leaves the previous checkpoints loadable.
    """
    number = progress.update
    staging = gather(f"checkpoint-{number}", secrets.token_hex(4))[0]
    temporary = run.temporary(f"update-{number:09d}.{staging}")
    written: dict[str, list[int]] = {}
    with run.explained():
        for name, arrays in {**({_shard(rank): own} if own else {}), **({_STATE: state} if rank == 0 else {})}.items():
            written[name] = _pack(filesystem.join(temporary, name), arrays)
    everyone = gather(f"checkpoint-{number}-written", written)
    if rank == 0:
        files = {name: facts for each in everyone for name, facts in each.items()}
        description = {"format_version": _FORMAT, "files": files, **progress.to_json()}
        whole = {**description, _CHECKSUM: _checksum(description)}
        with run.explained():
            filesystem.write_json(filesystem.join(temporary, _DESCRIPTION), whole, parents=False)
        run.publish_folder(temporary, filesystem.join(run.folder, FOLDER, f"update-{number:09d}"))
        _prune(run, number, keep)


def latest(run: str) -> str | None:
    """Return the path of the newest checkpoint in the folder of `run`, damaged or not; None if there is none."""
    paths = _all(run)
    return paths[-1] if paths else None


def number_of(path: str | None) -> int:
    """Return the number in the name of the checkpoint `path`, which is larger for later checkpoints of a run; -1 for
    None."""
    return -1 if path is None else _number(path.rpartition("/")[2])


def fits(path: str, nodes: int) -> bool:
    """Return whether `nodes` nodes can go on from the checkpoint `path`. Raise Damaged if its description is damaged.

    Within a round, only the number of nodes that began the round can go on, unless the nodes share mini-batches there.
    """
    progress = progress_of(path)
    return progress.nodes == nodes or not progress.within_round


def newest_whole(run: str, nodes: int) -> tuple[str | None, list[str]]:
    """Return (the newest undamaged checkpoint that `nodes` nodes can go on from, what is wrong with newer checkpoints).

    If `nodes` nodes can go on from no undamaged checkpoint (`fits`), return the newest undamaged one. None: there is no
    undamaged checkpoint.

    The function reads all that the nodes would read. Raise InputError if a checkpoint cannot be read, or has another
    version: this says nothing about its content.
    """
    problems: list[str] = []
    bound: str | None = None
    for path in reversed(_all(run)):
        try:
            suits = fits(path, nodes)
            if bound is not None and not suits:
                continue
            check(path)
            if suits:
                return path, problems
            bound = bound or path
        except Damaged as error:
            problems.append(str(error))
        except InputError:
            if filesystem.exists(path):  # otherwise a node that has not noticed its end has just removed it
                raise
    return bound, problems


def checkpoint_of(run: str, nodes: int) -> str | None:
    """Return the checkpoint in the folder of `run` that `newest_whole` names. Report newer, damaged
    checkpoints.
    """
    checkpoint, damaged = newest_whole(run, nodes)
    for problem in damaged:
        say(problem)
    if damaged:
        say(
            f"{checkpoint} is used instead"
            if checkpoint
            else "no checkpoint is undamaged; the run starts from the beginning"
        )
    return checkpoint


def check(path: str) -> None:
    """Raise Damaged if the checkpoint `path` is damaged or not complete."""
    _, files = _description(path)
    _refuse_missing(path, list(files))
    with ThreadPoolExecutor(_READERS) as pool:
        for _ in pool.map(lambda name: _check_file(filesystem.join(path, name), files[name]), files):
            pass


def progress_of(path: str) -> Progress:
    """Return how far the run was at the checkpoint `path`. Raise Damaged if its description is damaged."""
    return _description(path)[0]


def read(path: str, rank: int) -> Checkpoint:
    """Return the checkpoint `path` for node `rank`, with the own state of one of the nodes that wrote it. Raise Damaged
    if it is damaged.

    If fewer nodes wrote it, several nodes get the same own state.
    """
    progress, files = _description(path)
    shard = _shard(rank % progress.nodes)
    needed = [name for name in (_STATE, shard) if name in files]
    _refuse_missing(path, needed)
    archives = {name: _unpack(filesystem.join(path, name), files[name]) for name in needed}
    return Checkpoint(progress, archives[_STATE], archives.get(shard, {}))


def _all(run: str) -> list[str]:
    folder = filesystem.join(run, FOLDER)
    entries = filesystem.listing(folder).items()
    names = sorted((name for name, size in entries if size is None and _NAME.match(name)), key=_number)
    return [filesystem.join(folder, name) for name in names]


def _shard(rank: int) -> str:
    return f"node-{rank}.npz"


def _description(path: str) -> tuple[Progress, Files]:
    """Return (how far the run was, the files that there must be)."""
    file = filesystem.join(path, _DESCRIPTION)
    _refuse_missing(path, [_DESCRIPTION])
    try:
        values = json.loads(filesystem.read_bytes(file))
    except (ValueError, RecursionError):
        raise Damaged(f"{file}: is damaged: it is not valid JSON") from None
    try:
        if (found := values.pop("format_version")) != _FORMAT:
            raise InputError(
                f"{file}: was written by another version of sparksplit (format_version {found}, not {_FORMAT}). Go on "
                "with that version, or begin anew with --restart"
            )
        if values.pop(_CHECKSUM) != _checksum({"format_version": _FORMAT, **values}):
            raise Damaged(f"{file}: is damaged: its checksum differs from what was written")
        files = {str(name): (int(size), int(checksum)) for name, (size, checksum) in values.pop("files").items()}
        files[_STATE]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Damaged(f"{file}: is damaged: it does not describe a checkpoint") from None
    try:
        return Progress.from_json(values, file), files
    except InputError as error:
        raise Damaged(str(error)) from None


def _checksum(description: Mapping[str, Any]) -> int:
    """Return the checksum of a description's values, in any layout."""
    values = json.loads(json.dumps(description))
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())


def _refuse_missing(path: str, names: Sequence[str]) -> None:
    there = filesystem.listing(path)
    missing = [name for name in names if there.get(name) is None]  # a folder of that name does not count
    if missing:
        raise Damaged(f"{path}: is damaged: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")


def _check_file(file: str, facts: Sequence[int]) -> None:
    """Raise Damaged if `file` is not what was written. Only a small part of the file is in memory at a time."""
    size = checksum = 0
    with filesystem.open_input(file) as opened, using(file):
        while piece := opened.read(_PIECE_BYTES):
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
    _compare(file, (size, checksum), facts)


def _compare(file: str, found: Sequence[int], expected: Sequence[int]) -> None:
    if found[0] != expected[0]:
        raise Damaged(f"{file}: is damaged: it has {found[0]} bytes, but {expected[0]} were written")
    if found[1] != expected[1]:
        raise Damaged(f"{file}: is damaged: its checksum differs from what was written")


def _pack(file: str, arrays: Arrays) -> list[int]:
    """Write `arrays` into `file`, as np.savez does. Return its size in bytes and its CRC-32.

    The arrays are written in small pieces. np.savez copies each array, and blocks other threads meanwhile.
    """
    with filesystem.writing(file, parents=False) as stream:
        counted = _Counted(stream)
        with zipfile.ZipFile(counted, "w") as archive:  # type: ignore[call-overload]
            for name, array in arrays.items():
                content = np.asarray(array, order="C")
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array_header_1_0(entry, np.lib.format.header_data_from_array_1_0(content))
                    raw = content.reshape(-1).view(np.uint8)
                    for start in range(0, raw.nbytes, _PIECE_BYTES):
                        entry.write(raw[start : start + _PIECE_BYTES].data)
                        activity.note()
        return [counted.size, counted.checksum]


class _Counted:
    """A file that counts what is written into it. size: bytes so far. checksum: CRC-32 so far."""

    def __init__(self, stream: disk.Writable) -> None:
        self._stream = stream
        self.size = self.checksum = 0

    def write(self, data: bytes | memoryview) -> int:
        self._stream.write(data)
        self.size, self.checksum = self.size + len(data), zlib.crc32(data, self.checksum)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the stream is flushed at its end."""


def _unpack(file: str, facts: Sequence[int]) -> dict[str, Array]:
    content = filesystem.read_bytes(file)
    _compare(file, (len(content), zlib.crc32(content)), facts)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _prune(run: Fence, newest: int, keep: int) -> None:
    folder = filesystem.join(run.folder, FOLDER)
    names = list(filesystem.listing(folder))
    # A run that goes on with another number of nodes may count fewer updates than its older checkpoints.
    later = [name for name in names if _NAME.match(name) and _number(name) > newest]
    finished = sorted((name for name in names if _NAME.match(name) and name not in later), key=_number)
    old, kept = finished[:-keep], finished[-keep:]
    if old and all(_within_round(filesystem.join(folder, name)) for name in kept):
        # Also keep the last checkpoint that another number of nodes can go on from.
        last = next((name for name in reversed(old) if not _within_round(filesystem.join(folder, name))), None)
        old = [name for name in old if name != last]
    for name in [*later, *old, *(name for name in names if name.startswith(".update-"))]:
        run.remove(filesystem.join(folder, name))


def _within_round(path: str) -> bool:
    try:
        return progress_of(path).within_round
    except InputError:
        return True  # damaged


def _number(name: str) -> int:
    match = _NAME.match(name)
    return int(match[1]) if match else -1
