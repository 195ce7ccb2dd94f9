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

    tensors: one array [rows, *shape] per tensor, in the data set's order. label: [rows, ...] or None.
    offsets: int64 [updates + 1]; the share of update first + i is rows offsets[i]:offsets[i + 1]; it may be empty.
    rows: int64 [updates], rows of each mini-batch over all nodes. seen: these rows' entry for the ledger.
    share: how many rows each share has, where the order of rows makes them equal (not where they happen to be).
    suspect: a value that is no finite number, and its row; in one chunk at most.
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
        """All that a row has, column by column."""
        return [self.row_ids, *self.tensors, *([] if self.label is None else [self.label])]

    def take(self, index: Ints, target: Rows, start: int) -> None:
        """Copy the rows `index` into `target`, starting at its row `start`."""
        stop = start + len(index)
        for to, values in zip(target.columns(), self.columns(), strict=True):
            # mode="clip": with the default, NumPy takes into a buffer and copies once more.
            np.take(values, index, axis=0, out=to[start:stop], mode="clip")


class RandomRows(Protocol):
    """Rows that can be had in any order: in memory, or mapped into it."""

    def take(self, index: Ints, target: Rows, start: int) -> None:
        """Copy the rows `index` into `target`, starting at its row `start`."""


Piece = tuple[RandomRows, Ints]
"""Rows, and which of them."""


class Assembler:
    """Gathers pieces into chunks, and applies the user's transform.

    seed: the transform's. place: where a row is, for people. fit: what rows are accepted. row_bytes: of one row.
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
        """Whether to look for values that are no numbers, until one is found."""
        self.row_bytes = sum(column.nbytes for column in self.empty(1).columns())

    def empty(self, count: int) -> Rows:
        """Room for `count` rows."""
        tensors = [aligned((count, *spec.shape), spec.dtype) for spec in self.specs]
        label = None if self.label is None else aligned((count, *self.label.shape), self.label.dtype)
        return Rows(np.empty(count, np.uint64), tensors, label)

    def chunk(
        self, epoch: int, first: int, pieces: Sequence[Piece], offsets: Ints, totals: Ints, share: int | None = None
    ) -> Chunk:
        """The chunk of the rows of `pieces`, one after the other; the other arguments are as in Chunk.

        Raises InputError for a label that is no class and for a transform that gives back other rows, and whatever the
        transform raises.
        """
        rows = self.empty(int(offsets[-1]))
        start = 0
        for source, index in pieces:
            source.take(index, rows, start)
            start += len(index)
        tensors, label = rows.tensors, rows.label
        if self._transform is not None:
            seeds = mix64(rows.row_ids ^ order.key(self._seed, epoch))
            named = dict(zip(self._names, tensors, strict=True))
            tensors, label = transformed(self._transform, named, label, seeds, self.specs, self.label)
        self._fit.check_labels(label, self.label, rows.row_ids, self._place)
        seen = Entry(len(rows.row_ids), row_checksum(rows.row_ids))
        return Chunk(first, tensors, label, offsets, totals, seen, share, self._suspect(rows.row_ids, tensors, label))

    def _suspect(self, row_ids: npt.NDArray[np.uint64], tensors: Sequence[Array], label: Array | None) -> str | None:
        """The first value that is no finite number, once."""
        if not self.looks:
            return None
        columns = {**dict(zip(self._names, tensors, strict=True)), **({} if label is None else {"label": label})}
        found = self._fit.suspect(columns, row_ids, self._place)
        self.looks = found is None
        return found
