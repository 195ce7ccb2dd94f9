"""What a task makes of sorted rows, without Spark: windows, labels, what is kept, and what is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparksplit.dataset.description import TensorSpec, Windows
from sparksplit.dataset.lane_files import binary_column
from sparksplit.prepare.bad_rows import Limit, Tally
from sparksplit.prepare.passes.parse import BAD, CUT, PART, keep_names
from sparksplit.prepare.source import BAD as BAD_STRUCT
from sparksplit.prepare.source import BadRow, BadRows, ParsedRows
from sparksplit.prepare.sources.window_places import Rule
from sparksplit.prepare.sources.windows import WindowReader, WindowSource

ROW = TensorSpec(name="x", dtype="float32", shape=[2])
WINDOWS = Windows(window=3, horizon=2, by=["station"], order="hour", label="load", step=1, time=False)


def rows(station: list[str | None], hour: list[int], values: Any, part: int = 0) -> pa.RecordBatch:
    """Sorted rows as Spark hands them over: the label is the second value."""
    texts = [pa.array(station, pa.string()), pa.array([f"h{each}" for each in hour])]
    columns = {
        PART: pa.array([part] * len(hour), pa.int32()),
        **dict(zip(keep_names(2), texts, strict=True)),
        CUT: pa.array(hour, pa.int64()),
        "tensor_0": binary_column(np.asarray(values, np.float32), ROW),
        BAD: pa.nulls(len(hour), BAD_STRUCT),
    }
    return pa.RecordBatch.from_pydict(columns)


def reader(horizon: int = 2, label: int | None = 1, gaps: bool = False) -> WindowReader:
    tensor = TensorSpec(name="x", dtype="float32", shape=[3, 2])
    rule = Rule(3, horizon if label is not None else 0, 1, 1)
    return WindowReader("place", rule, WINDOWS, tensor, ROW, label, 2, gaps, _Counts())


class _Counts:
    """Takes what a task counts."""

    def __init__(self) -> None:
        self.found: dict[int, dict[str, int]] = {}

    def add(self, counts: dict[int, dict[str, int]]) -> None:
        self.found |= counts


def table(hours: int, first: float) -> Any:
    return [[first + hour, 100 + first + hour] for hour in range(hours)]


def read(batches: list[pa.RecordBatch], made: WindowReader | None = None) -> list[tuple[str, ParsedRows]]:
    found = list((made or reader())(batches))
    assert all(isinstance(item, ParsedRows) for _, item in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("cut", [1, 4, 5, 6, 8, 11])
def test_windows_have_the_features_the_next_labels_and_what_is_kept_of_the_last_row_that_is_known(cut: int) -> None:
    whole = rows(["a"] * 6 + [None] * 6, [*range(6), *range(6)], [*table(6, 0), *table(6, 50)])
    made = reader()
    found = read([whole.slice(0, cut), whole.slice(cut)], made)
    assert {part for part, _ in found} == {"train"}
    x = np.concatenate([item.tensors[0] for _, item in found])
    label = np.concatenate([item.label for _, item in found if item.label is not None])
    assert (x.dtype, x.shape, label.dtype, label.shape) == (np.float32, (4, 3, 2), np.float64, (4, 2))
    assert x[1].tolist() == [[1, 101], [2, 102], [3, 103]] and label[1].tolist() == [104, 105]
    assert x[2].tolist() == [[50, 150], [51, 151], [52, 152]] and label[2].tolist() == [153, 154]
    kept = [row for _, item in found for row in zip(*item.keep, strict=True)]
    assert kept == [("a", "h2"), ("a", "h3"), (None, "h2"), (None, "h3")]
    # What a cut goes by is the time of the label's last row.
    assert np.concatenate([item.cut for _, item in found if item.cut is not None]).tolist() == [4, 5, 4, 5]
    assert made.counts.found == {0: {"rows": 12, "gaps": 0, "nulls": 0, "short": 0}}


def test_windows_do_not_go_from_one_part_to_another() -> None:
    found = read([rows(["a"] * 5, list(range(5)), table(5, 0)), rows(["a"] * 5, list(range(5, 10)), table(5, 5), 2)])
    assert [(part, len(item)) for part, item in found] == [("train", 1), ("test", 1)]


def test_a_null_leaves_out_its_windows_and_missing_features_only_those_whose_label_it_is() -> None:
    values = np.array(table(7, 0), np.float32)
    values[4, 1] = np.nan  # a label of the first two windows, and a feature of the last one
    made = reader()
    assert read([rows(["a"] * 7, list(range(7)), values)], made) == []
    assert made.counts.found == {0: {"rows": 7, "gaps": 0, "nulls": 3, "short": 0}}
    [(_, item)] = read([rows(["a"] * 7, list(range(7)), values)], reader(gaps=True))
    assert len(item) == 1 and np.isnan(item.tensors[0]).sum() == 1


def test_without_labels_there_is_the_last_window_of_each_series_that_has_one() -> None:
    stations = ["a"] * 4 + ["b"] * 2 + ["c"] * 3
    whole = rows(stations, [*range(4), *range(2), *range(3)], [*table(4, 0), *table(2, 20), *table(3, 30)])
    for cut in range(1, 9):
        made = reader(label=None)
        found = read([whole.slice(0, cut), whole.slice(cut)], made)
        assert [row for _, item in found for row in item.tensors[0][:, :, 0].tolist()] == [[1, 2, 3], [30, 31, 32]]
        assert [name for _, item in found for name in item.keep[0]] == ["a", "c"]
        assert {item.label for _, item in found} == {None}
        assert made.counts.found == {0: {"rows": 9, "gaps": 0, "nulls": 0, "short": 1}}


def test_a_time_that_is_there_twice_is_refused_with_its_series() -> None:
    found = list(reader()([rows(["a"] * 3, [1, 2, 3], table(3, 0)), rows(["a"] * 2, [3, 4], table(2, 3))]))
    [bad] = [item for _, item in found if isinstance(item, BadRow)]
    assert bad.fatal and str(bad).startswith("place: several rows have station a, hour h3: each series")


def test_bad_rows_come_through_by_part() -> None:
    bad = BadRows.of([BadRow("f", row, "is short") for row in (1, 2)])
    empty = {name: pa.nulls(2, pa.string()) for name in keep_names(2)}
    values = {CUT: pa.nulls(2, pa.int64()), "tensor_0": pa.nulls(2, pa.binary()), BAD: bad.rows}
    batch = pa.RecordBatch.from_pydict({PART: pa.array([0, 2], pa.int32()), **empty, **values})
    made = reader()
    good = rows(["a"] * 5, list(range(5)), table(5, 0))
    found = [(part, list(item)) for part, item in made([batch, good]) if isinstance(item, BadRows)]
    assert [(part, [row.row for row in some]) for part, some in found] == [("train", [1]), ("test", [2])]
    assert made.counts.found[0]["rows"] == 5


def test_rows_are_counted_where_only_the_first_windows_are_taken() -> None:
    made = reader()
    windows = made([rows(["a"] * 9, list(range(9)), table(9, 0))] * 2)
    next(windows)
    del windows
    assert made.counts.found[0]["rows"] == 9


def test_bad_rows_are_a_fraction_of_rows_and_not_of_windows() -> None:
    source = WindowSource.__new__(WindowSource)
    source._counts = SimpleNamespace(
        value={place: {"rows": 330, "gaps": 1, "nulls": place, "short": 0} for place in range(3)}
    )
    assert source.left_out == {"gaps": 3, "nulls": 3, "short": 0}
    assert source.good_rows(10) == 990 and source.good_rows(10, [0, 2]) == 660
    Limit(None, 0.05).check(Tally({"is short": 10}, BadRow("f", 3, "is short")), source.good_rows(10))
