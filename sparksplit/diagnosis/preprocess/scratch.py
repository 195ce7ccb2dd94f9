"""The input's rows in files of equal size, in a folder beside the output that is removed again: to try what that
brings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from sparksplit.base.errors import InputError, RunError, SparksplitError
from sparksplit.base.progress import say
from sparksplit.diagnosis.preprocess.record import Rewritten
from sparksplit.prepare.config import PreprocessConfig
from sparksplit.prepare.recut import recut, training_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_BYTES = 8 * 2**30
"""Of the input's files: more are not written again for a trial."""
_ROOM = 1.5
"""Bytes that have to be free for each byte of the files: the fast compression takes a little more room than others."""


class NotTried(SparksplitError):
    """What would help could not be tried: a preparation fails with it, or the rows could not be put into other files,
    since these are too large or damaged, have no room, or nobody may write."""


@contextmanager
def rewritten(
    spark: SparkSession, config: PreprocessConfig, count: int
) -> Iterator[tuple[PreprocessConfig, Rewritten]]:
    """(the configuration with its training rows in about `count` files of equal size, what was written), while the
    block lasts; what a diagnosis that was killed has left is removed first. Raises NotTried."""
    folder = beside(config.output, "diagnose-input")
    made = filesystem.missing(filesystem.parent(folder))
    try:
        try:
            filesystem.remove(folder)
            _check_room(spark, config, folder)
            say(f"writing the input's rows into {count} files of equal size, in {folder}, which is removed afterwards")
            began, rows = time.monotonic(), filesystem.join(folder, "input")
            found = recut(config.input, rows, count)
        except (InputError, RunError) as error:
            raise NotTried(str(error)) from error
        seconds = time.monotonic() - began
        changed = config.model_copy(update={"input": config.input.model_copy(update={"path": rows})})
        yield changed, Rewritten(files=found.files, bytes=found.bytes, largest_bytes=found.largest, seconds=seconds)
    finally:
        _remove(folder)
        filesystem.remove_empty(made)


def _check_room(spark: SparkSession, config: PreprocessConfig, folder: str) -> None:
    """Make `folder`; raise InputError where the input's files are too large for it."""
    size = sum(bytes_ for _, bytes_ in training_files(config.input))
    if size > MOST_BYTES:
        raise InputError(f"the input's files have {size / 2**30:.1f} GiB, and up to {MOST_BYTES >> 30} are rewritten")
    filesystem.make_folder(folder)
    free = free_bytes(spark, folder)
    if free < _ROOM * size:
        raise InputError(f"{folder}: has {free:,} bytes free, and {round(_ROOM * size):,} are needed")


def beside(output: str, what: str) -> str:
    """A hidden folder beside `output`, where all executors can write. Always the same one: a diagnosis that was killed
    leaves it to the next one, and there is one at a time."""
    path = filesystem.followed(output).rstrip("/")
    return filesystem.join(filesystem.parent(path), f".{filesystem.name(path)}.{what}")


def free_bytes(spark: SparkSession, path: str) -> int:
    """The bytes that can still be written at `path`, by its file system's own word; quotas do not count."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(f"file://{path}" if path.startswith("/") else path)
    system = place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    copies = 1 if path.startswith("/") else max(1, int(system.getDefaultReplication(place)))
    return int(system.getStatus(place).getRemaining()) // copies


def _remove(folder: str) -> None:
    try:
        filesystem.remove(folder)
    except (SparksplitError, OSError) as error:  # the first error is the one to report
        say(f"{folder}: could not be removed, remove it: {error}")
