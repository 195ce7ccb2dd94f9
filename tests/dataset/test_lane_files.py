"""Between columns and arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.lane_files import binary_column, tensor_of

SPEC = TensorSpec(name="x", dtype="float32", shape=[2])


@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([4, 12, 8], id="one-too-short-one-too-long"),
        pytest.param([8, 0, 16], id="one-empty"),
        pytest.param([0, 0], id="all-empty"),
        pytest.param([8, 8, 4], id="too-few-in-all"),
    ],
)
def test_rows_of_other_lengths_are_refused(lengths: list[int]) -> None:
    column = pa.array([bytes(length) for length in lengths], pa.binary())
    with pytest.raises(ValueError, match="a row of tensor x does not have 8 bytes"):
        tensor_of(pa.chunked_array([column]), SPEC)


def test_any_stretch_of_a_column_is_what_was_put_into_it() -> None:
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    column = binary_column(rows, SPEC)
    for start in range(10):
        for count in range(11 - start):
            found = tensor_of(pa.chunked_array([column.slice(start, count)]), SPEC)
            np.testing.assert_array_equal(found, rows[start : start + count])
