"""Statistics of features in the units that they are scaled in, and what is fitted on them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import FittedPreprocessing, TensorSpec
from sparksplit.dataset.feature_scaling import as_floats, by_feature, in_units, measured, scaled, width
from sparksplit.dataset.feature_spec import Category, Date, Feature, Number, Scaled, Text
from sparksplit.dataset.joined import _together
from sparksplit.dataset.lane_files import FileFacts, LaneFile, Layout, binary_column, merge_split
from sparksplit.dataset.manifest import Manifest, SourceFacts, SplitFacts, Statistics
from sparksplit.dataset.statistics import Moments


def number(place: int = 0, values: int = 1, **more: object) -> Number:
    return Number(column=f"n{place}", type="double", tensor="x", place=place, values=values, **more)  # type: ignore[arg-type]


def moments_of(features: list[Number | Date], rows: object) -> dict[str, Moments]:
    moments = Moments(width(features))
    moments.update(in_units(features, np.asarray(rows)))
    return by_feature(features, moments)


def test_missing_values_are_nan_and_the_least_number_of_signed_dtypes() -> None:
    least = np.iinfo(np.int64).min
    np.testing.assert_array_equal(as_floats(np.array([least, 0, -5])), [np.nan, 0, -5])
    np.testing.assert_array_equal(as_floats(np.array([np.nan, 1], np.float32)), [np.nan, 1])
    np.testing.assert_array_equal(as_floats(np.array([0, 255], np.uint8)), [0, 255])


def test_units_are_clipped_then_logarithms_each_in_its_place() -> None:
    features: list[Number | Date] = [number(2, clip=(0, 10), log1p=True), number(0, values=2, clip=(-1, 1))]
    rows = np.array([[5, -5, 99, 7], [0.5, np.nan, np.nan, 7]])
    np.testing.assert_array_equal(in_units(features, rows), [[np.log1p(10), 1, -1], [np.nan, 0.5, np.nan]])


def test_dates_are_days_since_their_reference() -> None:
    day = (date(2024, 5, 1) - date(1970, 1, 1)).days
    days = Date(column="d", type="date", tensor="x", place=0, since="2024-04-01")
    rows = np.array([[day], [np.iinfo(np.int32).min]], np.int32)
    np.testing.assert_array_equal(in_units([days], rows), [[30], [np.nan]])
    moment = Date(column="d", type="timestamp", tensor="x", place=0, since="2024-04-01", moment=True)
    rows = np.array([[day * 86_400_000_000 + 43_200_000_000], [np.iinfo(np.int64).min]])
    np.testing.assert_array_equal(in_units([moment], rows), [[30.5], [np.nan]])
    plain = Date(column="d", type="date", tensor="x", place=0)
    np.testing.assert_array_equal(in_units([plain], np.array([[day]], np.int32)), [[day]])


def test_indices_have_no_statistics_of_their_own() -> None:
    category = Category(column="c", type="string", tensor="x", place=1)
    text = Text(column="t", type="string", tensor="y", place=0, values=5)
    features: list[Feature] = [number(0), category, text]
    assert measured(features, "x") == [features[0]] and measured(features, "y") == []


@given(st.integers(0, 5), st.sampled_from(["none", "unit", "standard"]), st.booleans())
def test_scaled_features_have_the_wanted_mean_and_spread(seed: int, scale: str, log1p: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.gamma(2.0, 50.0, (200, 3))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    features: list[Number | Date] = [number(0, log1p=log1p), number(1, values=2, clip=(10, 100), log1p=log1p)]
    found = moments_of(features, rows)
    for feature, own in zip(features, (rows[:, :1], rows[:, 1:]), strict=True):
        fitted = scaled(feature, found[feature.column], scale)  # type: ignore[arg-type]
        units = in_units([feature.model_copy(update={"place": 0})], own)
        assert found[feature.column].missing == np.isnan(own).sum()
        np.testing.assert_allclose(np.broadcast_to(fitted.impute, feature.values), np.nanmean(units, axis=0))
        model = (units - fitted.offset) * fitted.scale
        if scale == "standard":
            np.testing.assert_allclose([np.nanmean(model, axis=0), np.nanstd(model, axis=0) - 1], 0, atol=1e-9)
        elif scale == "unit":
            np.testing.assert_allclose([np.nanmin(model, axis=0), np.nanmax(model, axis=0) - 1], 0, atol=1e-9)
        else:
            np.testing.assert_array_equal(model, units)


def test_what_a_missing_number_becomes_is_in_the_features_units() -> None:
    feature = number(clip=(0, 100), log1p=True)
    own = moments_of([feature], [[1.0], [3.0], [np.nan]])["n0"]
    assert scaled(feature, own, "none").impute == pytest.approx((np.log(2) + np.log(4)) / 2)
    assert scaled(feature, own, "none", "median", [3.0]).impute == np.log1p(3)
    assert scaled(feature, own, "none", -5.0).impute == 0  # clipped
    assert scaled(feature, own, "none", 1e9).impute == np.log1p(100)
    with pytest.raises(InputError, match=r"features\.n0\.impute: must be above -1 with log1p \(is -1\)"):
        scaled(number(log1p=True), own, "none", -1)


def test_nothing_known_of_a_feature_and_a_constant_are_finite() -> None:
    features: list[Number | Date] = [number(0), number(1, values=2)]
    found = moments_of(features, [[5.0, np.nan, 1.0], [5.0, np.nan, 3.0]])
    assert scaled(features[0], found["n0"], "standard") == Scaled(impute=5.0, offset=5.0, scale=1.0)
    assert scaled(features[1], found["n1"], "unit", "median", [np.nan, 1.0]) == Scaled(
        impute=[0.0, 1.0], offset=[0.0, 1.0], scale=[1.0, 0.5]
    )
    assert found["n1"].missing == 2
    empty = by_feature([number()], Moments(1))["n0"]
    assert scaled(number(), empty, "standard") == Scaled()


@pytest.mark.parametrize("value", [-1.0, -7.5])
def test_a_column_without_logarithms_is_named(value: float) -> None:
    with pytest.raises(InputError, match=r"^features\.n1\.log1p: log\(1 \+ x\) needs values above -1.*clip"):
        moments_of([number(0), number(1, log1p=True)], [[0.0, 1.0], [0.0, value]])
    moments_of([number(0, log1p=True)], [[-0.99], [np.nan]])


def test_a_column_without_a_standard_deviation_is_named() -> None:
    with pytest.raises(InputError, match=r"column n1: values from -1e\+200 to 1e\+200 .*features\.n1\.clip"):
        moments_of([number(0), number(1)], [[0.0, 1e200], [0.0, -1e200]])
    with pytest.raises(InputError, match=r"are too large for a standard deviation in float64$"):
        moments_of([number(0, buckets=[0.0])], [[1e200], [-1e200]])


TENSORS = [
    TensorSpec(name="x", dtype="float64", shape=[3]),
    TensorSpec(name="d", dtype="int32", shape=[1]),
    TensorSpec(name="c", dtype="uint8", shape=[2]),
]
FEATURES: list[Feature] = [
    number(0, log1p=True),
    Date(column="when", type="date", tensor="d", place=0, since="1970-01-11"),
    Category(column="kind", type="string", tensor="c", place=0),
    number(1, values=2),
    Category(column="x", type="string", tensor="c", place=1),
]


@pytest.mark.parametrize(
    ("split", "fits", "refused"), [("train", True, True), ("validation", True, False), ("train", False, False)]
)
def test_what_has_no_logarithm_is_missing_but_in_rows_that_are_fitted_on(
    tmp_path: Path, split: str, fits: bool, refused: bool
) -> None:
    layout = Layout(TENSORS[:1], None, (), 16, features=[FEATURES[0], FEATURES[3]], fits=fits).for_rows(4)
    x = np.array([[-1.0, 1, 2], [-3, 1, 2], [0, 1, 2], [np.e - 1, 1, 2]])
    (tmp_path / split).mkdir()
    file = LaneFile(str(tmp_path), FileFacts(split, 0, f"{split}/a.parquet"), layout)
    file.write(0, pa.table([pa.array(np.arange(4)), binary_column(x, TENSORS[0])], schema=layout.schema))
    facts = [file.close()]
    if refused:
        with pytest.raises(InputError, match=r"features\.n0\.log1p"):
            merge_split(facts, layout, 1)
        return
    found, _ = merge_split(facts, layout, 1)
    assert (found.statistics["n0"].missing, found.statistics["n0"].mean) == (2, pytest.approx(0.5))


def test_a_file_tells_the_statistics_of_its_features(tmp_path: Path) -> None:
    layout = Layout(TENSORS, None, (), 16, features=FEATURES).for_rows(40)
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 5, (40, 3))
    x[3, 0] = x[7, 2] = np.nan
    d = rng.integers(-100, 100, (40, 1)).astype(np.int32)
    d[5] = np.iinfo(np.int32).min
    c = rng.integers(0, 9, (40, 2)).astype(np.uint8)
    columns = [pa.array(np.arange(40)), *(binary_column(a, t) for a, t in zip((x, d, c), TENSORS, strict=True))]
    (tmp_path / "train").mkdir()
    file = LaneFile(str(tmp_path), FileFacts("train", 0, "train/a.parquet"), layout)
    file.write(0, pa.table(columns, schema=layout.schema))
    split, moments = merge_split([file.close()], layout, 1)
    assert list(moments) == ["c", "n0", "n1", "when"] == list(split.statistics)
    assert [split.statistics[name].missing for name in moments] == [0, 1, 1, 1]
    assert split.statistics["n0"].mean == pytest.approx(np.nanmean(np.log1p(x[:, 0])))
    np.testing.assert_allclose(moments["n1"].mean, np.nanmean(x[:, 1:], axis=0))
    known = np.delete(d[:, 0], 5) - 10.0
    assert (split.statistics["when"].min, split.statistics["when"].max) == (known.min(), known.max())
    assert split.statistics["c"].mean == pytest.approx(c.mean())


def test_a_feature_named_weight_does_not_hide_the_weights_of_rows(tmp_path: Path) -> None:
    """The smallest step of a metric was 1/rows, and rows that all weigh 0 were taken."""
    kilos = Number(column="weight", type="double", tensor="x", place=0)
    tensors = [
        TensorSpec(name="x", dtype="float64", shape=[1]),
        TensorSpec(name="weight", dtype="float32", shape=[]),
    ]
    layout = Layout(tensors, None, (), 16, features=[kilos]).for_rows(4)
    x, weight = np.array([[70.0], [80], [-1], [90]]), np.array([0.5, 1, 2, 0.5], np.float32)
    columns = [pa.array(np.arange(4)), *(binary_column(a, t) for a, t in zip((x, weight), tensors, strict=True))]
    (tmp_path / "train").mkdir()
    file = LaneFile(str(tmp_path), FileFacts("train", 0, "train/a.parquet"), layout)
    file.write(0, pa.table(columns, schema=layout.schema))
    split, moments = merge_split([file.close()], layout, 1)
    # What the feature is scaled by is its own.
    np.testing.assert_allclose(moments["weight"].mean, [59.75])
    manifest = Manifest(
        config_hash="c",
        created_by="a test",
        source=SourceFacts(format="csv", files=[]),
        lanes=1,
        block_rows=16,
        tensors=tensors,
        label=None,
        keep=[],
        preprocessing=FittedPreprocessing(),
        features=[kilos],
        splits={"train": split},
    )
    known = manifest.weights("train")
    assert known is not None and (known.min, known.max, known.mean) == (0.5, 2.0, 1.0)
    assert manifest.model_copy(update={"tensors": tensors[:1]}).weights("train") is None
    assert split.statistics["weight"].mean == 59.75
    # Two days of them, which are read as one.
    pooled = _together([manifest, manifest]).weights("train")
    assert pooled is not None and (pooled.min, pooled.max, pooled.mean) == (0.5, 2.0, 1.0)


@pytest.mark.parametrize(("column", "known"), [("weight", False), ("kilos", True)])
def test_earlier_data_sets_have_the_weights_under_a_name_that_a_column_may_have(column: str, known: bool) -> None:
    """The statistics of a column were taken for those of the weights."""
    found = Statistics(min=-1, max=90, mean=59.75, std=1)
    split = SplitFacts(rows=4, checksum=0, lane_rows=[4], statistics={"weight": found}, files=1, bytes=1)
    manifest = Manifest(
        config_hash="c",
        created_by="a test",
        source=SourceFacts(format="csv", files=[]),
        lanes=1,
        block_rows=16,
        tensors=[
            TensorSpec(name="x", dtype="float64", shape=[1]),
            TensorSpec(name="weight", dtype="float32", shape=[]),
        ],
        label=None,
        keep=[],
        preprocessing=FittedPreprocessing(),
        features=[Number(column=column, type="int", tensor="x", place=0)],
        splits={"train": split},
    )
    assert manifest.weights("train") == (found if known else None)
