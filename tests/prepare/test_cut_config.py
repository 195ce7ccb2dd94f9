"""What `cut:` may say, and what is told where it contradicts itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.prepare.config_checks import check
from sparksplit.prepare.cut_config import CutConfig, dependent, moment
from sparksplit.prepare.preprocess_config import PreprocessConfig

CSV = {"format": "csv", "path": "rows.csv"}


def config(*, input: dict[str, Any] = CSV, **keys: Any) -> PreprocessConfig:
    return parse(PreprocessConfig, {"input": input, "output": "out", **keys})


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28)), st.integers(-23 * 60, 23 * 60))
def test_a_boundary_is_an_exact_number_of_microseconds(naive: datetime, minutes: int) -> None:
    zoned = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert moment(zoned.isoformat()) == (zoned - epoch) // timedelta(microseconds=1)
    assert moment(naive.isoformat(" ")) == (naive.replace(tzinfo=UTC) - epoch) // timedelta(microseconds=1)
    assert moment(naive.date().isoformat()) % 86_400_000_000 == 0


def test_a_whole_number_is_a_boundary_itself() -> None:
    assert (moment(20240501), moment("1970-01-01T00:00:01Z")) == (20240501, 1_000_000)


GOOD: list[dict[str, Any]] = [
    {},
    {"cut": {"stratify": True}},
    {"cut": {"by": "features"}, "input": {"format": "idx", "path": "mnist"}},
    {"cut": {"by": "key", "columns": ["customer", 3]}, "seed": 7},
    {"cut": {"by": "time", "column": "day"}, "validation": 0.2, "test": 0.2},
    {"cut": {"by": "time", "column": "day", "test_from": "2024-05-01"}},
    {"cut": {"by": "time", "column": "day", "validation_from": 202404, "test_from": 202405}},
    {"cut": {"by": "column", "column": "split"}},
]


@pytest.mark.parametrize("keys", GOOD, ids=str)
def test_what_fits_together_is_taken(keys: dict[str, Any]) -> None:
    check(config(**keys))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"by": "row", "columns": ["customer"]}, r"cut.columns: is for cut.by: key \(cut.by is row\)"),
    ({"column": "day"}, r"cut.column: is for cut.by: time and column \(cut.by is row\)"),
    ({"by": "key", "columns": ["a"], "stratify": True}, r"cut.stratify: is for cut.by: row \(cut.by is key\)"),
    ({"by": "key"}, r"cut.columns: must name the columns whose rows stay together"),
    ({"by": "key", "columns": ["a", "a"]}, r"cut.columns: names a column twice"),
    ({"by": "key", "columns": ["a"], "column": "b"}, r"cut.column: is for cut.by: time and column \(cut.by is key\)"),
    ({"by": "time"}, r"cut.column: must be given \(cut.by is time\)"),
    ({"by": "column", "column": "s", "test_from": 3}, r"cut.test_from: is for cut.by: time \(cut.by is column\)"),
    ({"by": "time", "column": "d", "test_from": "soon"}, r"cut.test_from: must be a date or a time like .*'soon'"),
    (
        {"by": "time", "column": "d", "validation_from": "2024-05-01", "test_from": "2024-05-01T00:00Z"},
        r"cut.test_from: must be later than cut.validation_from",
    ),
    ({"by": "time", "column": "d", "validation_from": 5, "test_from": "2024-05-01"}, "must be a time or a number like"),
]


@pytest.mark.parametrize(("cut", "words"), WRONG, ids=str)
def test_a_cut_that_contradicts_itself_is_one_line(cut: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        check(config(cut=cut))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"cut": {"by": "column", "column": "s"}, "test": 0.1}, r"^test: must be 0, because cut.by is column$"),
        (
            {"cut": {"by": "time", "column": "d", "test_from": 3}, "validation": 0.1},
            r"^validation: must be 0, because boundaries in time are given$",
        ),
        (
            {"cut": {"by": "column", "column": "s"}, "input": {**CSV, "format": "parquet", "test": "other"}},
            r"^input.test: must be left out, because cut.by is column$",
        ),
        (
            {"cut": {"by": "time", "column": "d"}, "seed": 3},
            r"^seed: has no effect, because cut.by is time; remove it$",
        ),
        ({"cut": {"stratify": True}, "input": {**CSV, "label": None}}, "cut.stratify: needs labels that are classes"),
        ({"cut": {"stratify": True}, "input": {**CSV, "label_type": "number"}}, "cut.stratify: needs labels"),
        (
            {"cut": {"by": "key", "columns": [0]}, "input": {"format": "idx", "path": "mnist"}},
            "cut.by: key needs columns, which idx does not have",
        ),
        (
            {"cut": {"by": "row"}, "input": {"format": "text", "path": "book"}},
            "cut.by: is not for text, which is always cut into three consecutive parts",
        ),
        ({"unseen_labels": "drop", "input": {"format": "text", "path": "book"}}, "unseen_labels: is for "),
        ({"unseen_labels": "drop", "input": {**CSV, "label": None}}, "unseen_labels: needs labels that are classes"),
        ({"cut": {"by": "features"}, "validation": 0.5, "test": 0.5}, "validation: must be below 1 together with test"),
    ],
    ids=str,
)
def test_a_cut_that_contradicts_the_rest_is_one_line(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check(config(**keys))


def test_rows_that_belong_together_are_no_independent_sample() -> None:
    by = [CutConfig(by=name) for name in ("row", "features", "key", "time", "column")]
    assert [dependent(cut, windows=False, text=False) for cut in by] == [None, "features", "key", "time", None]
    assert {dependent(cut, windows=True, text=False) for cut in by} == {"windows"}
    assert dependent(CutConfig(), windows=False, text=True) == "text"


def test_another_cut_is_another_data_set() -> None:
    hashes = [config(**keys).config_hash() for keys in GOOD if "input" not in keys]
    hashes.append(config(unseen_labels="unknown").config_hash())
    assert len(set(hashes)) == len(hashes)
