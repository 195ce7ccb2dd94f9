"""Finds where windows begin in rows that are sorted by series and time. It is arithmetic on arrays, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rule:
    """The windows that are wanted.

    window: rows of the features.
    horizon: rows of the label, which follow. 0: no label, and only the last window of each series is wanted.
    stride: a window begins every this many rows of a series.
    step: largest step between rows. A longer step is a gap.
    """

    window: int
    horizon: int
    stride: int
    step: int

    @property
    def rows(self) -> int:
        """Rows of a window with its label."""
        return self.window + self.horizon


@dataclass(frozen=True)
class Piece:
    """Consecutive rows, sorted by series and time.

    same: whether a row has the series of the row before. Ignored for the first row.
    time: int64 [rows].
    null: which rows cannot be features. null_label: which rows cannot be labels.
    index: the first row's number in its series, from 0.
    carried: how many of the rows were in the piece before.
    final: whether no row follows.
    """

    same: Bools
    time: I64
    null: Bools
    null_label: Bools
    index: int = 0
    carried: int = 0
    final: bool = False

    @property
    def numbers(self) -> I64:
        """Each row's number in its series."""
        place = np.arange(len(self.time))
        begin = np.maximum.accumulate(np.where(self.same, 0, place))
        return np.where(begin == 0, place + self.index, place - begin)


@dataclass(frozen=True)
class Found:
    """starts: rows at which wanted windows begin.
    gaps: windows that were left out because they span a gap. nulls: other windows that were left out because of a null.
    short: series with fewer rows than a window takes.
    again: a row with the time of the row before.
    """

    starts: I64
    gaps: int
    nulls: int
    short: int
    again: int | None


def find(rule: Rule, piece: Piece) -> Found:
    """Return the windows that the piece completes. Windows that end in carried rows were found before; see `keep`.

    Without labels, the last window of a series is complete only when the series ends.
    """
    rows, number = len(piece.time), piece.numbers
    same = piece.same.copy()
    same[:1] = False
    last = np.append(~same[1:], piece.final)
    ways = np.diff(piece.time, prepend=piece.time[:1])
    fresh = np.arange(rows) >= piece.carried
    if rule.horizon:
        ends = np.flatnonzero(fresh & (number + 1 >= rule.rows) & ((number + 1 - rule.rows) % rule.stride == 0))
    else:
        ends = np.flatnonzero(last & (number + 1 >= rule.rows))
    starts = ends + 1 - rule.rows
    jumps = np.cumsum(same & (ways > rule.step))
    over = jumps[ends] > jumps[starts]
    label = starts + rule.window
    null = ~over & (
        (_up_to(piece.null)[label] > _up_to(piece.null)[starts])
        | (_up_to(piece.null_label)[ends + 1] > _up_to(piece.null_label)[label])
    )
    again = np.flatnonzero(fresh & same & (ways == 0))
    return Found(
        starts[~over & ~null],
        int(over.sum()),
        int(null.sum()),
        int((last & (number + 1 < rule.rows)).sum()),
        int(again[0]) if len(again) else None,
    )


def keep(rule: Rule, piece: Piece) -> tuple[int, int]:
    """Return (how many of the piece's last rows the next piece must begin with, the number of the first of them)."""
    last = int(piece.numbers[-1])
    kept = min(rule.rows, last + 1)
    return kept, last + 1 - kept


def _up_to(flags: Bools) -> I64:
    """Return how many flags are set before each place, and how many in total."""
    return np.concatenate([[0], np.cumsum(flags)])
