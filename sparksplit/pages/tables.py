"""Tables of a page: the text of each cell, and the value for sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"
"""Text of a cell without a value."""
_LONG = 15
"""Tables with more rows get a field to choose rows."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    text: the text to show. value: the value to sort by; None for an empty cell, which is sorted last. link: URL of a
    target, relative to the page.
    """

    text: str
    value: float | str | None = None
    link: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether the cell is aligned to the right."""
        return not isinstance(self.value, str)


@dataclass(frozen=True)
class Table:
    """A table of a page. The first cell of a row is the row's heading.

    columns: name and explanation of each column. filled_only: leave out columns without any value.
    """

    key: str
    caption: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False
    filled_only: bool = False

    def __post_init__(self) -> None:
        if not self.filled_only:
            return
        kept = [
            place
            for place, _ in enumerate(self.columns)
            if any(row[place].value not in (None, "") for row in self.rows)
        ]
        object.__setattr__(self, "columns", [self.columns[place] for place in kept])
        object.__setattr__(self, "rows", [[row[place] for place in kept] for row in self.rows])

    @property
    def is_long(self) -> bool:
        """Whether the table has a field for words that shown rows must contain."""
        return self.sortable and len(self.rows) > _LONG

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [all(row[index].is_number for row in self.rows) for index in range(len(self.columns))]


def filled(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the places of the columns that have a value in some row."""
    return [
        place for place, cells in enumerate(zip(*rows, strict=True)) if any(cell not in ("", MISSING) for cell in cells)
    ]


def text(value: str, link: str | None = None) -> Cell:
    """Return a cell that is sorted by its text."""
    return Cell(value, value, link)


def number(value: float | None, written: str) -> Cell:
    """Return a cell that is sorted by its value."""
    return Cell(written, value if value is not None and math.isfinite(value) else None)
