"""Numbers to predict, scaled by what the training split alone says."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import Description, LabelSpec, TensorSpec
from sparksplit.dataset.lane_files import OF_LABEL, Layout, fit, fit_label
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.prepare.config_checks import check
from sparksplit.prepare.preprocess_config import PreprocessConfig

NUMBER = LabelSpec(dtype="float32", kind="number")
numbers = st.integers(-(2**20), 2**20).map(lambda number: number / 64)


def test_files_keep_the_labels_and_the_description_says_how_they_are_scaled(tmp_path):
    random = np.random.default_rng(1)
    x, y = random.random((300, 3)), (2000 + 300 * random.normal(size=(300, 2)) * [1, 0]).astype(np.float32)
    plain, scaled = (
        from_arrays(str(tmp_path / name), {"train": (x, y), "test": (x, y + 1e6)}, lanes=5, label_scaling=name)
        for name in ("none", "standard")
    )
    label = PreparedDataSet.open(scaled.path).description.label
    assert label.offset == pytest.approx(y.astype(np.float64).mean(axis=0).tolist(), rel=1e-12)
    # What is constant is only shifted.
    assert label.scale == pytest.approx([1 / y[:, 0].astype(np.float64).std(), 1.0], rel=1e-12)
    assert Description.read(scaled.path).label == label and label.is_scaled
    # Without it, files say what they said before there was such a thing.
    assert {"offset", "scale"}.isdisjoint(json.loads((tmp_path / "none" / "preprocessing.json").read_text())["label"])
    assert not plain.description.label.is_scaled
    assert plain.digest != scaled.digest
    for name in ("train", "test"):
        one, other = plain.manifest.splits[name], scaled.manifest.splits[name]
        assert (one.checksum, one.lane_rows, one.bytes) == (other.checksum, other.lane_rows, other.bytes)
    assert list(plain.manifest.splits["train"].statistics) == list(scaled.manifest.splits["train"].statistics) == ["x"]
    assert plain.manifest.preprocessing == scaled.manifest.preprocessing


@given(st.lists(numbers, min_size=1, max_size=20))
def test_scaled_labels_have_mean_0_and_deviation_1(values):
    layout = Layout([TensorSpec(name="x", dtype="uint8", shape=[1])], NUMBER, (), 4, by_label=True)
    moments = layout.moments()
    for part in np.array_split(np.array(values, np.float32), 3):
        moments[OF_LABEL].update(part)
    offset, scale = fit_label(moments, NUMBER).numbers()
    found = (np.array(values) - offset) * scale
    assert found.mean() == pytest.approx(0, abs=1e-6)
    assert found.std() == pytest.approx(1 if len(set(values)) > 1 else 0, abs=1e-6)
    assert OF_LABEL not in fit(moments, "standard", "tensor").tensors
    assert fit_label(Layout(layout.tensors, NUMBER, (), 4).moments(), NUMBER) is NUMBER


@pytest.mark.parametrize(
    ("keys", "kind", "table", "scaled"),
    [
        ({}, "number", True, True),
        ({}, "number", False, False),
        ({}, "integer", True, False),
        ({}, None, True, False),
        ({"fitted": "data"}, "number", True, False),  # that says it
        ({"label_scaling": "none"}, "number", True, False),
        ({"label_scaling": "standard"}, "number", False, True),
    ],
)
def test_a_tables_numbers_to_predict_are_scaled_unless_it_is_said_otherwise(keys, kind, table, scaled):
    config = parse(PreprocessConfig, {"input": {"path": "a.csv"}, "output": "o", **keys})
    assert config.scales_label(kind, table) is scaled


def test_classes_are_not_scaled(tmp_path):
    with pytest.raises(ValueError, match="label_scaling needs float labels"):
        from_arrays(str(tmp_path / "d"), {"train": (np.zeros((2, 1)), np.array([0, 1]))}, label_scaling="standard")
    for given_input in ({"label": None}, {"label_type": "text"}):
        values = {"input": {"format": "csv", "path": "a.csv", **given_input}, "output": "o"}
        with pytest.raises(ConfigError, match=r"^label_scaling: needs labels that are numbers \(input.label_type"):
            check(parse(PreprocessConfig, {**values, "label_scaling": "standard"}))
