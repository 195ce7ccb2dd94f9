"""What every source of raw rows gives: the small interface that preprocess and predict share."""

from __future__ import annotations

import abc
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from sparksplit.prepare.config import InputConfig
from sparksplit.prepare.config_checks import check_input
from sparksplit.prepare.cut_config import By

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GZIP_MAGIC = b"\x1f\x8b"
BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of raw input that a task holds at a time."""
RANGE_BYTES = 64 * 1024 * 1024
"""How many bytes of a file one task reads, where the file can be split."""


@dataclass(frozen=True)
class Task:
    """What one Spark task reads: a file (and its labels' file), or a part of it."""

    part: str
    """train or test; the split, for a source that deals its rows itself"""
    path: str
    labels: str | None = None
    start: int = 0
    """First row (IDX), byte (CSV) or sequence (text)"""
    stop: int | None = None
    """Where to stop, exclusive; None: at the end"""


@dataclass
class ParsedRows:
    """Parsed rows: tensors [n, *shape] of the declared dtypes; labels int64 or float64 [n], strings, a text's tokens
    [n, length] or a window's numbers [n, horizon]; kept columns as strings."""

    tensors: list[npt.NDArray[Any]]
    label: npt.NDArray[Any] | list[str] | None
    keep: list[list[str | None]] = field(default_factory=list)
    cut: npt.NDArray[np.int64] | None = None
    """What the cut goes by [n]; None where it needs nothing."""
    texts: list[pa.Array] = field(default_factory=list)
    """A table's categories and texts, as strings [n] that may be null."""
    weight: npt.NDArray[Any] | None = None
    """What each row counts, float32 [n]: the last of the source's tensors, but no part of a row's content."""

    def __len__(self) -> int:
        return len(self.tensors[0] if self.tensors else self.texts[0])


@dataclass(frozen=True)
class BadRow:
    """A row that could not be parsed; `fatal` where the file itself is damaged, whatever max_bad_rows says."""

    path: str
    row: int
    """Line of the file, from 1 (a header counts); 0 where it is not known, or rows have no number. Below 0: a mark of
    its text, by which line_numbers.py looks the line up."""
    reason: str
    text: str = ""
    offset: int = 0
    """What rows of a file are ordered by, where `row` is a mark; otherwise 0"""
    fatal: bool = False
    kind: str = ""
    """The reason without the row's own values, by which bad rows are counted; empty where the reason has none."""

    def __str__(self) -> str:
        if self.fatal:
            return f"{self.path}: {self.reason}"
        if self.row <= 0:
            return f"{self.path}: a row: {self.reason}" + (f" ({self.text})" if self.text else "")
        return f"{self.path}: row {self.row}: {self.reason}"


@dataclass(frozen=True)
class BadRows:
    """Many bad rows at once, without an object for each. rows: of BAD, whose fields are BadRow's"""

    rows: pa.StructArray

    @classmethod
    def of(cls, rows: Sequence[BadRow]) -> BadRows:
        """These rows."""
        values = [{name: getattr(row, name) for name in _NAMES} | {"kind": row.kind or row.reason} for row in rows]
        return cls(pa.array(values, type=BAD))

    @classmethod
    def from_columns(cls, **columns: Any) -> BadRows:
        """Rows of the same number of values, or one that all rows have, for some of the fields; `reason` among them."""
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
"""A bad row in a record batch; null where the row is good."""
_NAMES = tuple(field_.name for field_ in BAD)

Reader = Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[str, ParsedRows | BadRow | BadRows]]]
"""How a Spark task reads its record batches: it yields (part, rows or bad rows); picklable."""


class Source(abc.ABC):
    """Raw rows of one format. Making one checks, on the driver, whatever is cheap to check."""

    place: str
    """What errors call it."""
    tensors: Sequence[TensorSpec]
    """Of its rows as they are parsed; those of a table are stored with some more."""
    table: Table | None = None
    """The features of mixed columns, where rows have them."""
    label_kind: str | None
    """integer, text or number; characters or words for a token at each position; None without labels"""
    label_name: str | None = None
    """The label's column, where the label is one and has a name of the user's."""
    keep: Sequence[str] = ()
    files: Sequence[SourceFile]
    has_test: bool
    """Whether the source brings a test split."""
    deals: bool = False
    """Whether its tasks say which split their rows belong to, so that nothing is cut by a hash."""
    raw_bytes: int = 0
    """Bytes of a raw row, where it may have more than its tensors."""
    vocabulary: list[str] | None = None
    """The classes of labels that are tokens."""
    cut_by: By = "row"
    """What its rows are cut by: then they have it in `cut`, but for a hash of the features, which `parse` makes."""
    columns: Mapping[str, str] = {}
    """The raw columns with their types, as Spark calls them, where it reads them."""
    raw_digest: str | None = None
    """What shows that files are others, where Spark reads them; None where there are none to look at."""
    notes: Sequence[str] = ()
    """What was done to the columns that a user should know, for people."""
    windows: Windows | None = None
    """Where rows are windows over time; with their step once `raw` has been called."""
    exif: bool | None = None
    """Whether images are turned as their EXIF orientation says; None where rows are no images."""

    @property
    def label_places(self) -> int | None:
        """How many values a row's label has, where it is not a single one."""
        if self.windows is not None and self.label_kind is not None:
            return self.windows.horizon
        return self.tensors[0].values if self.label_kind in TOKENS else None

    def label_said(self, scaled: bool) -> str:
        """What becomes of the labels, for people. scaled: whether they are scaled"""
        if self.label_kind is None or self.label_kind in TOKENS:
            return self.label_kind or "none"
        name = "" if self.label_name is None else f"{self.label_name}: "
        if self.label_kind != "number":
            return f"{name}class ({self.label_kind})"
        return f"{name}number{', scaled to mean 0 and standard deviation 1' if scaled else ''}"

    @property
    def left_out(self) -> dict[str, int]:
        """Of windows: how many were left out, by reason; known when all rows have been read."""
        return {}

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """About how many rows each part has, without reading them; None where nothing tells.

        row_bytes: of a file for each row, where Spark has read some
        """
        return None

    @abc.abstractmethod
    def parts(self) -> list[str]:
        """The parts that it has rows for: train and test, or the splits where a source deals its rows itself."""

    @abc.abstractmethod
    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        """A DataFrame, and the reader that makes the source's rows of it, each row once."""


class FileSource(Source):
    """Files that our own tasks read, each a part of them; picklable."""

    @property
    def place(self) -> str:  # type: ignore[override]
        """The first file."""
        return self.files[0].path

    def parts(self) -> list[str]:
        return list(dict.fromkeys(task.part for task in self.tasks()))

    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        """A DataFrame of the tasks' numbers, with one Spark task for each."""
        tasks = self.tasks()

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRow]]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from ((tasks[number].part, item) for item in self.read(tasks[number]))

        return spark.range(0, len(tasks), 1, max(1, len(tasks))), read

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """The rows of the tasks, for a source whose tasks say which rows they read."""
        found = dict.fromkeys(self.parts(), 0)
        for task in self.tasks():
            if task.stop is None:
                return None
            found[task.part] += task.stop - task.start
        return found

    @staticmethod
    def facts(folder: str, config: InputConfig) -> list[tuple[str, FileFacts]]:
        """(path, what is known without opening it) of each file in `folder`, one of the paths of `config`."""
        return input_facts(folder)

    @classmethod
    def of(cls, config: InputConfig, description: Description | None, validation: float, test: float) -> Self:
        """The source that `config` names; see `open_source`."""
        config = labelled_like(config, description)
        check_input(config)
        return cls(config)  # type: ignore[call-arg]

    @classmethod
    def is_long(cls, config: InputConfig) -> bool:
        """Whether making the source of `config` takes so much reading that executors should do it: it then uses the
        Spark that runs."""
        return False

    @abc.abstractmethod
    def tasks(self) -> list[Task]:
        """The tasks that together read every row once."""

    @abc.abstractmethod
    def read(self, task: Task) -> Iterator[ParsedRows | BadRow]:
        """The rows of a task, in bounded batches; called in executors."""


def labelled_like(config: InputConfig, description: Description | None) -> InputConfig:
    """`config` for rows whose labels are read like those of `description`, where there is one.

    Raises ConfigError where those are tokens, which only a text has.
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
    """Those of the `names` that a model was trained on, in its order; all where nothing is known of it.

    Raises InputError where one is missing.
    """
    wanted = None if description is None else description.tensors[0].columns
    if wanted is None:
        return list(names)
    if missing := [name for name in wanted if name not in names]:
        told = there_are(missing[0], names)
        raise InputError(f"{place}: has no column {missing[0]!r}, which the model was trained on{told}")
    return wanted


def check_kept(config: InputConfig, names: Sequence[str]) -> None:
    """Raise ConfigError for a kept column whose name is taken."""
    taken = {name: name for name in ("row_id", "label", "x", "prediction", "probabilities")}
    for name in names:
        if TENSOR.fullmatch(name.lower()):
            raise config.error("keep", f"the column name {name!r} is taken by a table's tensors; rename it in the file")
        # Spark, which may read the result, does not tell lower case from upper case.
        if other := taken.get(name.lower()):
            like = "" if other == name else f" ({other!r}; Spark ignores case)"
            error: ConfigError = config.error("keep", f"the column name {name!r} is taken{like}; rename it in the file")
            raise error
        taken[name.lower()] = name


def input_files(path: str) -> list[tuple[str, int]]:
    """(path, bytes) of the file `path`, or of all files in that folder, by name; hidden and empty ones left out.

    Raises InputError where there are none, and for a folder inside the folder.
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
                f"{filesystem.join(path, name)}: is a folder, but only files directly in the input folder are read. "
                "Give the folder that holds the files, or move this folder away"
            )
        if facts.bytes:
            found.append((filesystem.join(path, name), facts))
    if not found:
        raise InputError(f"{path}: the folder holds no files with rows")
    return found


@contextmanager
def open_raw(path: str) -> Iterator[tuple[Any, bool]]:
    """(a readable binary stream of the file's content, whether it is gzip); gzip is known by the first bytes, not the
    name.

    Reading from it raises EOFError, zlib.error or gzip.BadGzipFile where the gzip is truncated or damaged.
    """
    with filesystem.open_input(path) as file:
        compressed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        # gzip asks for 8 KiB at a time.
        stream = io.BufferedReader(file, buffer_size=1024 * 1024)
        yield (gzip.GzipFile(fileobj=stream) if compressed else stream), compressed


GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)


def gzip_problem(error: Exception, kind: str = "gzip") -> str:
    """What to tell the user about one of GZIP_ERRORS."""
    if isinstance(error, EOFError):
        return f"is truncated: the {kind} stream has no end"
    return f"is not a readable {kind} file: {' '.join(str(error).split())}"
