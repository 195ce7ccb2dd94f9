"""Raw columns, as a reader gives them to all that follows."""

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


class Decoder(Protocol):
    """Makes the features of a column of bytes; picklable. tensor: what a value becomes."""

    @property
    def tensor(self) -> TensorSpec: ...

    def values(self, encoded: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """(the values, and which of them cannot be had), both [rows, values]."""

    def problem(self, content: bytes | None) -> tuple[str, str]:
        """(why `content` cannot be decoded, the same without what is particular to it)"""


@dataclass(frozen=True)
class RawFrame:
    """Raw columns, and what is known of a row's origin.

    frame: the columns, and those that are `hidden`, which the expressions below may use.
    file, row: SQL expressions of the file that a row came from, and of its number there from 1; None if unknown.
    bad: that of a struct (reason, text, fatal; see BadRow) for a row that is bad before anyone looks at its columns,
    null for all others; None where there is no such row.
    label: the label's column where the configuration names none.
    decoded: the only column of features, of bytes, and what decodes them.
    cells: how texts are read, where all columns are texts; then a bad row has no reason if its text is a record.
    lines: then, where a line is a record, the same ones in whole lines, which csv_lines.py splits in less time: a
    column of lines, and the partition's columns.
    row_bytes: bytes of a row, where it may have more than its tensors.
    exact: by the name of a column of doubles, the hidden one that has the text of its whole numbers, null for others.
    folders: by the name of a column that the names of folders give, its values.
    notes: what was done to the columns, for people.
    """

    frame: DataFrame
    file: str | None = None
    row: str | None = None
    bad: str | None = None
    hidden: Sequence[str] = ()
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
        """(name, Spark's type) of each column that is not hidden; a name may be there twice."""
        fields = self.frame.schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields if field.name not in self.hidden]

    @property
    def named(self) -> bool:
        """Whether the columns have names of the user's."""
        return self.cells is None or self.cells.named
