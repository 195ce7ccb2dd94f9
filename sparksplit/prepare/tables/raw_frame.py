"""The raw columns that a reader returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.dataset.description import TensorSpec
from sparksplit.prepare.tables.cells import Cells

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE = "column_{}"
"""Name of a column by its position."""


def by_place(frame: DataFrame) -> DataFrame:
    """Return `frame` with its columns named by position. The user's names may differ only in case, which Spark
    ignores."""
    return frame.toDF(*map(PLACE.format, range(len(frame.columns))))


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions need it."""
    return f"`{name.replace('`', '``')}`"


class Decoder(Protocol):
    """Makes the features of a column of bytes. Picklable. tensor: what a value becomes"""

    @property
    def tensor(self) -> TensorSpec: ...

    def values(self, encoded: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return (the values, which of them could not be decoded), both [rows, values]."""

    def problem(self, content: bytes | None) -> tuple[str, str]:
        """Return (why `content` cannot be decoded, the reason without details of this value)."""


@dataclass(frozen=True)
class RawFrame:
    """Raw columns, and what is known of a row's origin.

    frame: the columns, and the `hidden` columns, which the SQL expressions may use.
    file, row: SQL expressions of the file that a row came from, and of the row's number there, from 1. None: unknown.
    bad: SQL expression of a struct (reason, text, fatal; see BadRow) for a row that is bad before its columns are
        checked. Null for other rows. None: no row is bad so early.
    carried: `hidden` columns that stay, unchanged, behind the columns that the reader takes.
    label: the label's column if the configuration names none.
    decoded: the only column of features (bytes), and its decoder.
    cells: how texts are read, if all columns are texts. Then a bad row has no reason if its text is a record.
    lines: with `cells`, the rows as whole lines, if each line is a record. Columns: the line, and the partition's
        columns. csv_lines.py splits lines in less time than Spark.
    row_bytes: bytes of a row, if it may have more than its tensors.
    exact: by the name of a column of doubles, the hidden column with the texts of its whole numbers (null for others).
    folders: by the name of a column that folders give, its values.
    notes: messages for the user about what was done to the columns.
    """

    frame: DataFrame
    file: str | None = None
    row: str | None = None
    bad: str | None = None
    hidden: Sequence[str] = ()
    carried: Sequence[str] = ()
    label: str | None = None
    decoded: tuple[str, Decoder] | None = None
    cells: Cells | None = None
    lines: DataFrame | None = None
    row_bytes: int = 0
    exact: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, set[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def types(self) -> list[tuple[str, str]]:
        """(name, Spark's type) of each column that is not hidden. A name may occur twice."""
        fields = self.frame.schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields if field.name not in self.hidden]

    @property
    def named(self) -> bool:
        """Whether the columns have names from the user."""
        return self.cells is None or self.cells.named
