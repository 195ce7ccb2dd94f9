"""benchmarks/tables.py: its data and its arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import generated_tables as generated
from benchmarks import tables, tables_theirs

MAKERS = (generated.census, generated.airline, generated.texts, lambda rows, seed=1: generated.series(rows, 3, seed))


@pytest.mark.parametrize("make", MAKERS)
def test_a_seed_gives_the_same_rows_and_another_gives_others(make) -> None:
    assert make(50).equals(make(50))
    assert not make(50).equals(make(50, seed=2))


def test_a_census_has_fifteen_mixed_columns_with_nulls() -> None:
    rows = generated.census(4_000)
    label = rows[generated.CENSUS_LABEL]
    features = rows.drop_columns([generated.CENSUS_LABEL])
    assert features.num_columns == 15
    kinds = {str(kind) for kind in features.schema.types}
    assert kinds == {"int16", "int32", "float", "double", "bool", "string", "date32[day]"}
    with_nulls = [name for name in features.column_names if features[name].null_count]
    assert with_nulls == ["hours", "savings", "distance", "work", "occupation", "registered"]
    assert set(label.to_pylist()) == {"yes", "no"} and 0.25 < pc.mean(pc.equal(label, "yes")).as_py() < 0.45


def test_an_airline_has_three_hundred_airports_and_a_skewed_label() -> None:
    rows = generated.airline(20_000)
    assert len(set(rows["origin"].to_pylist())) == generated.AIRPORTS
    assert 0.08 < pc.mean(pc.equal(rows[generated.AIRLINE_LABEL], "yes")).as_py() < 0.16
    assert pa.types.is_timestamp(rows["departure"].type)


def test_messages_have_every_topic() -> None:
    rows = generated.texts(600)
    counts = Counter(rows[generated.TEXTS_LABEL].to_pylist())
    assert set(counts) == set(generated.TOPICS) and min(counts.values()) > 60
    assert all(8 <= len(message.split()) <= 40 for message in rows["message"].to_pylist())


def test_a_series_has_a_row_for_each_hour_and_station() -> None:
    rows = generated.series(48, 3)
    assert len(rows) == 48 * 3
    assert rows["station"].to_pylist()[:4] == ["station 0", "station 1", "station 2", "station 0"]
    one = rows.filter(pc.equal(rows["station"], "station 1"))["time"].to_numpy()
    assert (np.diff(one) == np.timedelta64(1, "h")).all()


def test_images_are_in_a_folder_for_each_class(tmp_path: Path) -> None:
    generated.image_folders(tmp_path / "images", 3, side=12)
    assert sorted(folder.name for folder in (tmp_path / "images").iterdir()) == sorted(generated.SHAPES)
    pixels, classes = tables_theirs.pixels(tmp_path / "images")
    assert (pixels.shape, pixels.dtype) == ((12, 144), np.uint8)
    assert Counter(classes) == dict.fromkeys(generated.SHAPES, 3)


def test_windows_hold_what_was_and_what_follows_of_one_station() -> None:
    rows = generated.series(12, 2)
    given, wanted = tables_theirs.windows_of(rows, "station", ["load", "temperature"], "load", 4, 2, 3)
    assert (given.shape, wanted.shape) == ((6, 4, 2), (6, 2))
    load = rows.filter(pc.equal(rows["station"], "station 1"))["load"].to_numpy()
    np.testing.assert_array_equal(given[4, :, 0], load[3:7])
    np.testing.assert_array_equal(wanted[4], load[7:9])


def test_columns_become_numbers_and_texts() -> None:
    rows = pa.table(
        {
            "a": pa.array([1, None, 3], pa.int32()),
            "b": pa.array([True, None, False]),
            "day": pa.array([0, None, 59], pa.int32()).cast(pa.date32()),
        }
    )
    numbers, texts = tables_theirs.columns(rows)
    assert texts["b"].tolist() == ["true", "", "false"]
    # sin and cos of the month, sin and cos of the weekday (day 0 was a Thursday), whether it is missing.
    march = 2 * math.pi * 2 / 12
    expected = [
        [1, 0, 1, 0, 1, 0],
        [math.nan, 0, 0, 0, 0, 1],
        [3, math.sin(march), math.cos(march), math.sin(2 * math.pi * 3 / 7), math.cos(2 * math.pi * 3 / 7), 0],
    ]
    np.testing.assert_allclose(numbers, expected, atol=1e-12)
    np.testing.assert_allclose(tables_theirs.standardised(numbers, 2)[:, 0], [0, 0, 2])
    assert tables_theirs.indices(texts["b"], 2)[0].tolist() == [2, 0, 1]


def test_the_share_of_the_gap_that_ours_closes() -> None:
    found = tables.summary([0.8, 0.79, 0.81], {"linear": 0.7, "boosting": 0.85}, lower=False)
    expected = {"ours": 0.8, "linear": 0.7, "boosting": 0.85, "spread": 0.02, "closed": 0.67, "above_linear": True}
    assert found == expected
    errors = tables.summary([2.0, 2.2], {"linear": 3.0, "boosting": 2.0}, lower=True)
    assert (errors["ours"], errors["closed"], errors["above_linear"]) == (2.1, 0.9, True)
    assert tables.summary([0.6], {"linear": 0.7, "boosting": 0.7}, lower=False)["closed"] is None
    assert not tables.summary([0.6], {"linear": 0.7, "boosting": 0.7}, lower=False)["above_linear"]


def test_a_configuration_is_the_shipped_one_with_keys_replaced() -> None:
    shipped = tables.configuration("train-table.yaml", [])
    changed = tables.configuration("train-table.yaml", ["optimizer.learning_rate=0.5", "seed=7"])
    assert (changed["optimizer"]["learning_rate"], changed["seed"]) == (0.5, 7)
    assert changed["optimizer"]["name"] == shipped["optimizer"]["name"] and changed["model"] == shipped["model"]
