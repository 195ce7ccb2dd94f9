"""Checkpoints come when the clock says, or when someone is asked to end; the result's bits do not depend on it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sparksplit.base.errors import NodeFailed
from sparksplit.base.options import Options
from sparksplit.training import checkpoints
from tests.forked import nodes_of
from tests.nodes import pid_of
from tests.training.runs import AVERAGED, MODELS, run, without_end

OFTEN = {"seconds": 0.001, "keep": 99}
SAME = ("weights", "metrics", "ledger", "updates", "steps", "syncs", "sync_bytes_per_node")


def known(result):
    return {key: result[key] for key in SAME}


SETTINGS = {
    "strategy": "batch", "nodes": 2, "epochs": 6, "optimizer": AVERAGED, "keep_best": True,
    "model": {"build": f"{MODELS}:with_state"},
}  # fmt: skip


def straight(digits, output, settings):
    """A run that writes no checkpoint but its last."""
    result = run(digits, output, **settings, checkpoint={"seconds": None})
    assert len(list((output / "checkpoints").iterdir())) == 1, "the run's end"
    return result


@pytest.fixture(scope="module")
def batch(zygote, digits, tmp_path_factory):
    with nodes_of(zygote):
        return straight(digits, tmp_path_factory.mktemp("batch") / "run", SETTINGS)


def resumed_within(digits, tmp_path, settings, expected, **others):
    """A run that writes checkpoints often, and one that goes on from one of its checkpoints, if possible from within a
    round, have the bits of `expected`. Returns what the checkpoints are of, and which it was.

    others: keys of the first run that make no difference.
    """
    often = run(digits, tmp_path / "often", **settings, **others, checkpoint=OFTEN)
    assert known(often) == known(expected)
    written = sorted((tmp_path / "often" / "checkpoints").iterdir())
    progresses = [checkpoints.progress_of(str(path)) for path in written]
    assert len(written) >= 2 and progresses[-1].update == expected["updates"]
    nodes = progresses[-1].nodes
    within = [place for place, each in enumerate(progresses) if each.within_round]
    place = within[-1] if within else (len(written) - 1) // 2
    without_end(tmp_path / "often", tmp_path / "resumed", keep=place + 1)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), **settings, checkpoint=OFTEN)
    assert resumed["resumed"] == [{"update": progresses[place].update, "nodes_before": nodes, "nodes": nodes}]
    assert known(resumed) == known(expected)
    return progresses, place


@pytest.mark.slow
def test_whenever_they_are_written_batch_and_what_goes_on_from_them_has_the_same_bits(forked, digits, tmp_path, batch):
    """Also with other readers, and where rows are streamed and not kept."""
    progresses, _ = resumed_within(digits, tmp_path, SETTINGS, batch, readers=3, cache_mb=0)
    assert not any(each.within_round for each in progresses)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ("local", {"sync": {"every": 4, "outer": "nesterov"}}),
        ("epoch", {}),
        ("epoch-delayed", {"epochs": 6}),
        ("local", {"sync": {"every": 4, "after": 30}}),
        ("local", {"nodes": {"virtual": 3}, "sync": {"every": 4}}),
    ],
)
def test_whenever_they_are_written_a_run_and_what_goes_on_from_them_has_the_same_bits(
    forked, digits, tmp_path, strategy, more
):
    settings = {**SETTINGS, "strategy": strategy, "epochs": 4, **more}
    expected = straight(digits, tmp_path / "straight", settings)
    progresses, place = resumed_within(digits, tmp_path, settings, expected)
    within = [place for place, each in enumerate(progresses) if each.within_round]
    if "after" not in more.get("sync", {}):  # so short a run has no look after those of the shared epochs
        assert bool(within) == (strategy in ("local", "epoch"))
    if (within and place > within[0]) or strategy == "epoch-delayed":
        # Another number of nodes goes on from the end of a round, of which one is always there.
        ended = [each.update for each in progresses[: place + 1] if not each.within_round]
        if ended:
            without_end(tmp_path / "often", tmp_path / "other", keep=place + 1)
            other = run(digits, tmp_path / "other", Options(resume=True), **{**settings, "nodes": 1})
            assert other["resumed"][0]["update"] == ended[-1]
            assert strategy != "epoch-delayed" or other["resumed"][0]["optimizer"] == "passed on"
            assert other["passes"] == settings["epochs"] and other["ledger"]["exact"] is True


@pytest.mark.slow
def test_a_node_that_is_asked_to_end_leaves_a_checkpoint_and_the_run_goes_on_from_it(
    forked, digits, tmp_path, capsys, batch
):
    """None would have come for an hour."""
    settings = {**SETTINGS, "transform": f"{MODELS}:slowly", "max_restarts": 1, "checkpoint": {"seconds": 3600}}
    output = tmp_path / "asked"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, digits, output, **settings)
        deadline = time.monotonic() + 240
        while not (output / "metrics.jsonl").exists():
            assert time.monotonic() < deadline and not running.done()
            time.sleep(0.01)
        os.kill(pid_of(1), signal.SIGTERM)
        result = running.result(timeout=120)
    said = capsys.readouterr().err
    assert "was asked to end (SIGTERM); restart 1 of 1 from " in said
    (resumed,) = result["resumed"]
    assert 21 <= resumed["update"] < 126 and f"checkpoints/update-{resumed['update']:09d}" in said
    assert [result[key] for key in ("weights", "metrics", "ledger")] == [
        batch[key] for key in ("weights", "metrics", "ledger")
    ]


@pytest.mark.slow
def test_a_loss_that_is_no_number_leaves_the_last_good_checkpoint(forked, digits, tmp_path):
    explodes = {"name": "PiecewiseConstantDecay", "boundaries": [50], "values": [0.01, 1e30]}
    settings = {"nodes": 2, "epochs": 9, "optimizer": {"name": "sgd", "learning_rate": explodes}}
    with pytest.raises(NodeFailed, match=r"no number|the loss is"):
        run(digits, tmp_path / "run", **settings, checkpoint={"seconds": 0.001, "keep": 2})
    left = checkpoints.latest(str(tmp_path / "run"))
    assert left is not None and checkpoints.newest_whole(str(tmp_path / "run"), 2) == (left, [])
    state = checkpoints.read(left, 0).state
    assert all(np.isfinite(array).all() for array in state.values())
    assert len(list((tmp_path / "run" / "checkpoints").glob("update-*"))) == 2


@pytest.mark.slow
def test_what_keeps_a_checkpoint_from_being_written_ends_the_run(forked, digits, tmp_path):
    """In the background, and so at one of the next looks."""
    output = tmp_path / "run"
    settings = {
        "nodes": 2, "epochs": 500, "transform": f"{MODELS}:slowly", "checkpoint": {"seconds": 0.5}, "max_restarts": 0,
    }  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, digits, output, **settings)
        deadline = time.monotonic() + 240
        while checkpoints.latest(str(output)) is None:
            assert time.monotonic() < deadline and not running.done()
            time.sleep(0.01)
        whole = checkpoints.newest_whole(str(output), 2)[0]
        folder = output / "checkpoints"
        folder.rename(output / "kept")
        folder.write_text("in the way")
        with pytest.raises(Exception, match="checkpoints"):
            running.result(timeout=120)
    folder.unlink()
    shutil.move(output / "kept", folder)
    assert Path(str(whole)).name <= Path(str(checkpoints.newest_whole(str(output), 2)[0])).name
