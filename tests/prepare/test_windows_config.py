"""Windows over time: what a configuration may ask for, and a planted leak that the cut by time prevents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset import row_ids
from sparksplit.dataset.description import Windows
from sparksplit.prepare.config_checks import check, effective
from sparksplit.prepare.durations import duration, written
from sparksplit.prepare.passes.counts import left_between
from sparksplit.prepare.passes.cut import TEST, TRAIN, VALIDATION, Cut
from sparksplit.prepare.passes.identify import Identified
from sparksplit.prepare.passes.parse import CUT
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.prepare.windows_config import said

SERIES = {"window": 4, "horizon": 2, "order": "date"}


def config(
    windows: dict[str, Any] | None = None, section: dict[str, Any] | None = None, **keys: Any
) -> PreprocessConfig:
    own = {"format": "csv", "path": "rows.csv", "label": "load", "windows": {**SERIES, **(windows or {})}}
    return parse(PreprocessConfig, {"input": {**own, **(section or {})}, "output": "out", **keys})


@given(st.integers(1, 10**11), st.sampled_from(["us", "ms", "s", "min", "h", "d"]))
def test_a_duration_is_written_as_it_is_read(number: int, unit: str) -> None:
    micros = duration(f"{number}{unit}")
    assert duration(written(micros, time=True)) == micros


def test_a_step_has_the_largest_unit_that_it_is_a_whole_number_of() -> None:
    assert [written(duration(text), time=True) for text in ("60min", "90 min", "48h", "1500ms")] == [
        "1h",
        "90min",
        "2d",
        "1500ms",
    ]
    assert written(7, time=False) == "7"


def test_windows_are_cut_by_the_time_that_orders_them() -> None:
    for keys in ({}, {"cut": {"by": "time"}}, {"cut": {"by": "time", "column": "date", "test_from": "2024-05-01"}}):
        given = config(**keys)
        check(given)
        cut = effective(given).cut
        assert (cut.by, cut.column) == ("time", "date")
    own = effective(config(section={"validation": "later.csv"}))
    assert (own.cut.by, own.validation) == ("time", 0.0)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"cut": {"by": "row"}}, r"cut\.by: must be time with input\.windows: windows overlap, .* \(is row\)"),
        (
            {"cut": {"column": "day"}},
            r"cut\.column: must be left out: windows are cut by input\.windows\.order \(is 'day'\)",
        ),
        ({"features": {}}, r"features: must be left out with input\.windows"),
        (
            {"section": {"label": None}},
            r"input\.label: must be the column whose next values the model predicts",
        ),
        ({"section": {"label_type": "integer"}}, r"input\.label_type: must be number with input\.windows"),
        (
            {"section": {"shape": [4]}},
            r"input\.shape: must be left out with input\.windows: their shape is \[window, columns\]",
        ),
        ({"section": {"dtype": "int32"}}, r"input\.dtype: must be a float dtype"),
        (
            {"windows": {"by": ["a", "a"]}},
            r"input\.windows\.by: lists a column twice, or the column of input\.windows\.order",
        ),
        (
            {"windows": {"by": ["date"]}},
            r"input\.windows\.by: lists a column twice, or the column of input\.windows\.order",
        ),
        (
            {"windows": {"step": "1 month"}},
            r"input\.windows\.step: must be a whole number and one of us, ms, s, min, h",
        ),
        ({"windows": {"step": 0}}, r"input\.windows\.step: must be at least 1"),
        ({"seed": 3}, r"seed: has no effect, because cut\.by is time"),
        ({"section": {"format": "images", "size": [8, 8]}}, r"input\.windows: is for csv"),
    ],
)
def test_what_does_not_go_with_windows_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(config(**keys))


# The leak.


def windows_of(steps: int, window: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """(the times of each window's rows [windows, window + horizon], what the cut goes by: that of the last one)"""
    times = np.lib.stride_tricks.sliding_window_view(np.arange(steps), window + horizon)
    return times, times[:, -1].astype(np.int64)


def dealt(cut: Cut, ends: np.ndarray) -> np.ndarray:
    """The split of each window, -1 where it is left out."""
    rows = len(ends)
    content = row_ids.mix64(np.arange(2 * rows, dtype=np.uint64).reshape(-1, 2))
    part, number = np.zeros(rows, np.int32), np.zeros(rows, np.int64)
    batch = pa.RecordBatch.from_pydict({CUT: pa.array(ends)})
    # Their ids say which they are.
    found = Identified(batch, content, part, number, np.arange(rows, dtype=np.uint64)).without(cut.left_out)
    splits = np.full(rows, -1)
    splits[found.ids.astype(np.int64)] = cut.splits(
        found.content, found.number, found.part, found.rows.column(CUT).to_numpy()
    )
    return splits


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 60), st.integers(1, 60))
def test_no_row_of_a_training_window_is_a_label_of_validation_or_test(
    window: int, horizon: int, first: int, length: int
) -> None:
    times, ends = windows_of(120, window, horizon)
    reach = Windows(window=window, horizon=horizon, by=[], order="t", label="y", step=1, time=False).reach
    splits = dealt(Cut(by="time", validation_from=first, test_from=first + length, reach=reach), ends)
    for name, others in ((TRAIN, (VALIDATION, TEST)), (VALIDATION, (TEST,))):
        known = set(times[splits == name].ravel().tolist())
        for other in others:
            assert known.isdisjoint(times[splits == other][:, window:].ravel().tolist())
    # No more is left out than that takes: one window more would know a label.
    left = ends[splits == -1]
    assert len(left) <= 2 * (horizon - 1)
    for end in left.tolist():
        start = min(boundary for boundary in (first, first + length) if boundary > end)
        assert start - end <= horizon - 1


def test_a_cut_by_row_lets_a_model_look_up_what_it_is_tested_on() -> None:
    """Noise, which nobody can foretell; the model knows what followed each value in the training windows."""
    values = np.random.default_rng(4).permutation(2000)
    times, ends = windows_of(len(values), 8, 4)
    share = {"validation": 0.0, "test": 0.2}

    def right(splits: np.ndarray) -> float:
        known = values[times[splits == TRAIN]]
        follows = dict(zip(known[:, :-1].ravel().tolist(), known[:, 1:].ravel().tolist(), strict=True))
        tested = values[times[splits == TEST]][:, 7:]
        return float(np.mean([follows.get(row[0]) == row[1] for row in tested.tolist()]))

    by_time = Cut(by="time", test_from=int(np.quantile(ends, 0.8)))
    assert right(dealt(Cut(3, **share), ends)) > 0.95
    assert right(dealt(by_time, ends)) > 0
    assert right(dealt(replace(by_time, reach=3), ends)) == 0


def test_rows_that_the_source_brings_for_a_split_stay_whatever_their_time() -> None:
    batch = pa.RecordBatch.from_pydict({CUT: pa.array([7, 8, 7])})
    part = np.array([0, 0, 2], np.int32)
    rows = Identified(batch, np.zeros((3, 2), np.uint64), part, np.zeros(3, np.int64), np.arange(3, dtype=np.uint64))
    assert rows.without([(5, 8)]).ids.tolist() == [1, 2]


def test_a_split_that_was_asked_for_and_has_nothing_left_is_said() -> None:
    asked = config(validation=0.1, test=0.0)
    assert left_between(asked, 14, {"train": 9, "validation": 1, "test": 0}) == 4
    assert left_between(asked, 9, {"train": 9, "validation": 0, "test": 0}) == 0
    with pytest.raises(
        InputError, match="has no windows for validation: 4 were left out, because their labels overlap"
    ):
        left_between(asked, 13, {"train": 9, "validation": 0, "test": 0})


def test_what_was_left_out_is_said_with_the_reason() -> None:
    assert said({"gaps": 0, "nulls": 0}) == ""
    assert said({"nulls": 0}, ": ") == "" and said({"nulls": 1}, ": ") == ": 1 with a null"
    assert said({"short": 2, "gaps": 1200}) == "1,200 over a gap, 2 series too short for one"
