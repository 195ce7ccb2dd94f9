"""Tables of a page: what the cells say, and the values they are sorted by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"
"""What is written where there is nothing."""
_LONG = 15
"""So many rows are worth choosing from."""


@dataclass(frozen=True)
class Cell:
    """What is shown. value: what it is sorted by; None if there is nothing, which is sorted last. link: to where it
    leads, as a URL relative to the page."""

    text: str
    value: float | str | None = None
    link: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether it is aligned to the right."""
        return not isinstance(self.value, str)


@dataclass(frozen=True)
class Table:
    """columns: name and explanation. The first cell of a row is its heading. filled_only: leave out columns of which no
    row has anything."""

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
        """Whether there is a field for words that its rows must have."""
        return self.sortable and len(self.rows) > _LONG

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [all(row[index].is_number for row in self.rows) for index in range(len(self.columns))]


def filled(rows: Sequence[Sequence[str]]) -> list[int]:
    """The places of the columns in which some row has something."""
    return [
        place for place, cells in enumerate(zip(*rows, strict=True)) if any(cell not in ("", MISSING) for cell in cells)
    ]


def text(value: str, link: str | None = None) -> Cell:
    """A cell sorted by its letters."""
    return Cell(value, value, link)


def number(value: float | None, written: str) -> Cell:
    """A cell sorted by its value."""
    return Cell(written, value if value is not None and math.isfinite(value) else None)
