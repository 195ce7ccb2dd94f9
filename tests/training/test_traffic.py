"""What travels between real nodes, by `sync_bytes_per_node` in run.json: rows in use, and nothing that is frozen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sparksplit.dataset.arrays import from_arrays
from tests.forked import nodes_of
from tests.training.runs import MODELS, MOMENTUM, largest_difference, run, weights

EMBEDDING = 40_000 * 8 * 4
SETTINGS = {"epochs": 4, "batch_size": 64, "optimizer": MOMENTUM}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """300 rows of three of 40,000 tokens, some of them frequent; the label is whether their sum is large."""
    generator = np.random.default_rng(3)
    x = (40_000 * generator.random((330, 3)) ** 4).astype(np.int32)
    y = (x.sum(1) > 20_000).astype(np.int64)
    folder = tmp_path_factory.mktemp("tokens") / "data"
    from_arrays(str(folder), {"train": (x[:300], y[:300]), "test": (x[300:], y[300:])}, classes=2, lanes=7)
    return folder


def embedded(whole=False):
    return {"build": f"{MODELS}:embedded", "params": {"whole": whole}}


@pytest.mark.slow
def test_an_embeddings_rows_in_use_travel_and_the_result_is_the_same_for_every_number_of_nodes(
    forked, tokens, tmp_path
):
    runs = {nodes: run(tokens, tmp_path / str(nodes), nodes=nodes, model=embedded(), **SETTINGS) for nodes in (1, 2, 3)}
    whole = run(tokens, tmp_path / "whole", nodes=2, model=embedded(whole=True), **SETTINGS)
    assert whole["sync_bytes_per_node"] > whole["updates"] * EMBEDDING
    # What a mini-batch of 64 rows uses, at most: 192 rows of 8 numbers, and their numbers; and the small layers.
    most = whole["updates"] * 2 * (192 * (8 * 4 + 8) * 1.125 + 3 * 1002 * 4)
    for nodes in (2, 3):
        assert 0 < runs[nodes]["sync_bytes_per_node"] < most
        assert runs[nodes]["ledger"]["exact"] is True
        assert largest_difference(weights(tmp_path / str(nodes)), weights(tmp_path / "1")) < 1e-4
        losses = [runs[n]["metrics"]["train"]["loss"] for n in (1, nodes)]
        np.testing.assert_allclose(losses[1], losses[0], atol=1e-4, rtol=0)
    # Two numbers have one sum, whichever way they come together.
    assert runs[2]["weights"] == whole["weights"]


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [2, {"virtual": 3}])
def test_epochs_that_nodes_share_send_rows_too_and_checkpoints_hold_what_is_frozen(forked, tokens, tmp_path, nodes):
    keys = {**SETTINGS, "strategy": "epoch", "nodes": nodes}
    few = run(tokens, tmp_path / "few", model=embedded(), **keys)
    whole = run(tokens, tmp_path / "whole", model=embedded(whole=True), **keys)
    assert 0 < few["sync_bytes_per_node"] < whole["sync_bytes_per_node"] / 20
    assert largest_difference(weights(tmp_path / "few"), weights(tmp_path / "whole")) < 1e-5
    assert (24, 500) in [array.shape for array in weights(tmp_path / "few")]


@pytest.mark.slow
def test_the_tensorflow_collective_gives_the_same_result_and_sends_whole_gradients(spark, zygote, tokens, tmp_path):
    """Its sums within a loop must have the same shapes each time. They match by the turn of a loop: with a slow node,
    loops that are as long as each node's own clock says wait for ever, in an epoch of hundreds of updates."""
    settings = {**SETTINGS, "epochs": 2, "batch_size": 1, "nodes": 2, "model": embedded()}
    with nodes_of(zygote):
        ring = run(tokens, tmp_path / "ring", **settings, collective="ring")
    slow = Path(__file__).with_name("slow.py")
    often = {"checkpoint": {"seconds": 0.001}, "transform": f"{slow}:on_the_chief"}
    other = run(tokens, tmp_path / "tensorflow", **settings, **often, collective="tensorflow")
    np.testing.assert_allclose(other["metrics"]["train"]["loss"], ring["metrics"]["train"]["loss"], atol=1e-4)
    assert largest_difference(weights(tmp_path / "ring"), weights(tmp_path / "tensorflow")) < 1e-4
    assert (other["updates"], other["ledger"]["exact"]) == (600, True)
    assert other["sync_bytes_per_node"] > other["updates"] * EMBEDDING
