"""Statistics, and the preprocessing fitted on them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import digest
from sparksplit.base.errors import InputError
from sparksplit.dataset.description import (
    NAMES,
    Description,
    FittedPreprocessing,
    LabelSpec,
    TensorPreprocessing,
    TensorSpec,
)
from sparksplit.dataset.fitted import Fitted
from sparksplit.dataset.lane_files import FileFacts, Layout, fit, merge_split
from sparksplit.dataset.statistics import Moments


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


def test_a_tensor_without_gaps_in_training_has_the_means_for_those_to_come() -> None:
    rows = np.array([[1, 5], [3, 7]], dtype=np.float32)
    assert fit(moments_of(rows, 2), "none", "tensor").tensors["x"].impute is None
    fitted = fit(moments_of(rows, 2), "unit", "feature", impute=True)
    np.testing.assert_array_equal(
        fitted.apply("x", np.array([[np.nan, 5], [3, np.nan]], np.float32)), [[0.5, 0], [1, 0.5]]
    )


FAR = {
    "epoch seconds": 1_700_006_400 + 60 * np.arange(1440),
    "epoch nanoseconds": 1_700_006_400_000_000_000 + 60_000_000_000 * np.arange(1440),
    "at the end of uint64": 2**64 - 1440 + np.arange(1440, dtype=np.uint64),
    "at the end of int64": -(2**63) + np.arange(1440),
}


@pytest.mark.parametrize("scaling", ["unit", "standard"])
@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ("epoch seconds", "int32"),
        ("epoch seconds", "uint32"),
        ("epoch seconds", "int64"),
        ("epoch seconds", "float64"),
        ("epoch nanoseconds", "int64"),
        ("epoch nanoseconds", "uint64"),
        ("at the end of uint64", "uint64"),
        ("at the end of int64", "int64"),
    ],
)
def test_numbers_far_from_0_and_close_to_each_other_stay_apart(numbers: str, dtype: str, scaling: str) -> None:
    rows = FAR[numbers].astype(dtype)[:, None]
    scaled = fit(moments_of(rows), scaling, "tensor").apply("x", rows)[:, 0]
    assert len(np.unique(scaled)) == 1440
    assert (np.diff(scaled) > 0).all()


@given(
    st.sampled_from(["int64", "uint64"]),
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=20),
    st.floats(-(2.0**63), 2.0**64, allow_subnormal=False),
)
def test_whole_numbers_of_64_bits_lose_nothing_before_the_offset_is_gone(
    dtype: str, values: list[int], offset: float
) -> None:
    limits = np.iinfo(dtype)
    kept = [min(max(value, int(limits.min)), int(limits.max)) for value in values]
    fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(offset=offset)})
    found = fitted.apply("x", np.array(kept, dtype))
    exact = [Fraction(value) - Fraction(offset) for value in kept]
    np.testing.assert_allclose(found, np.array([float(value) for value in exact]), rtol=1e-7, atol=1e-6)


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30),
    st.sampled_from(["float32", "float64"]),
    st.lists(st.integers(0, 50), min_size=1, max_size=5).filter(any),
    st.booleans(),
)
def test_a_constant_is_moved_to_0_and_never_scaled(constant: float, dtype: str, parts: list[int], gaps: bool) -> None:
    for scaling, by, features in (("unit", "tensor", 1), ("standard", "tensor", 1), ("standard", "feature", 2)):
        moments = Moments(features)
        for rows in parts:
            values = np.full((rows, 2), constant, dtype)
            if gaps and rows > 1:
                values[0] = np.nan
            moments.update(values)
        fitted = fit({"x": moments}, scaling, by)
        assert np.all(np.asarray(fitted.tensors["x"].scale) == 1)
        assert (fitted.apply("x", np.full((3, 2), constant, dtype)) == 0).all()
        assert moments.whole().std == 0


def test_scaling_stays_finite_for_every_float() -> None:
    for rows in ([0.0, 1e-310], [0.0, 1e-40], [0.0, 1e50], [1e50, 1.1e50], [-5e-324, 5e-324]):
        for scaling in ("unit", "standard"):
            values = np.array(rows)[:, None]
            assert np.isfinite(fit(moments_of(values), scaling, "tensor").apply("x", values)).all(), (rows, scaling)


@pytest.mark.parametrize("values", [[1e200, -1e200], [np.inf, 1.0]])
def test_statistics_that_are_not_finite_are_refused(values: list[float]) -> None:
    moments = moments_of(np.array(values))["x"]
    facts = FileFacts("train", 0, "a", lanes=[(0, 2, 0)], moments=[{"x": moments.to_json()}])
    layout = Layout([TensorSpec(name="x", dtype="float64", shape=[])], None, (), 16)
    with pytest.raises(InputError, match=r"tensor x: values from .* are too large for a standard deviation"):
        merge_split([facts], layout, 1)


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
    for version in (2, 99):
        (tmp_path / "preprocessing.json").write_text(f'{{"format_version": {version}}}')
        with pytest.raises(InputError) as error:
            Description.read(f"{tmp_path}")
        assert str(error.value) == (
            f"{tmp_path}/preprocessing.json: unknown format version {version}; this version of sparksplit reads 3. "
            "Make it again, or use the version that made it"
        )
    (tmp_path / "preprocessing.json").write_text('{"format_version": 3, "tensors": 5}')
    with pytest.raises(InputError, match=r"preprocessing\.json: tensors: "):
        Description.read(f"{tmp_path}")


def test_windows_have_statistics_for_each_column_and_apply_them_at_every_step() -> None:
    rows = np.random.default_rng(2).normal(size=(40, 5, 3)).astype(np.float32) * [1, 10, 100] + [0, 5, -7]
    spec = TensorSpec(name="x", dtype="float64", shape=[5, 3], columns=["a", "b", "c"])
    moments = Layout([spec], None, (), 16, by_feature=True).moments()
    moments["x"].update(rows)
    fitted = fit(moments, "standard", "feature")
    assert len(fitted.tensors["x"].offset) == 3  # type: ignore[arg-type]
    scaled = fitted.apply("x", rows)
    np.testing.assert_allclose(scaled, (rows - rows.mean(axis=(0, 1))) / rows.std(axis=(0, 1)), rtol=1e-5, atol=1e-5)
    offset, scale, impute = fitted.arrays("x", [5, 3])
    assert offset.shape == scale.shape == (5, 3) and impute is None and (offset == offset[0]).all()


def test_texts_for_a_missing_value_are_kept_and_change_what_a_fit_applies(tmp_path: Path) -> None:
    plain = Description(tensors=[], label=None, preprocessing=FittedPreprocessing())
    assert "nulls" not in plain.model_dump()
    marked = plain.model_copy(update={"nulls": ["", "NA"]})
    marked.write(f"{tmp_path}")
    assert Description.read(f"{tmp_path}").nulls == ["", "NA"]
    # Other texts are other rows. Without texts, the digest is that of a version that did not keep them.
    assert (
        Fitted("a", marked).digest != Fitted("a", plain).digest == digest([plain.model_dump(exclude=NAMES), None, None])
    )
