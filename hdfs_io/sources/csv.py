"""CSV: one row a line, features as numbers, the label in a column of its own; plain or gzip, with a header or without.

Blocks of lines go through pyarrow's parser. If it refuses a block, or does not make exactly one row of each line, the
block is halved until the bad rows stand alone. A line end within quotes is not supported: it would make files
impossible to split. Rows and bad rows together are the lines that are not blank.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.config import InputConfig, check_input
from hdfs_io.manifest import SourceFile
from hdfs_io.preprocessing import Description, TensorSpec
from hdfs_io.sources import csv_columns, csv_lines
from hdfs_io.sources.base import (
    BATCH_BYTES,
    GZIP_ERRORS,
    RANGE_BYTES,
    BadRow,
    FileSource,
    ParsedRows,
    Task,
    check_kept,
    gzip_problem,
    in_trained_order,
    input_files,
    labelled_like,
    open_raw,
)
from sparksplit.base.errors import InputError

_BOM = b"\xef\xbb\xbf"
_PROBE_BYTES = 1024 * 1024
_PROBE_ROWS = 200
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_ROW_TEXT = 200


@dataclass(frozen=True)
class _Line:
    number: int
    content: bytes
    problem: str | None
    """Why it cannot be a row, found without parsing its columns"""


class CsvSource(FileSource):
    """A CSV file, or a folder of them with the same columns. The first rows are parsed on the driver to check them."""

    @classmethod
    def of(cls, config: InputConfig, description: Description | None, validation: float, test: float) -> CsvSource:
        config = labelled_like(config, description)
        check_input(config)
        return cls(config, description)

    def __init__(self, config: InputConfig, description: Description | None = None) -> None:
        self._delimiter, self._header, self._limit = config.delimiter, config.header, config.max_bad_rows
        self._files = {"train": input_files(config.one_path())}
        if config.test is not None:
            self._files["test"] = input_files(config.one_path("test"))
        self.has_test = config.test is not None
        self.files = [SourceFile(path=path, bytes=size) for files in self._files.values() for path, size in files]

        lines = self._first_lines(self._files["train"][0][0])
        self._names = self._fields(lines[0][1])
        if self._header:
            self._check_names(self._files["train"][0][0])
        columns = len(self._names)
        self._label = None if config.label is None else self._position(config, "label", config.label)
        kept = [self._position(config, "keep", column) for column in config.keep]
        self.keep = [self._names[column] if self._header else f"column_{column}" for column in kept]
        features = [column for column in range(columns) if column != self._label and column not in kept]
        if self._label in kept or len(set(kept)) < len(kept):
            raise config.error("keep", "names the label, or a column twice")
        check_kept(config, self.keep)
        if not features:
            raise InputError(f"{self.files[0].path}: has no columns left for features ({columns} in all)")
        if self._header:
            named = in_trained_order([self._names[column] for column in features], description, self.files[0].path)
            features = [self._names.index(name) for name in named]
        shape = config.shape or [len(features)]
        if math.prod(shape) != len(features):
            raise config.error("shape", f"does not fit {len(features)} feature columns (is {shape})")
        names = [self._names[column] for column in features] if self._header else None
        self.tensors = [TensorSpec(name="x", dtype=config.dtype or "float32", shape=shape, columns=names)]
        self.label_kind = None
        if self._label is not None:
            self.label_kind = config.label_type
            if self.label_kind == "auto":
                self.label_kind = self._guess_label([line for _, line in lines[1 if self._header else 0 :]])
        self._columns = csv_columns.Columns(
            names=self._names,
            delimiter=self._delimiter,
            header=self._header,
            features=features,
            tensor=self.tensors[0],
            label=self._label,
            label_kind=self.label_kind,
            kept=kept,
            gaps=config.missing == "mean",
            rounds=config.dtype is not None,
        )
        for files in self._files.values():
            self._probe(files[0][0])

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """As many as the files hold if their lines are as long, and compress as well, as the first file's first."""
        with open_raw(self.files[0].path) as (stream, compressed):
            head = stream.read(_PROBE_BYTES)
        size, lines = len(zlib.compress(head) if compressed else head), head.count(b"\n")
        return {part: sum(bytes_ for _, bytes_ in of) * lines // size for part, of in self._files.items()}

    def tasks(self) -> list[Task]:
        """Byte ranges of plain files; one task for each gzip file, which cannot be split."""
        tasks = []
        for part, files in self._files.items():
            for path, size in files:
                with open_raw(path) as (_, compressed):
                    pass
                step = max(size, 1) if compressed else RANGE_BYTES
                tasks += [
                    Task(part, path, None, start, None if compressed or start + step >= size else start + step)
                    for start in range(0, size, step)
                ]
        return tasks

    def read(self, task: Task) -> Iterator[ParsedRows | BadRow]:
        """The task's rows."""
        try:
            with open_raw(task.path) as (stream, _):
                for first_line, content in self._blocks(task, stream):
                    yield from self._parse(task, first_line, content)
        except GZIP_ERRORS as error:
            yield BadRow(task.path, 0, gzip_problem(error), fatal=True)
        except InputError as error:
            yield BadRow(task.path, 0, str(error).removeprefix(f"{task.path}: "), fatal=True)

    def _blocks(self, task: Task, stream: Any) -> Iterator[tuple[int, bytes]]:
        """(number of the first line, counted from the task's start, content) for each block of whole lines."""
        position, line = task.start, 1
        if task.start > 0:
            # A line belongs to the range that its first byte is in.
            stream.seek(task.start - 1)
            position += len(csv_lines.read(task.path, stream)) - 1
        elif self._header:
            header = csv_lines.read(task.path, stream)
            position, line = len(header), 2
            self._check_header(task.path, header.removeprefix(_BOM))
        rest = b""
        while task.stop is None or position < task.stop:
            wanted = BATCH_BYTES if task.stop is None else min(BATCH_BYTES, task.stop - position)
            part = stream.read(wanted)
            if not part:
                break
            position += len(part)
            content = rest + part
            if task.stop is not None and position >= task.stop and not content.endswith(b"\n"):
                content += csv_lines.read(task.path, stream)
            end = content.rfind(b"\n") + 1
            content, rest = content[:end], content[end:]
            if len(rest) > csv_lines.LINE_BYTES:
                raise csv_lines.too_long(task.path)
            if content:
                yield line, content if line > 1 or task.start else content.removeprefix(_BOM)
                line += content.count(b"\n")
        if rest:
            yield line, rest if line > 1 or task.start else rest.removeprefix(_BOM)

    def _parse(self, task: Task, first_line: int, content: bytes) -> Iterator[ParsedRows | BadRow]:
        """One row or bad row for each line of `content` that is not blank, in their order."""
        expected = csv_lines.count(content)
        if not expected:
            return
        # pyarrow swallows line ends up to a closing quote, which the count shows unless the quote is still open at the
        # end; and it ends a line at a carriage return, which could hide that.
        if not csv_lines.has_inner_cr(content) and not csv_lines.problem(csv_lines.last(content), self._delimiter):
            try:
                rows = self._rows(content, expected)
            except (pa.ArrowException, ValueError):
                pass
            else:
                yield rows
                return
        numbered = enumerate(content.split(b"\n"), first_line)
        lines = [(number, line) for number, line in numbered if line.rstrip(b"\r")]
        yield from self._halve(task, self._looked_at(lines))

    def _looked_at(self, lines: Iterable[tuple[int, bytes]]) -> list[_Line]:
        return [_Line(number, line, csv_lines.problem(line, self._delimiter)) for number, line in lines]

    def _halve(self, task: Task, lines: list[_Line]) -> Iterator[ParsedRows | BadRow]:
        """One row or bad row for each of the lines, none of them blank."""
        problem: str | Exception | None = next((line.problem for line in lines if line.problem), None)
        if problem is None and lines:
            try:
                yield self._rows(b"\n".join(line.content for line in lines) + b"\n", len(lines))
                return
            except (pa.ArrowException, ValueError) as error:
                problem = error
        if len(lines) == 1:
            line = lines[0]
            text = line.content[:_ROW_TEXT].decode(errors="replace").rstrip("\r")
            reason = problem if isinstance(problem, str) else self._columns.reason(line.content, problem)
            yield BadRow(task.path, line.number, reason, text, offset=task.start, kind=csv_columns.kind_of(reason))
        elif lines:
            yield from self._halve(task, lines[: len(lines) // 2])
            yield from self._halve(task, lines[len(lines) // 2 :])

    def _rows(self, content: bytes, expected: int) -> ParsedRows:
        """Like `Columns.convert`; raises ValueError where there are not as many rows as expected."""
        # A byte order mark means nothing within a file; pyarrow drops one where a block happens to begin.
        rows = self._columns.convert(b"\n" + content)
        if len(rows) != expected:
            raise ValueError(f"{expected} lines give {len(rows)} rows")
        return rows

    def _fields(self, line: bytes) -> list[str]:
        return csv_lines.split(line, self._delimiter)

    def _first_lines(self, path: str) -> list[tuple[int, bytes]]:
        """(number, content) of the first lines of `path` that are not blank; the first of them can be split."""
        try:
            with open_raw(path) as (stream, _):
                content = stream.read(_PROBE_BYTES)
                if len(content) == _PROBE_BYTES:
                    content += csv_lines.read(path, stream)
        except GZIP_ERRORS as error:
            raise InputError(f"{path}: {gzip_problem(error)}") from None
        numbered = enumerate(content.removeprefix(_BOM).split(b"\n"), 1)
        lines = [(number, line) for number, line in numbered if line.rstrip(b"\r")]
        if not lines:
            raise InputError(f"{path}: is empty")
        if self._header and lines[0][0] > 1:
            raise InputError(f"{path}: row 1: is blank, where the header should be (input.header: true)")
        try:
            self._fields(lines[0][1])
        except InputError as error:
            raise InputError(f"{path}: row {lines[0][0]}: {error}") from None
        return lines[: _PROBE_ROWS + 1]

    def _probe(self, path: str) -> None:
        """Parse the first rows of a file on the driver, so that a wrong configuration fails before Spark starts."""
        if self._limit:
            return
        lines = self._first_lines(path)
        if self._header:
            self._check_header(path, lines[0][1])
            lines = lines[1:]
        for item in self._halve(Task("train", path), self._looked_at(lines)):
            if isinstance(item, BadRow):
                hint = "; is it a header (input.header: true)?" if item.row == 1 and not self._header else ""
                raise InputError(f"{item}{hint}")

    def _check_header(self, path: str, line: bytes) -> None:
        try:
            names = self._fields(line)
        except InputError as error:
            raise InputError(f"{path}: row 1: {error}") from None
        if names != self._names:
            raise InputError(f"{path}: its header is not that of {self.files[0].path}")

    def _check_names(self, path: str) -> None:
        for name in self._names:
            if not name or self._names.count(name) > 1:
                raise InputError(f"{path}: row 1: the header has {'an empty name' if not name else f'{name!r} twice'}")

    def _position(self, config: InputConfig, key: str, column: int | str) -> int:
        count = len(self._names)
        if isinstance(column, str):
            if column not in self._names:
                raise config.error(key, f"{self.files[0].path} has no column {column!r}")
            return self._names.index(column)
        if not -count <= column < count:
            raise config.error(key, f"{self.files[0].path} has {count} columns, 0 to {count - 1} (is {column})")
        return column % count

    def _guess_label(self, lines: list[bytes]) -> str:
        assert self._label is not None
        labels = []
        for line in lines:
            # Rows that cannot be read are reported or counted when all rows are parsed.
            with suppress(InputError):
                fields = self._fields(line)
                if len(fields) == len(self._names):
                    labels.append(fields[self._label])
        if all(_INTEGER.fullmatch(label) for label in labels):
            return "integer"
        return "text" if any(csv_columns.label_problem(label, "number") for label in labels) else "number"


def lines_before(path: str, offset: int) -> int:
    """Lines that begin before the range at byte `offset`: what to add to a row number that is counted from there."""
    with filesystem.open_input(path) as file:
        count, position = 0, 0
        while position < offset:
            part = file.read(min(BATCH_BYTES, offset - position))
            if not part:
                break
            count += part.count(b"\n")
            position += len(part)
        if offset > 0:
            # The range's first line is the first one that starts in it.
            file.seek(offset - 1)
            count += 0 if file.read(1) == b"\n" else 1
    return count
