"""The interface of every source of raw rows, for preprocess and predict."""

from __future__ import annotations

import abc
import gzip
import io
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.filesystem import FileFacts
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import TOKENS, Description, TensorSpec, Windows
from sparksplit.dataset.manifest import SourceFile
from sparksplit.features.missing_columns import there_are
from sparksplit.features.table import TENSOR, Table
from sparksplit.prepare.config_checks import check_input
from sparksplit.prepare.cut_config import By
from sparksplit.prepare.preprocess_config import InputConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GZIP_MAGIC = b"\x1f\x8b"
BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of raw input that a task holds at a time."""
RANGE_BYTES = 64 * 1024 * 1024
"""Bytes of a file that one task reads, if the file can be split."""


@dataclass(frozen=True)
class Task:
    """The input of one Spark task: a file (with its file of labels), or a range of a file."""

    part: str
    """train or test. If the source deals its rows itself: the split."""
    path: str
    labels: str | None = None
    start: int = 0
    """First row (IDX) or sequence (text)."""
    stop: int | None = None
    """End (exclusive). None: the end of the file."""


@dataclass
class ParsedRows:
    """Parsed rows.

    tensors: [n, *shape], of the declared dtypes.
    label: int64 or float64 [n], strings, a text's tokens [n, length] or a window's numbers [n, horizon].
    keep: kept columns, as strings.
    """

    tensors: list[npt.NDArray[Any]]
    label: npt.NDArray[Any] | list[str] | None
    keep: list[list[str | None]] = field(default_factory=list)
    cut: npt.NDArray[np.int64] | None = None
    """The value that the cut uses [n]. None: the cut uses no value."""
    texts: list[pa.Array] = field(default_factory=list)
    """A table's categories and texts, as strings [n]. Null: missing."""
    weight: npt.NDArray[Any] | None = None
    """Weight of each row, float32 [n]. The weight is the last of the source's tensors, but no part of a row's
    content."""

    def __len__(self) -> int:
        return len(self.tensors[0] if self.tensors else self.texts[0])


@dataclass(frozen=True)
class BadRow:
    """A row that could not be parsed.

    fatal: an error under every limit of bad rows, for example because the file itself is damaged.
    """

    path: str
    row: int
    """Line of the file, from 1 (a header counts). 0: not known, or rows have no number. Below 0: a mark of the row's
    text, with which line_numbers.py finds the line."""
    reason: str
    text: str = ""
    offset: int = 0
    """Order of the row in its file, if `row` is a mark. Otherwise 0."""
    fatal: bool = False
    kind: str = ""
    """The reason without the row's own values, to count bad rows by. Empty: `reason` has no such values."""

    def __str__(self) -> str:
        if self.fatal:
            return f"{self.path}: {self.reason}"
        if self.row <= 0:
            return f"{self.path}: a row: {self.reason}" + (f" ({self.text})" if self.text else "")
        return f"{self.path}: row {self.row}: {self.reason}"


@dataclass(frozen=True)
class BadRows:
    """Many bad rows, without an object for each row. rows: structs of type BAD, with the fields of BadRow"""

    rows: pa.StructArray

    @classmethod
    def of(cls, rows: Sequence[BadRow]) -> BadRows:
        """Return `rows` as one BadRows."""
        values = [{name: getattr(row, name) for name in _NAMES} | {"kind": row.kind or row.reason} for row in rows]
        return cls(pa.array(values, type=BAD))

    @classmethod
    def from_columns(cls, **columns: Any) -> BadRows:
        """Return bad rows with these fields of BAD. A field is a sequence, or one value for all rows. `reason` must be
        a sequence."""
        rows = len(columns["reason"])
        given = dict(zip(_NAMES, ("", 0, "", "", 0, False, ""), strict=True)) | columns
        arrays = []
        for field_ in BAD:
            values = given[field_.name]
            single = isinstance(values, str | int)
            arrays.append(pa.repeat(pa.scalar(values, field_.type), rows) if single else pa.array(values, field_.type))
        return cls(pa.StructArray.from_arrays(arrays, fields=list(BAD)))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[BadRow]:
        return (BadRow(**row) for row in self.rows.to_pylist())


BAD = pa.struct(
    [
        ("path", pa.string()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("offset", pa.int64()),
        ("fatal", pa.bool_()),
        ("kind", pa.string()),
    ]
)
"""Type of a bad row in a record batch. The value is null for a good row."""
_NAMES = tuple(field_.name for field_ in BAD)

Reader = Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[str, ParsedRows | BadRow | BadRows]]]
"""Reads the record batches of a Spark task. Yields (part, rows or bad rows). Picklable."""


class Source(abc.ABC):
    """Raw rows of one format. The constructor makes all cheap checks, on the driver."""

    place: str
    """The source's name in error messages."""
    tensors: Sequence[TensorSpec]
    """Tensors of the parsed rows. The stored rows of a table have additional tensors."""
    table: Table | None = None
    """The features of mixed columns. None: no mixed columns."""
    label_kind: str | None
    """integer, text or number. characters or words: a token at each position. None: no labels."""
    label_name: str | None = None
    """Name of the label's column. None: no column holds the label, or the user gave it no name."""
    keep: Sequence[str] = ()
    files: Sequence[SourceFile]
    has_test: bool
    """Whether the source brings a test split."""
    deals: bool = False
    """Whether the tasks name the split of their rows, so that nothing is cut by a hash."""
    raw_bytes: int = 0
    """Bytes of a raw row, if it can be larger than its tensors."""
    vocabulary: list[str] | None = None
    """The classes of labels that are tokens."""
    cut_by: By = "row"
    """Rule of the cut. Parsed rows hold the value for the rule in `cut`. Only the hash of the features is added by
    `parse`."""
    columns: Mapping[str, str] = {}
    """The raw columns with Spark's types, if Spark reads the rows."""
    raw_digest: str | None = None
    """Hash that changes with the files that Spark reads. None: there are no files to look at."""
    notes: Sequence[str] = ()
    """Messages for the user about what was done to the columns."""
    windows: Windows | None = None
    """Set if rows are windows over time. The step is known after `raw` has been called."""
    nulls: list[str] | None = None
    """Texts that stand for a missing value in the files. None: the default of the format, or not files of texts."""
    exif: bool | None = None
    """Whether images are rotated and mirrored by their EXIF orientation. None: rows are not images."""

    @property
    def label_places(self) -> int | None:
        """Number of values in a row's label. None: a single value, or no label."""
        if self.windows is not None and self.label_kind is not None:
            return self.windows.horizon
        return self.tensors[0].values if self.label_kind in TOKENS else None

    def label_said(self, scaled: bool) -> str:
        """Describe the labels for people. scaled: whether the labels are scaled"""
        if self.label_kind is None or self.label_kind in TOKENS:
            return self.label_kind or "none"
        name = "" if self.label_name is None else f"{self.label_name}: "
        if self.label_kind != "number":
            return f"{name}class ({self.label_kind})"
        return f"{name}number{', scaled to mean 0 and standard deviation 1' if scaled else ''}"

    @property
    def left_out(self) -> dict[str, int]:
        """Number of windows that were left out, by reason. Known after all rows have been read."""
        return {}

    def good_rows(self, parsed: int, partitions: Collection[int] | None = None) -> int:
        """Return how many good rows of the input became `parsed` rows. The numbers differ for windows.

        partitions: of the tasks that read these rows. None: of all tasks. Known after the rows have been read.
        """
        return parsed

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """Estimate the rows of each part without reading them. Return None if this is impossible.

        row_bytes: bytes of the files per row, if Spark has read some rows
        """
        return None

    @abc.abstractmethod
    def parts(self) -> list[str]:
        """Return the parts that have rows: train, validation, test."""

    @abc.abstractmethod
    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        """Return a DataFrame, and the reader that makes the source's rows from it, each row once."""


class FileSource(Source):
    """Files that our own tasks read. Picklable."""

    @property
    def place(self) -> str:  # type: ignore[override]
        """Path of the first file."""
        return self.files[0].path

    def parts(self) -> list[str]:
        return list(dict.fromkeys(task.part for task in self.tasks()))

    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        """Return a DataFrame of the tasks' numbers, with one Spark task for each number, and its reader."""
        tasks = self.tasks()

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRow]]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from ((tasks[number].part, item) for item in self.read(tasks[number]))

        return spark.range(0, len(tasks), 1, max(1, len(tasks))), read

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """Return the rows of the tasks. Return None if a task does not say where it stops."""
        by_part = dict.fromkeys(self.parts(), 0)
        for task in self.tasks():
            if task.stop is None:
                return None
            by_part[task.part] += task.stop - task.start
        return by_part

    @staticmethod
    def facts(folder: str, config: InputConfig) -> list[tuple[str, FileFacts]]:
        """Return (path, facts) of each file in `folder`, without opening the files. folder: one of the paths of
        `config`"""
        return input_facts(folder)

    @classmethod
    def of(cls, config: InputConfig, description: Description | None, validation: float, test: float) -> Self:
        """Return the source of `config`; see `open_source`."""
        config = labelled_like(config, description)
        check_input(config)
        return cls(config)  # type: ignore[call-arg]

    @classmethod
    def is_long(cls, config: InputConfig) -> bool:
        """Return whether the constructor reads so much that executors should do it. It then uses the Spark that is
        running."""
        return False

    @abc.abstractmethod
    def tasks(self) -> list[Task]:
        """Return the tasks that together read every row once."""

    @abc.abstractmethod
    def read(self, task: Task) -> Iterator[ParsedRows | BadRow]:
        """Yield the rows of a task, in bounded batches. Runs in executors."""


def labelled_like(config: InputConfig, description: Description | None) -> InputConfig:
    """Return `config` with the label type of `description`, if there is a description and `config` sets no type.

    Raise ConfigError if the labels of `description` are tokens, which only a text has.
    """
    label = None if description is None else description.label
    if label is None:
        return config
    if config.label is not None and label.kind in TOKENS:
        raise config.error("format", f"must be text, because the model was trained on the {label.kind} of a text")
    if config.label_type == "auto" and label.kind not in TOKENS:
        return config.model_copy(update={"label_type": label.kind})
    return config


def in_trained_order(names: Sequence[str], description: Description | None, place: str) -> list[str]:
    """Return the columns that a model was trained on, in the model's order. If they are unknown, return all `names`.

    Raise InputError if `names` lacks one of them.
    """
    wanted = None if description is None else description.tensors[0].columns
    if wanted is None:
        return list(names)
    if missing := [name for name in wanted if name not in names]:
        told = there_are(missing[0], names)
        raise InputError(f"{place}: has no column {missing[0]!r}, which the model was trained on{told}")
    return wanted


def check_kept(config: InputConfig, names: Sequence[str]) -> None:
    """Raise ConfigError if the name of a kept column is reserved, or is used twice (ignoring case)."""
    taken = {name: name for name in ("row_id", "label", "x", "prediction", "probabilities")}
    for name in names:
        if TENSOR.fullmatch(name.lower()):
            raise config.error("keep", f"the column name {name!r} is taken by a table's tensors; rename it in the file")
        # Spark, which may read the result, ignores case in column names.
        if other := taken.get(name.lower()):
            like = "" if other == name else f" ({other!r}; Spark ignores case)"
            error: ConfigError = config.error("keep", f"the column name {name!r} is taken{like}; rename it in the file")
            raise error
        taken[name.lower()] = name


def input_files(path: str) -> list[tuple[str, int]]:
    """Return (path, bytes) of the file `path`, or of all files in the folder `path`, by name.

    Hidden and empty files in a folder are left out. Raise InputError if no file is left, or if the folder holds a
    folder.
    """
    return [(path, facts.bytes) for path, facts in input_facts(path)]


def input_facts(path: str) -> list[tuple[str, FileFacts]]:
    """Like `input_files`, but with all facts that are known without opening the files."""
    path = filesystem.absolute(path)
    if not filesystem.is_folder(path):
        return [(path, filesystem.facts(path))]
    files = []
    for name, facts in filesystem.entries(path).items():
        if name[0] in "._":
            continue
        if facts is None:
            raise InputError(
                f"{filesystem.join(path, name)}: is a folder, but only files directly in the input folder are read. "
                "Give the folder that holds the files, or move this folder away"
            )
        if facts.bytes:
            files.append((filesystem.join(path, name), facts))
    if not files:
        raise InputError(f"{path}: the folder holds no files with rows")
    return files


@contextmanager
def open_raw(path: str) -> Iterator[tuple[Any, bool]]:
    """Open a file. Yield (readable binary stream of the unpacked content, whether the file is gzip).

    The first bytes show whether a file is gzip, not the name. Reading raises EOFError, zlib.error or gzip.BadGzipFile
    if the gzip is truncated or damaged.
    """
    with filesystem.open_input(path) as file:
        compressed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        # A large buffer, because gzip reads only 8 KiB at a time.
        stream = io.BufferedReader(file, buffer_size=1024 * 1024)
        yield (gzip.GzipFile(fileobj=stream) if compressed else stream), compressed


GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)


def gzip_problem(error: Exception, kind: str = "gzip") -> str:
    """Return the message for one of GZIP_ERRORS."""
    if isinstance(error, EOFError):
        return f"is truncated: the {kind} stream has no end"
    return f"is not a readable {kind} file: {' '.join(str(error).split())}"
