"""Bad rows: what is counted, what is told, and how many there may be."""

from __future__ import annotations

from typing import Any

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import InputError
from sparksplit.prepare.bad_rows import Limit, Tally, left_out, said, tally_of
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import BadRow

FIRST = BadRow("b.csv", 7, "column 'x': 'a' is not a number", "a,1", kind="column 'x': not a number")
LATER = BadRow("b.csv", 9, "column 'y': is null", "1,", kind="column 'y': is null")
TALLY = tally_of([(LATER.kind, 2, LATER), (FIRST.kind, 1, FIRST)])


def test_bad_rows_are_counted_by_reason_and_the_first_is_known() -> None:
    assert Tally({LATER.kind: 2, FIRST.kind: 1}, FIRST) == TALLY
    assert list(TALLY.counts) == [LATER.kind, FIRST.kind] and TALLY.rows == 3
    assert said(TALLY.counts) == "3 rows were left out: 2 column 'y': is null, 1 column 'x': not a number"
    assert tally_of([]) == Tally() and said({}) == ""
    assert left_out(Tally()) == "" and left_out(TALLY) == f"; 3 bad rows left out, the first: {FIRST}"
    many = tally_of([(f"reason {number}", 1000, FIRST) for number in range(7)])
    assert said(many.counts).endswith("1,000 reason 3, 1,000 reason 4, and 2 other reasons")


def test_a_damaged_file_comes_first_and_no_limit_allows_it() -> None:
    damaged = BadRow("z.csv.gz", 5000, "is truncated", fatal=True)
    tally = tally_of([(FIRST.kind, 9, FIRST), ("is truncated", 1, damaged)])
    assert tally.first == damaged
    with pytest.raises(InputError, match=r"^z\.csv\.gz: is truncated$"):
        Limit(1000, 0.9).check(tally, 10)


@pytest.mark.parametrize(
    ("limit", "good", "key"),
    [
        (Limit(3), 0, None),
        (Limit(2), 10**9, "input.max_bad_rows: 2"),
        (Limit(None, 0.003), 997, None),
        (Limit(None, 0.003), 996, "input.max_bad_fraction: 0.003 of 999 rows"),
        (Limit(3, 0.5), 3, None),
        (Limit(9, 0.1), 20, "input.max_bad_fraction: 0.1 of 23 rows"),
        (Limit(2, 0.9), 20, "input.max_bad_rows: 2"),
    ],
)
def test_the_stricter_limit_holds_for_all_rows(limit: Limit, good: int, key: str | None) -> None:
    limit.check(Tally(), good)
    if key is None:
        limit.check(TALLY, good)
        return
    with pytest.raises(InputError) as error:
        limit.check(TALLY, good)
    assert str(error.value) == (
        "b.csv: row 7: column 'x': 'a' is not a number"
        f" (the first of 3 bad rows, most often: column 'y': is null, 2 rows; {key})"
    )


def test_a_share_is_taken_as_it_is_written() -> None:
    for share in range(1, 100):
        tally = tally_of([(FIRST.kind, share, FIRST)])
        Limit(None, share / 100).check(tally, 100 - share)


def test_a_single_bad_row_is_all_that_there_is_to_tell() -> None:
    with pytest.raises(InputError, match=r"^b\.csv: row 7: column 'x': 'a' is not a number$"):
        Limit(0).check(tally_of([(FIRST.kind, 1, FIRST)]), 5)
    with pytest.raises(InputError, match=r"\(the first of 2 bad rows, all for this reason; input\.max_bad_rows: 0\)$"):
        Limit(0).check(tally_of([(FIRST.kind, 2, FIRST)]), 5)


@pytest.mark.parametrize(
    ("keys", "limit"),
    [
        ({}, Limit(0)),
        ({"max_bad_rows": 5}, Limit(5)),
        ({"max_bad_fraction": 0.1}, Limit(None, 0.1)),
        ({"max_bad_fraction": 0.1, "max_bad_rows": 0}, Limit(0, 0.1)),
    ],
)
def test_without_a_limit_no_row_may_be_bad(keys: dict[str, Any], limit: Limit) -> None:
    assert Limit.of(parse(InputConfig, {"format": "csv", "path": "rows.csv", **keys})) == limit
