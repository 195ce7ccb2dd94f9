"""What `preprocess` makes of its counts, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hdfs_io.counts import check_counts, without_rows
from sparksplit.base.errors import RunError


@pytest.mark.parametrize(
    ("validation", "test", "has_test", "words"),
    [
        (0, 0, False, "has no rows to train on"),
        (2, 1, False, "(2 for validation, 1 for test); lower validation and test"),
        (0, 3, False, "(3 for test); lower test"),
        (3, 7, True, "(3 for validation); lower validation"),
        (0, 7, True, "has no rows to train on"),
    ],
)
def test_where_no_row_falls_to_the_training_split_the_shares_are_named(validation, test, has_test, words):
    """Of the training file's own rows; those of a test file are no share of it."""
    told = without_rows({"train": 0, "validation": validation, "test": test}, has_test)
    assert told.removeprefix("none of its 3 rows fell to the training split ") == words


def test_rows_that_were_computed_twice_and_differ_are_no_data_set() -> None:
    manifest: Any = SimpleNamespace(splits={"train": SimpleNamespace(rows=9), "test": SimpleNamespace(rows=1)})
    check_counts({"train": 9, "test": 1}, manifest)
    with pytest.raises(
        RunError, match="test: 2 rows were counted, 1 were written: the input changed while it was read, or"
    ):
        check_counts({"train": 9, "test": 2}, manifest)
