"""Statistics, and the preprocessing fitted on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_io.lane_files import fit
from hdfs_io.preprocessing import Description, FittedPreprocessing, LabelSpec, TensorPreprocessing, TensorSpec
from hdfs_io.statistics import Moments
from sparksplit.errors import InputError


@given(st.integers(0, 3), st.sampled_from(["uint8", "int32", "float32"]), st.booleans())
def test_moments_merged_from_parts_are_those_of_the_whole(seed: int, dtype: str, by_feature: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 200, (50, 2, 3)).astype(dtype)
    if dtype == "float32":
        rows[rng.random(rows.shape) < 0.1] = np.nan
    moments = Moments(6 if by_feature else 1)
    for part in np.array_split(rows, [0, 7, 30]):
        other = Moments(6 if by_feature else 1)
        other.update(part)
        moments.merge(Moments.from_json(other.to_json()))
    flat = rows.reshape(50, 6).astype(np.float64) if by_feature else rows.reshape(-1, 1).astype(np.float64)
    np.testing.assert_allclose(moments.mean, np.nanmean(flat, axis=0))
    np.testing.assert_allclose(moments.std, np.nanstd(flat, axis=0))
    np.testing.assert_array_equal(moments.min, np.nanmin(flat, axis=0))
    np.testing.assert_array_equal(moments.max, np.nanmax(flat, axis=0))
    whole = moments.whole()
    assert whole.missing == np.isnan(flat).sum()
    assert whole.mean == pytest.approx(np.nanmean(flat))
    assert whole.std == pytest.approx(np.nanstd(flat))


def moments_of(rows: Any, features: int = 1) -> dict[str, Moments]:
    moments = Moments(features)
    moments.update(np.asarray(rows))
    return {"x": moments}


def test_unit_scaling_of_pixels_is_division_by_the_maximum() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(64, 4)
    scaled = fit(moments_of(pixels), "unit", "tensor").apply("x", pixels)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, pixels / 255.0, rtol=1e-6)
    digits = np.arange(17, dtype=np.uint8).reshape(17, 1)
    assert fit(moments_of(digits), "unit", "tensor").apply("x", digits).max() == 1


def test_standard_scaling_by_feature_and_a_constant_feature() -> None:
    rows = np.array([[1, 5, 100], [3, 5, 300]], dtype=np.float32)
    fitted = fit(moments_of(rows, 3), "standard", "feature")
    np.testing.assert_allclose(fitted.apply("x", rows), [[-1, 0, -1], [1, 0, 1]])
    assert fit(moments_of(rows, 3), "standard", "tensor").tensors["x"].offset == pytest.approx(69.0)


def test_missing_values_get_the_features_mean_before_scaling() -> None:
    rows = np.array([[1, np.nan], [3, 4], [np.nan, 8]], dtype=np.float32)
    fitted = fit(moments_of(rows, 2), "none", "tensor")
    np.testing.assert_allclose(fitted.apply("x", rows), [[1, 6], [3, 4], [2, 8]])


def test_a_feature_without_values_and_no_rows_fit_to_finite_numbers() -> None:
    rows = np.array([[1, np.nan], [3, np.nan]], dtype=np.float32)
    assert np.isfinite(fit(moments_of(rows, 2), "unit", "feature").apply("x", rows)).all()
    assert np.isfinite(fit({"x": Moments()}, "standard", "tensor").apply("x", rows[:0])).all()


def test_the_description_stands_alone(tmp_path: Path) -> None:
    description = Description(
        tensors=[TensorSpec(name="x", dtype="uint8", shape=[2, 2])],
        label=LabelSpec(dtype="int64", classes=["a", "b"], kind="text"),
        preprocessing=FittedPreprocessing(tensors={"x": TensorPreprocessing(scale=[0.5, 1.0, 0.1, 1 / 3])}),
    )
    description.write(f"{tmp_path}")
    assert Description.read(f"{tmp_path}") == description
    assert description.preprocessing.arrays("x", [2, 2])[1].shape == (2, 2)
    (tmp_path / "preprocessing.json").write_text('{"format_version": 99}')
    with pytest.raises(InputError, match=r"preprocessing\.json: format version 99 is not known"):
        Description.read(f"{tmp_path}")
    (tmp_path / "preprocessing.json").write_text('{"format_version": 1, "tensors": 5}')
    with pytest.raises(InputError, match=r"preprocessing\.json: tensors: "):
        Description.read(f"{tmp_path}")
