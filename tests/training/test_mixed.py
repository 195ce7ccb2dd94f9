"""Runs on real nodes whose layers compute in 16 bits, or mini-batches in parts: resumed, on virtual nodes, exported."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.api.results import TrainedRun
from sparksplit.base.errors import UsageError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training.report import summary
from tests.training.records import run_record
from tests.training.runs import MODELS, largest_difference, run, weights, without_end

OWN = str(Path(__file__).with_name("strategies_of_ones_own.py"))
ROWS = 330
SETTINGS = {
    "nodes": 2, "epochs": 3, "batch_size": 32, "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "checkpoint": {"every": "epoch", "keep": 99},
}  # fmt: skip


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    generator = np.random.default_rng(7)
    label = generator.integers(0, 4, ROWS + 40)
    x = (generator.integers(0, 9, (ROWS + 40, 4, 4)) + 12 * np.eye(4, 16)[label].reshape(-1, 4, 4)).astype("u1")
    folder = tmp_path_factory.mktemp("mixed") / "data"
    splits = {"train": (x[:ROWS], label[:ROWS]), "test": (x[ROWS:], label[ROWS:])}
    from_arrays(str(folder), splits, scaling="unit", classes=4, lanes=7)
    return folder


@pytest.mark.parametrize("dtype", [pytest.param("mixed_float16", marks=pytest.mark.slow), "mixed_bfloat16"])
def test_a_run_learns_is_resumed_to_the_same_bits_and_its_model_is_used(forked, digits, tmp_path, dtype):
    """Resumed with float16, whose scale is of the state; bfloat16 has none."""
    straight = run(digits, tmp_path / "straight", dtype=dtype, **SETTINGS)
    assert straight["metrics"]["test"]["accuracy"] > 0.9
    assert straight["ledger"]["exact"]
    scale = straight.get("loss_scale")
    if dtype == "mixed_bfloat16":
        assert scale is None
    else:
        assert scale["value"] == 2.0 ** (15 - scale["left_out"])
        without_end(tmp_path / "straight", tmp_path / "resumed", 1)
        resumed = run(digits, tmp_path / "resumed", Options(resume=True), dtype=dtype, **SETTINGS)
        same = ("weights", "ledger", "loss_scale")
        assert [resumed[key] for key in same] == [straight[key] for key in same]
    served = tf.saved_model.load(str(tmp_path / "straight" / "saved_model" / "1")).signatures["serving_default"]
    outputs = served(x=tf.zeros((2, 4, 4), tf.uint8))["outputs"]
    assert outputs.dtype == tf.float32
    np.testing.assert_allclose(outputs.numpy().sum(axis=1), 1, atol=1e-5)
    model = keras.saving.load_model(tmp_path / "straight" / "model.keras", compile=False)
    assert [layer.dtype_policy.name for layer in model.layers][1:] == [dtype, "float32"]
    assert {weight.dtype.name for weight in model.get_weights()} == {"float32"}


@pytest.mark.slow
def test_nodes_with_gradients_of_their_own_have_scales_of_their_own(forked, digits, tmp_path):
    """Real nodes and virtual ones. Node 0 has fewer steps than node 1, by which the run counts."""
    local = {
        **SETTINGS, "dtype": "mixed_float16", "strategy": f"{OWN}:neighbours_apart",
        "model": {"build": f"{MODELS}:with_state"},
    }  # fmt: skip
    real = run(digits, tmp_path / "real", **local)
    virtual = run(digits, tmp_path / "virtual", **{**local, "nodes": {"virtual": 2}})
    assert real["loss_scale"] == virtual["loss_scale"]
    assert real["loss_scale"]["value"] == 2.0 ** (15 - real["loss_scale"]["left_out"])
    assert largest_difference(weights(tmp_path / "real"), weights(tmp_path / "virtual")) < 1e-3


@pytest.mark.slow
def test_parts_of_mini_batches_make_the_same_run(forked, digits, tmp_path):
    """330 rows are 10 mini-batches of 32 and one of 10."""
    whole = run(digits, tmp_path / "whole", dtype="float64", **SETTINGS)
    parts = run(digits, tmp_path / "parts", dtype="float64", accumulate=5, **SETTINGS)
    assert parts["config_hash"] != whole["config_hash"]
    for name in ("ledger", "updates", "syncs", "sync_bytes_per_node"):
        assert parts[name] == whole[name]
    assert largest_difference(weights(tmp_path / "whole"), weights(tmp_path / "parts")) < 1e-9
    one = run(digits, tmp_path / "one", dtype="float64", accumulate=5, **{**SETTINGS, "nodes": 1})
    assert largest_difference(weights(tmp_path / "whole"), weights(tmp_path / "one")) < 1e-9
    assert (one["updates"], one["threads"]) == (whole["updates"], 1)


def test_what_was_left_out_is_told():
    told = "\n".join(summary(run_record(loss_scale={"value": 8192.0, "left_out": 2}), "out"))
    assert "2 of " in told and " steps were skipped, because gradients overflowed in float16" in told


@pytest.mark.slow
def test_xla_and_operations_that_need_not_be_deterministic(forked, digits, tmp_path):
    plain = run(digits, tmp_path / "plain", **SETTINGS)
    for name, keys in (("compiled", {"jit_compile": True}), ("free", {"deterministic": False})):
        found = run(digits, tmp_path / name, **keys, **SETTINGS)
        assert found["config_hash"] != plain["config_hash"]
        assert largest_difference(weights(tmp_path / name), weights(tmp_path / "plain")) < 1e-4
    timed = {**SETTINGS, "nodes": 1, "model": {"build": f"{MODELS}:timed"}}
    with pytest.raises(UsageError, match=r"^deterministic: is true, .*\(TensorFlow: .*imestamp"):
        run(digits, tmp_path / "timed", **timed)
    free = run(digits, tmp_path / "timed", **timed, deterministic=False)
    assert free["ledger"]["exact"]
    # Its layer is not registered with Keras: the builder's file supplies it.
    loaded = TrainedRun.open(str(tmp_path / "timed")).model()
    assert type(loaded.layers[1]).__name__ == "Timed"
