"""Tables of a page: what the cells say, and the values they are sorted by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """What is shown. value: what it is sorted by; None if there is nothing, which is sorted last."""

    text: str
    value: float | str | None = None

    @property
    def is_number(self) -> bool:
        """Whether it is aligned to the right."""
        return not isinstance(self.value, str)


@dataclass(frozen=True)
class Table:
    """columns: name and explanation. The first cell of a row is its heading."""

    key: str
    caption: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [all(row[index].is_number for row in self.rows) for index in range(len(self.columns))]


def text(value: str) -> Cell:
    """A cell sorted by its letters."""
    return Cell(value, value)


def number(value: float | None, written: str) -> Cell:
    """A cell sorted by its value."""
    return Cell(written, value if value is not None and math.isfinite(value) else None)
