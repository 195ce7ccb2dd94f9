"""Chunks: a node's shares of consecutive mini-batches, gathered from rows in memory or on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sparksplit.base.memory import aligned
from sparksplit.dataset.description import LabelSpec, TensorSpec
from sparksplit.dataset.row_ids import mix64, row_checksum
from sparksplit.rows import order
from sparksplit.rows.ledger import Entry
from sparksplit.rows.transforms import Transform, transformed
from sparksplit.rows.unfit import Fit, Place, by_id

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """A node's shares of consecutive mini-batches.

    tensors: one array [rows, *shape] per tensor, in the data set's order.
    label: [rows, ...] or None.
    offsets: int64 [updates + 1]. The share of update first + i is rows offsets[i]:offsets[i + 1]. A share may be empty.
    rows: int64 [updates], rows of each mini-batch over all nodes.
    seen: the ledger entry of the chunk's rows.
    share: rows of each share, if the order of rows makes all shares equal. None if shares are only equal by chance.
    suspect: a value that is not a finite number, and its row. Only one chunk can have a suspect.
    """

    first: int
    tensors: list[Array]
    label: Array | None
    offsets: Ints
    rows: Ints
    seen: Entry
    share: int | None = None
    suspect: str | None = None

    @property
    def updates(self) -> int:
        """Mini-batches in the chunk."""
        return len(self.offsets) - 1


@dataclass
class Rows:
    """Rows as arrays: row_ids uint64 [n], one array [n, *shape] per tensor, label [n, ...] or None."""

    row_ids: npt.NDArray[np.uint64]
    tensors: list[Array]
    label: Array | None

    def columns(self) -> list[Array]:
        """Return all columns of the rows: the row_ids, the tensors, the label."""
        return [self.row_ids, *self.tensors, *([] if self.label is None else [self.label])]

    def take(self, index: Ints, target: Rows, start: int) -> None:
        """Copy the rows `index` into `target`, starting at its row `start`."""
        stop = start + len(index)
        for to, values in zip(target.columns(), self.columns(), strict=True):
            # mode="clip", because with the default mode NumPy fills a buffer and copies once more.
            np.take(values, index, axis=0, out=to[start:stop], mode="clip")


class RandomRows(Protocol):
    """Rows with random access: in memory, or memory-mapped."""

    def take(self, index: Ints, target: Rows, start: int) -> None:
        """Copy the rows `index` into `target`, starting at its row `start`."""


Piece = tuple[RandomRows, Ints]
"""Rows, and the indices of the rows to take."""


class Assembler:
    """Gathers pieces into chunks, and applies the user's transform.

    seed: the seed of the transform.
    place: returns where a row is, for people.
    fit: which rows are accepted.
    row_bytes: bytes of one row.
    """

    def __init__(
        self,
        tensors: Sequence[TensorSpec],
        label: LabelSpec | None,
        seed: int,
        transform: Transform | None,
        place: Place = by_id,
        fit: Fit = Fit(),  # noqa: B008
    ) -> None:
        self.specs, self.label = list(tensors), label
        self._names = [spec.name for spec in self.specs]
        self._seed, self._transform, self._place, self._fit = seed, transform, place, fit
        self.looks = True
        """Whether to look for values that are not finite numbers. False once one was found."""
        self.row_bytes = sum(column.nbytes for column in self.empty(1).columns())

    def empty(self, count: int) -> Rows:
        """Return uninitialised arrays for `count` rows."""
        tensors = [aligned((count, *spec.shape), spec.dtype) for spec in self.specs]
        label = None if self.label is None else aligned((count, *self.label.shape), self.label.dtype)
        return Rows(np.empty(count, np.uint64), tensors, label)

    def chunk(
        self, epoch: int, first: int, pieces: Sequence[Piece], offsets: Ints, totals: Ints, share: int | None = None
    ) -> Chunk:
        """Return the chunk with the rows of `pieces`, one piece after the other. The other arguments are as in Chunk.

        Raise InputError if a label is not a class, or if the transform returns other rows. Errors of the transform pass
        through.
        """
        rows = self.empty(int(offsets[-1]))
        start = 0
        for source, index in pieces:
            source.take(index, rows, start)
            start += len(index)
        tensors, label = rows.tensors, rows.label
        # A node may have no rows of a mini-batch, and many functions fail for no rows, such as reshape(len(x), -1).
        # Arrays without rows already have the shapes and dtypes that a transform must keep.
        if self._transform is not None and len(rows.row_ids):
            seeds = mix64(rows.row_ids ^ order.key(self._seed, epoch))
            named = dict(zip(self._names, tensors, strict=True))
            tensors, label = transformed(self._transform, named, label, seeds, self.specs, self.label)
        self._fit.check_labels(label, self.label, rows.row_ids, self._place)
        seen = Entry(len(rows.row_ids), row_checksum(rows.row_ids))
        return Chunk(first, tensors, label, offsets, totals, seen, share, self._suspect(rows.row_ids, tensors, label))

    def _suspect(self, row_ids: npt.NDArray[np.uint64], tensors: Sequence[Array], label: Array | None) -> str | None:
        """Return the first value that is not a finite number, and its row. Later calls return None."""
        if not self.looks:
            return None
        columns = {**dict(zip(self._names, tensors, strict=True)), **({} if label is None else {"label": label})}
        suspect = self._fit.suspect(columns, row_ids, self._place)
        self.looks = suspect is None
        return suspect
