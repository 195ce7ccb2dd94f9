"""Cells of text files: which become numbers, exactly, and what is said of the others."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.prepare.tables.cells import Cells, label_kind, number_problem, numbers_of, rounding, split
from sparksplit.prepare.tables.numbers import numbers

DTYPES = ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"]
TEXTS = st.one_of(
    st.none(),
    st.text("0123456789+-.eExXdDfFnaN_ \u0663", max_size=6),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.sampled_from(
        [
            "",
            " ",
            "NA",
            "\\N",
            "nan",
            "-NaN",
            "inf",
            "Infinity",
            "1d",
            "0x1p3",
            "0x1F",
            "1e400",
            "+7",
            "007",
            "nan(ind)",
            "-nan(ind)",
            "nan(snan)",
            "NaN(IND)",
            "nan()",
        ]
    ),
)


def oracle(text: str | None, dtype: np.dtype, nulls: tuple[str, ...]) -> float | int | None:
    """What a cell is; None where it is refused; NaN where it is missing."""
    stripped = (text or "").strip()
    if not stripped or stripped in nulls:
        return math.nan if stripped or "" in nulls else None
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = re.fullmatch("[+-]?[0-9]+", stripped)
        return int(stripped) if whole and limits.min <= int(stripped) <= limits.max else None
    if not re.fullmatch(r"[+-]?(nan|[0-9.]+(e[+-]?[0-9]+)?)", stripped.lower()):
        return None
    try:
        found = float(stripped)
    except ValueError:
        return None
    with np.errstate(over="ignore"):
        return None if math.isinf(float(dtype.type(stripped))) else found


@given(
    st.lists(TEXTS, max_size=6),
    st.sampled_from(DTYPES),
    st.sampled_from([("",), ("NA", "\\N"), ("-1", "")]),
    st.booleans(),
)
def test_cells_are_numbers_missing_or_refused(
    cells: list[str | None], name: str, nulls: tuple[str, ...], gaps: bool
) -> None:
    dtype = np.dtype(name)
    gaps = gaps and dtype.kind == "f"
    values, wrong = numbers_of(pa.array(cells, pa.string()), dtype, nulls, gaps, rounds=True)
    assert values.dtype == dtype and len(values) == len(wrong) == len(cells)
    for cell, value, refused in zip(cells, values, wrong.tolist(), strict=True):
        expected = oracle(cell, dtype, nulls)
        missing = isinstance(expected, float) and math.isnan(expected)
        assert refused == (expected is None or (missing and not gaps)), cell
        assert (number_problem(cell, dtype, nulls, gaps, True) is not None) == refused, cell
        if refused:
            assert value == 0
        elif missing:
            assert value.tobytes() == np.array(np.nan, dtype).tobytes()
        elif dtype.kind in "iu":
            assert int(value) == expected
        else:
            kind = np.float32 if name == "float16" else dtype.type
            assert value == np.array(kind((cell or "").strip())).astype(dtype) or name != "float64"


MIDPOINTS = st.floats(width=32, allow_nan=False, allow_infinity=False, max_value=2.0**127, min_value=-(2.0**127)).map(
    lambda number: (float(number) + float(np.nextafter(np.float32(number), np.float32(np.inf)))) / 2
)
"""Half-way between two neighbours in float32. The shortest text of such a number lies on one side of the middle."""
NEAR_MIDPOINTS = st.tuples(MIDPOINTS, st.sampled_from([-math.inf, math.inf])).map(lambda pair: math.nextafter(*pair))
NUMBERS = st.one_of(
    st.floats(), st.floats(-(2.0**25), 2.0**25), MIDPOINTS, NEAR_MIDPOINTS, st.floats(65000, 66000), st.floats(-2, 2),
    st.sampled_from([1.0000000596046448, 3.4028235677973366e38, 65519.9999999, 1 + 2.0**-11 + 2.0**-40, 16777215.5]),
)  # fmt: skip


@given(st.lists(NUMBERS, max_size=8), st.sampled_from(["float16", "float32", "float64"]), st.booleans(), st.booleans())
def test_a_text_and_a_column_of_the_same_number_give_the_same_bits(
    values: list[float], name: str, gaps: bool, rounds: bool
) -> None:
    rounds = rounds or name != "float32"  # only the default dtype is checked for what it rounds
    # A whole part that is written with an exponent may be rounded, see `rounding`.
    values = [value for value in values if rounds or abs(value) < 1e16 or not math.isfinite(value)]
    dtype = np.dtype(name)
    of_texts, wrong_texts = numbers_of(
        pa.array([repr(value) for value in values], pa.string()), dtype, ("",), gaps, rounds
    )
    of_column, wrong = numbers(pa.array(values, pa.float64()), dtype, gaps, rounds)
    assert of_texts.dtype == of_column.dtype == dtype
    assert (of_texts.tobytes(), wrong_texts.tolist()) == (of_column.tobytes(), wrong.tolist())
    for value, refused in zip(values, wrong.tolist(), strict=True):
        assert (number_problem(repr(value), dtype, ("",), gaps, rounds) is not None) == refused, value


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8), st.sampled_from(["float32", "float64"]), st.booleans())
def test_a_text_and_a_column_of_the_same_whole_number_give_the_same_bits(
    values: list[int], name: str, rounds: bool
) -> None:
    dtype, rounds = np.dtype(name), rounds or name != "float32"
    of_texts, wrong_texts = numbers_of(pa.array(map(str, values), pa.string()), dtype, ("",), False, rounds)
    of_column, wrong = numbers(pa.array(values, pa.int64()), dtype, False, rounds)
    assert (of_texts.tobytes(), wrong_texts.tolist()) == (of_column.tobytes(), wrong.tolist())


def test_numbers_that_two_roundings_would_change() -> None:
    for number, name in ((2**53 + 2**29 + 1, "float32"), (1.0000000596046448, "float32"), (1 + 2.0**-11, "float16")):
        dtype = np.dtype(name)
        of_text, _ = numbers_of(pa.array([f"{number!r}"]), dtype, ("",), False, True)
        of_column, _ = numbers(pa.array([number]), dtype, False, True)
        assert of_text.tobytes() == of_column.tobytes() == np.float32(float(number)).astype(dtype).tobytes()


@given(st.integers(-(2**70), 2**70))
def test_only_whole_numbers_that_float32_has_pass_unasked(number: int) -> None:
    exact = int(np.float32(str(number))) == number
    assert (rounding(str(number)) is None) == exact
    cells = pa.array([str(number), "1"])
    assert numbers_of(cells, np.dtype(np.float32), ("",), False, rounds=False)[1].tolist() == [not exact, False]
    assert not numbers_of(cells, np.dtype(np.float32), ("",), False, rounds=True)[1].any()


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("16777217", "16777216"), ("-16777217", "-16777216"), (" 1700000061", "1700000000"),
        ("1700000061.0", "1700000000"), ("1700000061.25", "1700000000"), (str(2**60 + 1), str(2**60)),
    ],
)  # fmt: skip
def test_a_number_whose_whole_part_the_default_dtype_would_change(text: str, becomes: str) -> None:
    problem = number_problem(text, np.dtype(np.float32), ("",), False, False)
    assert problem is not None
    assert problem[0].startswith(f"{text!r} is {becomes} in float32, the default; set input.dtype")
    for passes in ("16777216", str(2**40), "1e30", "-1.23456789e12", "16777216.25"):
        assert number_problem(passes, np.dtype(np.float32), ("",), False, False) is None


@pytest.mark.parametrize(
    ("text", "dtype", "problem"),
    [
        ("abc", "uint8", "'abc' is not a whole number (uint8)"),
        ("256", "uint8", "'256' is not a whole number from 0 to 255 (uint8)"),
        ("1.5", "uint8", "'1.5' is not a whole number (uint8)"),
        ("", "uint8", "is empty"),
        (None, "float32", "is empty; input.missing: mean fills missing values"),
        ("NA", "float32", "is 'NA'; input.missing: mean fills missing values"),
        ("inf", "float32", "'inf' is not a finite number"),
        ("x" * 99, "float32", f"'{'x' * 37}...' is not a number"),
    ],
)
def test_what_is_said(text: str | None, dtype: str, problem: str) -> None:
    found = number_problem(text, np.dtype(dtype), ("", "NA"), False, True)
    assert found is not None and found[0] == problem


@pytest.mark.parametrize(
    ("texts", "kind"),
    [(["1", " 2"], "integer"), (["1", "0.5"], "number"), (["1", "inf"], "text"), (["a"], "text"), (["1", ""], "text")],
)
def test_labels_are_guessed(texts: list[str], kind: str) -> None:
    assert label_kind(texts) == kind


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ("1,2", "has 2 columns, 3 are needed"),
        ("1,2,3,4", "has 4 columns, 3 are needed"),
        ('"1,2,3', "a quoted field does not close on its line (input.multiline: true reads line breaks within quotes)"),
        ('"1,2","3"', "has 2 columns, 3 are needed"),
    ],
)
def test_records_that_do_not_fit(record: str, problem: str) -> None:
    cells = Cells("a.csv", ("a", "b", "c"), True, True, ",", '"', ("",), "UTF-8", False)
    assert cells.record_problem(record)[0] == problem


@pytest.mark.parametrize("other", ["1", " 1", "nan", None])
def test_a_nan_of_arrows_own_is_no_number_whatever_stands_beside_it(other: str | None) -> None:
    for text in ("nan(ind)", "-nan(ind)", "nan(snan)"):
        values, wrong = numbers_of(pa.array([other, text, "NaN"]), np.dtype("float32"), ("",), True, True)
        assert wrong.tolist() == [False, True, False] and values[1] == 0 and math.isnan(values[2])


def test_cells_of_any_length_are_split() -> None:
    for cell in ("x" * 200_000, f'"{"x" * 200_000}"'):
        assert [len(field) for field in split(f"{cell},b", ",", '"')] == [200_000, 1]
