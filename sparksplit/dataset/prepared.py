"""Read a prepared data set: its manifest on the driver, its blocks on the nodes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hdfs_io import filesystem
from hdfs_io.errors import errno_of, file_error
from hdfs_io.marks import SUCCESS
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError, SparksplitError
from sparksplit.dataset import block_table, row_ids
from sparksplit.dataset.block_table import Segment, damaged
from sparksplit.dataset.description import COLUMN_NAMES, READING, Description
from sparksplit.dataset.lane_files import LABEL, ROW_ID, crc32, label_of, single_chunk, tensor_of, values_of
from sparksplit.dataset.manifest import FILE, Manifest

OPEN_FILES = 64
"""Open files of one reader. Each holds its list of row groups (2.6 MB for 1,000 row groups of three columns) and takes
4 ms to open.
"""


class PreparedDataSet:
    """A complete prepared data set. Small and picklable; holds no open files."""

    def __init__(self, path: str, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = threading.Lock()
        self._segments: dict[str, dict[int, list[Segment]]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={self.path!r})"

    @property
    def paths(self) -> list[str]:
        """The data set's folders: one, unless several data sets are read as one (`joined`)."""
        return [self.path]

    @classmethod
    def open(cls, path: str, verify: bool = True) -> PreparedDataSet:
        """Open the data set in the folder `path`.

        verify: check that every file exists and has the size in the manifest. The driver verifies; nodes open a
        verified data set and need not.

        Raise InputError if `_SUCCESS` or the manifest is missing, or if the manifest is damaged or of an unknown
        version. With `verify`, also raise InputError if a file is missing or has another size.
        """
        path = filesystem.absolute(path)
        if not filesystem.is_folder(path):
            why = (
                "it is a file. Run `sparksplit preprocess` on it first"
                if filesystem.exists(path)
                else "folder not found. Give the output folder of `sparksplit preprocess`"
            )
            raise InputError(f"{path}: not a prepared data set: {why}")
        if not filesystem.exists(filesystem.join(path, SUCCESS)):
            raise InputError(
                f"{path}: not a complete data set: no {SUCCESS} file. Run `sparksplit preprocess` to make it"
            )
        if not filesystem.exists(filesystem.join(path, FILE)):
            raise InputError(f"{path}: not a prepared data set: no {FILE}")
        data = cls(path, Manifest.read(path))
        if verify:
            data._verify()
        return data

    def _verify(self) -> None:
        for name, split in self.manifest.splits.items():
            if not split.files:
                continue
            sizes = filesystem.listing(filesystem.join(self.path, name))
            known = self.files(name)
            if len(known) != split.files:
                place = block_table.path_of(self.path, name)
                raise damaged(place, f"it lists {len(known)} files, but the manifest has {split.files}")
            for path, size in known.items():
                place = filesystem.join(self.path, path)
                there = sizes.get(path.rpartition("/")[2])
                if there is None:
                    raise InputError(f"{place}: file not found, although the data set lists it")
                if there != size:
                    raise damaged(place, f"it has {there} bytes, but {size} were written")

    def files(self, split: str) -> dict[str, int]:
        """Return the bytes of each file of a split, by its path within the data set. Read from the split's table."""
        return block_table.sizes(self.path, split) if self.manifest.splits[split].files else {}

    def segments(self, split: str, lanes: range | None = None) -> dict[int, list[Segment]]:
        """Return where the rows of each lane of a split are. lanes: only these; None: all, read once per process."""
        if not self.manifest.splits[split].files:
            return {}
        if lanes is not None:
            return block_table.segments(self.path, split, lanes)
        with self._lock:
            if split not in self._segments:
                self._segments[split] = block_table.segments(self.path, split)
            return self._segments[split]

    @property
    def description(self) -> Description:
        """The data set's description for a model."""
        return self.manifest.description

    @cached_property
    def digest(self) -> str:
        """A short hash of the content: rows, order, tensors, weights, label and preprocessing. It does not depend
        on the folder's path.
        """
        manifest = self.manifest
        return digest(
            {
                # The names of columns, and how raw files were read, are not a part of the content.
                "description": manifest.description.model_dump(
                    exclude={"tensors": {"__all__": COLUMN_NAMES}, **dict.fromkeys(READING, True)}
                ),
                "lanes": manifest.lanes,
                "block_rows": manifest.block_rows,
                "splits": {name: split.content for name, split in manifest.splits.items()},
            }
        )

    def split(self, name: str) -> PreparedSplit:
        """Return the split `name`: train, validation or test."""
        return PreparedSplit(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedDataSet, (self.path, self.manifest)


class Reader(Protocol):
    """Reads blocks, for one thread. A context manager that closes its files."""

    def read(self, lane: int, block: int) -> Block:
        """Return block `block` of `lane`."""

    def close(self) -> None:
        """Close the files."""

    def __enter__(self) -> Reader: ...

    def __exit__(self, *_: object) -> None: ...


class PreparedSplit:
    """One split's rows by lanes and blocks.

    lane_rows: rows in each lane. block_rows: rows in each block except a lane's last. tensors, label: contents of a
    row.
    """

    def __init__(self, data: PreparedDataSet, name: str) -> None:
        manifest = data.manifest
        self._data, self._name = data, name
        self._parts: Sequence[PreparedDataSet] = [data]
        self.lane_rows, self.block_rows = manifest.splits[name].lane_rows, manifest.block_rows
        self.tensors, self.label = manifest.tensors, manifest.label

    def reader(self) -> Reader:
        """Return a reader of the split's blocks, for one thread."""
        return BlockReader(self._data, self._name)

    def at_hand(self) -> None:
        """Return None: rows are read from files block by block and are not held in memory."""

    def place_of(self, row_id: int) -> str:
        """Return where the row with this row_id (unsigned) is, in words. Searches the row's lane."""
        place = None
        with suppress(SparksplitError):  # report the row's problem even if the row cannot be located
            for part in self._parts:
                with BlockReader(part, self._name, columns=[]) as reader:
                    place = place or reader.find(row_id)
        named = f"row_id {row_ids.signed(np.array([row_id], np.uint64))[0]}"
        return f"{self._data.path}, {self._name}: {named}" if place is None else f"{place} ({named})"


@dataclass(frozen=True)
class Block:
    """The rows of one block. Arrays are read-only views of Arrow's memory if possible."""

    row_ids: npt.NDArray[np.uint64]
    tensors: dict[str, npt.NDArray[Any]]
    """By name: [rows, *shape] in the stored dtype."""
    label: npt.NDArray[Any] | None
    """[rows, *shape] class indices or numbers, in the stored dtype; None without a label, or if not requested."""
    keep: dict[str, pa.Array] = field(default_factory=dict)
    """The requested kept columns."""


class BlockReader:
    """Reads the blocks of one split. Not thread-safe: use one per thread. Keeps the last files open.

    columns: tensors, `label` and kept columns to read besides row_id. Default: the tensors and the label. Checksums are
        verified if all tensors and the label are read.
    lanes: if set, only blocks of these lanes will be read.
    open_files: how many files to keep open; None: OPEN_FILES.
    """

    def __init__(
        self,
        data: PreparedDataSet,
        split: str,
        columns: Sequence[str] | None = None,
        lanes: range | None = None,
        open_files: int | None = None,
    ) -> None:
        manifest = data.manifest
        if split not in manifest.splits:
            raise InputError(f"{data.path}: has no split {split!r}; it has {', '.join(manifest.splits)}")
        label = [] if manifest.label is None else [LABEL]
        checked = [tensor.name for tensor in manifest.tensors] + label
        wanted = checked if columns is None else list(columns)
        for name in wanted:
            if name not in (*checked, *manifest.keep):
                raise InputError(f"{data.path}: has no column {name!r}; it has {', '.join(checked + manifest.keep)}")
        self._path, self._split, self._block_rows = data.path, split, manifest.block_rows
        self._lane_rows = manifest.splits[split].lane_rows
        self._columns = [ROW_ID, *wanted]
        self._tensors = [tensor for tensor in manifest.tensors if tensor.name in wanted]
        self._label = manifest.label if LABEL in wanted else None
        self._keep = [name for name in wanted if name in manifest.keep]
        self._verify = set(checked) <= set(wanted)
        self._segments = data.segments(split, lanes)
        self._open: OrderedDict[str, pq.ParquetFile] = OrderedDict()
        self._open_files = OPEN_FILES if open_files is None else open_files

    def read(self, lane: int, block: int) -> Block:
        """Return block `block` of `lane`.

        Raise IndexError for a block that the lane does not have. Raise InputError, with file and row group, if the file
        is damaged.
        """
        start = block * self._block_rows
        stop = min(start + self._block_rows, self._lane_rows[lane])
        if stop <= start or block < 0:
            raise IndexError(f"lane {lane} has no block {block}")
        # A lane may continue in another file in the middle of a block.
        parts = [
            self._part(segment, block, min(stop, segment.offset + segment.rows) - max(start, segment.offset))
            for segment in self._segments.get(lane, ())
            if segment.offset < stop and start < segment.offset + segment.rows
        ]
        table, found = parts[0] if len(parts) == 1 else self._block(pa.concat_tables([table for table, _ in parts]))
        if table.num_rows != stop - start:
            place = block_table.path_of(self._path, self._split)
            raise damaged(place, f"{table.num_rows} of the {stop - start} rows of a block of lane {lane}")
        return replace(found, keep={name: single_chunk(table.column(name)) for name in self._keep})

    def find(self, row_id: int) -> str | None:
        """Return file, row group and position of the row with this row_id (unsigned); None if no file has it."""
        for segment in self._segments.get(row_id % len(self._lane_rows), ()):
            for group in range(segment.first_row_group, segment.first_row_group + len(segment.crc32)):
                ids = self._read(segment.path, group)[1].row_ids
                if len(row := np.flatnonzero(ids == np.uint64(row_id))):
                    return f"{filesystem.join(self._path, segment.path)}: row group {group}, row {row[0]}"
        return None

    def _part(self, segment: Segment, block: int, rows: int) -> tuple[pa.Table, Block]:
        """Return the rows of a block in the segment's file, verified."""
        group = segment.first_row_group + block - segment.offset // self._block_rows
        place = f"{filesystem.join(self._path, segment.path)}: row group {group}"
        table, found = self._read(segment.path, group)
        if table.num_rows != rows:
            raise damaged(place, f"it has {table.num_rows} rows, but {rows} were written")
        if self._verify:
            label = [] if found.label is None else [found.label]
            crc = crc32([found.row_ids, *found.tensors.values(), *label])
            known = segment.crc32[group - segment.first_row_group]
            if crc != known:
                raise damaged(place, f"its checksum is {crc:08x}, but was {known:08x} when it was written")
        return table, found

    def _read(self, path: str, group: int) -> tuple[pa.Table, Block]:
        try:
            return self._block(self._file(path).read_row_group(group, columns=self._columns, use_threads=False))
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            place = f"{filesystem.join(self._path, path)}: row group {group}"
            if errno_of(error) is not None:
                raise file_error(place, "cannot be read", error) from None
            raise damaged(place, " ".join(str(error).split())[:200]) from None

    def _block(self, table: pa.Table) -> tuple[pa.Table, Block]:
        ids = values_of(table.column(ROW_ID), np.dtype(np.uint64))
        tensors = {tensor.name: tensor_of(table.column(tensor.name), tensor) for tensor in self._tensors}
        label = None if self._label is None else label_of(table.column(LABEL), self._label)
        return table, Block(ids, tensors, label)

    def _file(self, path: str) -> pq.ParquetFile:
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        if len(self._open) >= self._open_files:
            _, oldest = self._open.popitem(last=False)
            oldest.close(force=True)
        target, inner = filesystem.resolve(filesystem.join(self._path, path))
        # pyarrow's memory maps and read-ahead would count as the node's memory, and the feed reads ahead itself.
        self._open[path] = pq.ParquetFile(target.open_input_file(inner), memory_map=False, pre_buffer=False)
        return self._open[path]

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close(force=True)
        self._open.clear()

    def __enter__(self) -> BlockReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
