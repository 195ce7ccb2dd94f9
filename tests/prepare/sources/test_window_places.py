"""Windows in sorted rows: whatever pieces they come in, those that a loop over each series finds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.prepare.sources.window_places import Piece, Rule, find, keep

Series = list[list[tuple[int, bool, bool]]]
"""Of each series its rows: (time, whether it cannot be features, whether it cannot be a label)."""


@st.composite
def series(draw: st.DrawFn) -> Series:
    """Few series of few rows, some of them far apart."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        ways = draw(st.lists(st.integers(1, 3), min_size=1, max_size=12))
        flags = draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=len(ways), max_size=len(ways)))
        rare = [(null and draw(st.booleans()), other and draw(st.booleans())) for null, other in flags]
        found.append([(int(time), *flag) for time, flag in zip(np.cumsum(ways), rare, strict=True)])
    return found


rules = st.builds(Rule, window=st.integers(1, 4), horizon=st.integers(0, 3), stride=st.integers(1, 3), step=st.just(2))


def naive(rule: Rule, rows: Series) -> tuple[list[int], dict[str, int]]:
    """(where windows begin in all rows, how many were left out) by a loop that has each series as a whole."""
    starts, left, before = [], {"gaps": 0, "nulls": 0, "short": 0}, 0
    for own in rows:
        left["short"] += len(own) < rule.rows
        places = range(0, len(own) - rule.rows + 1, rule.stride)
        for start in places if rule.horizon else [len(own) - rule.rows] if len(own) >= rule.rows else []:
            taken = own[start : start + rule.rows]
            known, label = taken[: rule.window], taken[rule.window :]
            if any(after[0] - row[0] > rule.step for row, after in pairwise(taken)):
                left["gaps"] += 1
            elif any(row[1] for row in known) or any(row[2] for row in label):
                left["nulls"] += 1
            else:
                starts.append(before + start)
        before += len(own)
    return starts, left


def in_pieces(rule: Rule, rows: Series, sizes: list[int]) -> tuple[list[int], dict[str, int]]:
    """The same from pieces of these sizes, each with what `keep` has kept of the one before, and an end without rows of
    its own, as the reader has it."""
    number = np.concatenate([np.full(len(own), place) for place, own in enumerate(rows)])
    time, null, null_label = (np.array([row[field] for own in rows for row in own]) for field in range(3))
    starts, left = [], {"gaps": 0, "nulls": 0, "short": 0}
    begin = index = carried = stop = 0
    for size in [*sizes, len(time), 0]:
        stop, final = min(stop + size, len(time)), size == 0
        if begin == stop or (stop == begin + carried and not final):
            continue
        chosen = slice(begin, stop)
        same = np.append(True, np.diff(number[chosen]) == 0)
        piece = Piece(same, time[chosen], null[chosen], null_label[chosen], index, carried, final)
        found = find(rule, piece)
        assert found.again is None
        starts += (begin + found.starts).tolist()
        for why in left:
            left[why] += getattr(found, why)
        carried, index = keep(rule, piece)
        begin = stop - carried
    return starts, left


@given(series(), rules, st.lists(st.integers(1, 7), max_size=12))
def test_pieces_of_any_size_give_the_windows_of_a_loop_over_each_series(
    rows: Series, rule: Rule, sizes: list[int]
) -> None:
    assert in_pieces(rule, rows, sizes) == naive(rule, rows)


def test_a_window_ends_before_a_gap_or_begins_after_it() -> None:
    rows = [[(time, False, False) for time in (0, 1, 2, 3, 10, 11, 12)]]
    assert naive(Rule(2, 1, 1, 1), rows) == ([0, 1, 4], {"gaps": 2, "nulls": 0, "short": 0})
    assert in_pieces(Rule(2, 1, 1, 1), rows, []) == naive(Rule(2, 1, 1, 1), rows)
    assert in_pieces(Rule(2, 1, 1, 7), rows, [])[0] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("times", "carried", "again"), [([1, 2, 2, 2], 0, 2), ([1, 1, 2], 2, None), ([3, 3], 1, 1)])
def test_a_time_that_is_there_twice_is_found_once(times: list[int], carried: int, again: int | None) -> None:
    flags = np.zeros(len(times), np.bool_)
    piece = Piece(np.append(True, ~flags[1:]), np.array(times), flags, flags, carried=carried)
    assert find(Rule(1, 1, 1, 1), piece).again == again
