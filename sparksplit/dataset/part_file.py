"""The single Parquet file of a Spark task: hidden, until the driver accepts it and renames it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from hdfs_io import filesystem
from hdfs_io.errors import using
from sparksplit.base.errors import SparksplitError

_GROUP_BYTES = 16 * 1024 * 1024


def attempt_name(part: int, attempt: int) -> str:
    """Return the name of a task's file: hidden, and different for each attempt."""
    return f".{final_name(part)}.{attempt}"


def final_name(part: int) -> str:
    """Return the driver's name of an accepted file."""
    return f"part-{part:05d}.parquet"


def accept(folder: str, names: Sequence[str]) -> None:
    """Give the files `names` of successful attempts their final names, by their order. Remove the hidden files of
    other attempts."""
    for number, name in enumerate(names):
        filesystem.rename(filesystem.join(folder, name), filesystem.join(folder, final_name(number)))
    for name in filesystem.listing(folder):
        if name.startswith("."):
            filesystem.remove(filesystem.join(folder, name))


class PartFile:
    """Writes one Parquet file into `folder`. The file is made with the first rows. Without rows, there is no file.

    A context manager: an error removes the file. repeating: columns to write with a dictionary.
    """

    def __init__(self, folder: str, name: str, repeating: Collection[str] = ()) -> None:
        self.name, self._path, self._repeating = name, filesystem.join(folder, name), repeating
        self.rows = 0
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0

    def __enter__(self) -> PartFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort()
            return
        try:
            self._close()
        except BaseException:
            self._abort()
            raise

    def write(self, rows: pa.Table) -> None:
        """Append rows. At most one row group of rows stays in memory."""
        if rows.num_rows == 0:
            return
        self.rows += rows.num_rows
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= _GROUP_BYTES:
            self._flush()

    def _close(self) -> None:
        self._flush()
        if self._writer is not None:
            with using(self._path, "cannot be written"):
                self._writer.close()

    def _abort(self) -> None:
        self._pending = []
        # Report only the first error. A full disk may not have room for the file's end either.
        if self._writer is not None:
            with suppress(OSError, SparksplitError):
                self._writer.close()
        if self.rows:
            with suppress(OSError, SparksplitError):
                filesystem.remove(self._path)

    def _flush(self) -> None:
        if not self._pending:
            return
        group = pa.concat_tables(self._pending).combine_chunks()
        if self._writer is None:
            target, inner = filesystem.resolve(self._path)
            repeating = [name for name in group.column_names if name in self._repeating]
            with using(self._path, "cannot be written"):
                self._writer = pq.ParquetWriter(inner, group.schema, filesystem=target, use_dictionary=repeating)
        with using(self._path, "cannot be written"):
            self._writer.write_table(group, row_group_size=group.num_rows)
        self._pending, self._pending_bytes = [], 0
