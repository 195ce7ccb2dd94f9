"""What `preprocess` makes of its counts, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import RunError
from sparksplit.prepare.passes.counts import Counts, Group, check_counts, without_rows


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
    found = {
        "train": SimpleNamespace(rows=9, checksum=2, weights_checksum=3),
        "test": SimpleNamespace(rows=1, checksum=2**64 - 2, weights_checksum=None),
    }
    manifest: Any = SimpleNamespace(splits=found)
    counted = Counts({"train": {3: Group(4, 2**64 - 1), 5: Group(5, 6)}, "test": {5: Group(1, 2**64 - 2)}})
    check_counts(counted, manifest)
    for other in ({"checksum": 6}, {"checksum": 2, "weights_checksum": 4}):
        vars(found["train"]).update(other)
        with pytest.raises(RunError, match="train: the rows that were written are not those that were counted: the in"):
            check_counts(counted, manifest)
    check_counts(counted, manifest, checksums=False)
    found["test"].rows = 2
    with pytest.raises(RunError, match="test: 1 rows were counted, but 2 were written: the input changed"):
        check_counts(counted, manifest, checksums=False)


def test_labels_that_the_training_split_lacks_are_left_out_of_all_counts() -> None:
    counted = Counts({"train": {3: Group(4, 7)}, "validation": {}, "test": {3: Group(1, 1), 5: Group(2, 9)}})
    counted.keep([3])
    assert counted.rows == {"train": 4, "validation": 0, "test": 1}
    assert counted.checksums == {"train": 7, "validation": 0, "test": 1}
    assert counted.labels == {"train": {3: 4}, "validation": {}, "test": {3: 1}}
