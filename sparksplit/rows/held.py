"""All rows of a split, held once for the virtual nodes of a process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hdfs_io import activity
from hdfs_io.errors import using_own
from sparksplit.dataset.description import LabelSpec, TensorSpec
from sparksplit.rows.assembler import Assembler, Rows
from sparksplit.rows.feed import AtHand, RowReader, RowSource


class Held:
    """The rows of every lane of `source`, as a RowSource.

    The rows are in memory if they fit into `limit` bytes. Otherwise they are in memory-mapped files in `folder`.

    Raise InputError for a damaged file, and Passing if the disk is full or `folder` is gone.
    """

    def __init__(self, source: RowSource, folder: str, limit: int) -> None:
        self.lane_rows, self.block_rows = source.lane_rows, source.block_rows
        self.tensors: list[TensorSpec] = source.tensors
        self.label: LabelSpec | None = source.label
        self.reader, self.place_of = source.reader, source.place_of
        ends = np.cumsum(source.lane_rows, dtype=np.int64)
        assembler, count = Assembler(source.tensors, source.label, 0, None), int(ends[-1])
        rows = assembler.empty(count if count * assembler.row_bytes <= limit else 0)
        if len(rows.row_ids) < count:
            rows = _mapped(rows, count, Path(folder))
        self._at_hand = AtHand(rows, ends - np.array(source.lane_rows, np.int64))
        start = 0
        for row_ids, tensors, label in self._blocks():
            stop = start + len(row_ids)
            arrays = [row_ids, *tensors, *([] if label is None else [label])]
            for target, values in zip(rows.columns(), arrays, strict=True):
                target[start:stop] = values
            start = stop

    def at_hand(self) -> AtHand:
        """Return all rows."""
        return self._at_hand

    def _blocks(self) -> Iterator[tuple[np.ndarray, list[np.ndarray], np.ndarray | None]]:
        reader: RowReader = self.reader()
        try:
            for lane, rows in enumerate(self.lane_rows):
                for number in range(-(-rows // self.block_rows)):
                    block = reader.read(lane, number)
                    activity.note()
                    yield block.row_ids, [block.tensors[spec.name] for spec in self.tensors], block.label
        finally:
            reader.close()


def _mapped(like: Rows, count: int, folder: Path) -> Rows:
    """Return arrays for `count` rows with the columns of `like`, in files of a new folder in `folder`."""
    with using_own(str(folder)):
        subfolder = Path(tempfile.mkdtemp(prefix="held-", dir=folder))

    def room(name: str, column: np.ndarray) -> np.ndarray:
        shape = (count, *column.shape[1:])
        with using_own(str(folder)):
            mapped = np.lib.format.open_memmap(subfolder / f"{name}.npy", "w+", column.dtype, shape)
            with (subfolder / f"{name}.npy").open("rb+") as file:
                # Allocate now. On a full disk, a later write to a page would end the process with SIGBUS, without an
                # error message.
                os.posix_fallocate(file.fileno(), 0, mapped.offset + mapped.nbytes)
        return mapped

    try:
        tensors = [room(f"tensor-{place}", tensor) for place, tensor in enumerate(like.tensors)]
        label = None if like.label is None else room("label", like.label)
        return Rows(room("row-ids", like.row_ids), tensors, label)
    except BaseException:
        shutil.rmtree(subfolder, ignore_errors=True)
        raise
