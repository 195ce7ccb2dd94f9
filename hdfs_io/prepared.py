"""Reading a prepared data set: its manifest on the driver, its blocks on the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hdfs_io import filesystem
from hdfs_io.lane_files import LABEL, ROW_ID, crc32, label_of, single_chunk, tensor_of, values_of
from hdfs_io.manifest import FILE, Manifest
from hdfs_io.preprocessing import Description
from hdfs_io.publish import SUCCESS
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError, errno_of, file_error


class PreparedDataSet:
    """A complete prepared data set; small, picklable, without open files."""

    def __init__(self, path: str, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    def __repr__(self) -> str:
        return f"PreparedDataSet(path={self.path!r})"

    @classmethod
    def open(cls, path: str, verify: bool = True) -> PreparedDataSet:
        """The data set in the folder `path`.

        verify: check that every file is there and has the manifest's size. The driver does so; nodes open what the
        driver has checked, and need not.

        Raises InputError where `_SUCCESS` or the manifest is missing, the manifest is damaged or of an unknown
        version, or a file is missing or has another size.
        """
        path = filesystem.absolute(path)
        if not filesystem.is_folder(path):
            why = (
                "it is a file (preprocess makes a data set of it)"
                if filesystem.exists(path)
                else "there is no such folder"
            )
            raise InputError(f"{path}: is no prepared data set: {why}")
        if not filesystem.exists(filesystem.join(path, SUCCESS)):
            raise InputError(f"{path}: is no complete data set: it has no {SUCCESS} (write it with preprocess)")
        if not filesystem.exists(filesystem.join(path, FILE)):
            raise InputError(f"{path}: is no prepared data set: it has no {FILE}")
        data = cls(path, Manifest.read(path))
        if verify:
            data._verify()
        return data

    def _verify(self) -> None:
        for name, split in self.manifest.splits.items():
            found = filesystem.listing(filesystem.join(self.path, name)) if split.files else {}
            for file in split.files:
                place = filesystem.join(self.path, file.path)
                size = found.get(file.path.rpartition("/")[2])
                if size is None:
                    raise InputError(f"{place}: is missing, though the manifest lists it")
                if size != file.bytes:
                    raise InputError(f"{place}: is damaged: {size} bytes, in the manifest {file.bytes}")

    @property
    def description(self) -> Description:
        """What a model needs to know about the data set."""
        return self.manifest.description

    @cached_property
    def digest(self) -> str:
        """A short hash of the content: rows, order, tensors, label and preprocessing, wherever the folder lies."""
        manifest = self.manifest
        return digest(
            {
                # What columns are called is no part of their content.
                "description": manifest.description.model_dump(exclude={"tensors": {"__all__": {"columns"}}}),
                "lanes": manifest.lanes,
                "block_rows": manifest.block_rows,
                "splits": {name: [split.checksum, split.lane_rows] for name, split in manifest.splits.items()},
            }
        )

    def split(self, name: str) -> PreparedSplit:
        """The split `name`: train, validation or test."""
        return PreparedSplit(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedDataSet, (self.path, self.manifest)


class PreparedSplit:
    """One split's rows by lanes and blocks.

    lane_rows: rows in each lane. block_rows: rows in each block but a lane's last. tensors, label: what a row holds.
    """

    def __init__(self, data: PreparedDataSet, name: str) -> None:
        manifest = data.manifest
        self._data, self._name = data, name
        self.lane_rows, self.block_rows = manifest.splits[name].lane_rows, manifest.block_rows
        self.tensors, self.label = manifest.tensors, manifest.label

    def reader(self) -> BlockReader:
        """A reader of its blocks; for one thread."""
        return BlockReader(self._data, self._name)

    def at_hand(self) -> None:
        """None: the rows of a file are read block by block, not held."""


@dataclass(frozen=True)
class Block:
    """The rows of one block. Arrays are read-only views of Arrow's memory where that is possible."""

    row_ids: npt.NDArray[np.uint64]
    tensors: dict[str, npt.NDArray[Any]]
    """By name: [rows, *shape] in the stored dtype."""
    label: npt.NDArray[Any] | None
    """[rows, *shape] class indices or float32 numbers; None where there is none, or it was not asked for."""
    keep: dict[str, pa.Array] = field(default_factory=dict)
    """The kept columns that were asked for."""


class BlockReader:
    """Reads the blocks of one split. Not thread-safe: use one per thread. Keeps the files that it has read from open.

    columns: which of the tensors, `label` and the kept columns to read beside row_id; by default the tensors and the
        label. Checksums are verified where all tensors and the label are read.
    """

    def __init__(self, data: PreparedDataSet, split: str, columns: Sequence[str] | None = None) -> None:
        manifest = data.manifest
        if split not in manifest.splits:
            raise InputError(f"{data.path}: has no split {split!r}; it has {', '.join(manifest.splits)}")
        label = [] if manifest.label is None else [LABEL]
        checked = [tensor.name for tensor in manifest.tensors] + label
        wanted = checked if columns is None else list(columns)
        for name in wanted:
            if name not in (*checked, *manifest.keep):
                raise InputError(f"{data.path}: has no column {name!r}; it has {', '.join(checked + manifest.keep)}")
        self._path, self._block_rows = data.path, manifest.block_rows
        self._lane_rows = manifest.splits[split].lane_rows
        self._columns = [ROW_ID, *wanted]
        self._tensors = [tensor for tensor in manifest.tensors if tensor.name in wanted]
        self._label = manifest.label if LABEL in wanted else None
        self._keep = [name for name in wanted if name in manifest.keep]
        self._verify = set(checked) <= set(wanted)
        self._places = {
            lane.lane: (file, lane.first_row_group) for file in manifest.splits[split].files for lane in file.lanes
        }
        self._open: dict[str, pq.ParquetFile] = {}

    def read(self, lane: int, block: int) -> Block:
        """Block `block` of `lane`.

        Raises IndexError for a block that the lane does not have, and InputError naming file and row group where the
        file is damaged.
        """
        rows = min(self._block_rows, self._lane_rows[lane] - block * self._block_rows)
        if rows <= 0 or block < 0:
            raise IndexError(f"lane {lane} has no block {block}")
        file, first = self._places[lane]
        group = first + block
        place = f"{filesystem.join(self._path, file.path)}: row group {group}"
        try:
            table = self._file(file.path).read_row_group(group, columns=self._columns, use_threads=False)
            if table.num_rows != rows:
                raise ValueError(f"{table.num_rows} rows, in the manifest {rows}")
            ids = values_of(table.column(ROW_ID), np.dtype(np.int64))
            tensors = {tensor.name: tensor_of(table.column(tensor.name), tensor) for tensor in self._tensors}
            label = None if self._label is None else label_of(table.column(LABEL), self._label)
        except (OSError, pa.ArrowException, ValueError, KeyError) as error:
            if errno_of(error) is not None:
                raise file_error(place, "cannot be read", error) from None
            raise InputError(f"{place}: is damaged: {' '.join(str(error).split())[:200]}") from None
        if self._verify:
            found, known = crc32([ids, *tensors.values(), *([] if label is None else [label])]), file.crc32[group]
            if found != known:
                raise InputError(f"{place}: is damaged: its checksum is {found:08x}, in the manifest {known:08x}")
        keep = {name: single_chunk(table.column(name)) for name in self._keep}
        return Block(ids.view(np.uint64), tensors, label, keep)

    def _file(self, path: str) -> pq.ParquetFile:
        if path not in self._open:
            target, inner = filesystem.resolve(filesystem.join(self._path, path))
            # Memory maps and read-ahead by pyarrow would count as the node's memory; the feed reads ahead itself.
            self._open[path] = pq.ParquetFile(target.open_input_file(inner), memory_map=False, pre_buffer=False)
        return self._open[path]

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close(force=True)
        self._open = {}

    def __enter__(self) -> BlockReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
