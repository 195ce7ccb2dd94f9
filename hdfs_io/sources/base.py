"""What every source of raw rows gives: the small interface that preprocess and predict share."""

from __future__ import annotations

import abc
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from hdfs_io import filesystem
from hdfs_io.filesystem import FileFacts
from hdfs_io.manifest import SourceFile
from hdfs_io.preprocessing import TensorSpec
from sparksplit.base.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of raw input that a task holds at a time."""
RANGE_BYTES = 64 * 1024 * 1024
"""Bytes of a file that can be split for one task."""


@dataclass(frozen=True)
class Task:
    """What one Spark task reads: a file (and its labels' file), or a part of it."""

    part: str
    """train or test; of a source that deals its rows itself, the split"""
    path: str
    labels: str | None = None
    start: int = 0
    """First row (IDX), byte (CSV) or sequence (text)"""
    stop: int | None = None
    """What to stop before; None: the end"""


@dataclass
class Rows:
    """Parsed rows: tensors [n, *shape] of the declared dtypes; labels int64 or float32 [n], texts, or of a text's
    tokens [n, length]; kept texts."""

    tensors: list[npt.NDArray[Any]]
    label: npt.NDArray[Any] | list[str] | None
    keep: list[list[str | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tensors[0])


@dataclass(frozen=True)
class BadRow:
    """A row that could not be parsed; `fatal` where it is the file that is damaged, whatever max_bad_rows says."""

    path: str
    row: int
    """Line of the file, from 1 (a header counts), where `offset` is 0; else lines since the byte `offset`."""
    reason: str
    text: str = ""
    offset: int = 0
    fatal: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.fatal else f"{self.path}: row {self.row}: {self.reason}"


class Source(abc.ABC):
    """Raw rows of one format; picklable. Making one checks on the driver whatever is cheap to check."""

    tensors: Sequence[TensorSpec]
    label_kind: str | None
    """integer, text or number; characters or words for a token at each position; None without labels"""
    keep: Sequence[str] = ()
    files: Sequence[SourceFile]
    has_test: bool
    """Whether the source brings a test split."""
    deals: bool = False
    """Whether its tasks name the split of their rows, so that nothing is cut by a hash."""
    vocabulary: list[str] | None = None
    """The classes of labels that are tokens."""

    @abc.abstractmethod
    def tasks(self) -> list[Task]:
        """The tasks that together read every row once."""

    @abc.abstractmethod
    def read(self, task: Task) -> Iterator[Rows | BadRow]:
        """The rows of a task, in bounded batches; called in executors."""


def input_files(path: str) -> list[tuple[str, int]]:
    """(path, bytes) of the file `path`, or of all files in that folder, by name; hidden and empty ones left out.

    Raises InputError where there are none, and for a folder in the folder.
    """
    return [(path, facts.bytes) for path, facts in input_facts(path)]


def input_facts(path: str) -> list[tuple[str, FileFacts]]:
    """As `input_files`, with all that is known of the files without opening them."""
    path = filesystem.absolute(path)
    if not filesystem.is_folder(path):
        return [(path, filesystem.facts(path))]
    found = []
    for name, facts in filesystem.entries(path).items():
        if name[0] in "._":
            continue
        if facts is None:
            raise InputError(
                f"{filesystem.join(path, name)}: is a folder, and only files in the input's own folder are read: "
                "name the folder that holds the files, or move this one away"
            )
        if facts.bytes:
            found.append((filesystem.join(path, name), facts))
    if not found:
        raise InputError(f"{path}: the folder holds no files with rows")
    return found


@contextmanager
def open_raw(path: str) -> Iterator[tuple[Any, bool]]:
    """(a readable binary stream of the file's content, whether it is gzip): known by its first bytes, not its name.

    Reading from it raises EOFError, zlib.error or gzip.BadGzipFile where the gzip is truncated or damaged.
    """
    with filesystem.open_input(path) as file:
        compressed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        # gzip asks for 8 KiB at a time.
        stream = io.BufferedReader(file, buffer_size=1024 * 1024)
        yield (gzip.GzipFile(fileobj=stream) if compressed else stream), compressed


GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)


def gzip_problem(error: Exception) -> str:
    """What to tell the user of one of GZIP_ERRORS."""
    if isinstance(error, EOFError):
        return "is truncated: the gzip stream has no end"
    return f"is not a readable gzip file: {' '.join(str(error).split())}"
