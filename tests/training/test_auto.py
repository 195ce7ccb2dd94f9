"""`strategy: auto` on real nodes: the number of nodes that it chooses changes nothing else. test_choice.py has the
rest."""

from __future__ import annotations

import json
import signal
from contextlib import nullcontext

import pytest

from sparksplit.training.choice import Choice
from tests.training.records import check_seconds
from tests.training.runs import AVERAGED, MODELS, run, without_end

pytestmark = pytest.mark.slow

SETTINGS = {
    "epochs": 2, "batch_size": 50, "optimizer": AVERAGED, "model": {"build": f"{MODELS}:with_state"},
    "checkpoint": {"every": 8, "keep": 99},
}  # fmt: skip
SAME = ("weights", "metrics", "ledger", "updates", "steps", "syncs", "sync_bytes_per_node")


@pytest.mark.parametrize("chosen", [1, 2])
def test_the_run_is_that_of_batch_on_the_chosen_nodes(forked, zygote, digits, tmp_path, monkeypatch, capsys, chosen):
    """BatchNorm, Dropout, momentum and moving averages are among the bits. Where both nodes are chosen, one of them is
    killed while it measures, and they measure again. Where one is chosen, a later command goes on from a checkpoint."""
    told = []

    def of(seconds):
        told.append(seconds)
        return Choice(chosen, seconds)

    monkeypatch.setattr(Choice, "of", of)
    plain = run(digits, tmp_path / "plain", nodes=chosen, **SETTINGS)
    killed = zygote.befalls(1, signal.SIGKILL, before="sparksplit.training.node.choosing:_timed")
    with killed if chosen == 2 else nullcontext():
        result = run(digits, tmp_path / "run", strategy="auto", nodes=2, **SETTINGS)
    (seconds,) = told
    assert [result[key] for key in SAME] == [plain[key] for key in SAME]
    assert (result["strategy"], result["nodes"], result["config"]["nodes"]) == ("auto", chosen, 2)
    assert seconds.keys() == {"1", "2"} and min(seconds.values()) > 0
    assert result["choice"] == json.loads((tmp_path / "run" / "_CHOICE").read_text())
    assert result["choice"] == {"nodes": chosen, "seconds": seconds}
    hows = [attempt["how"] for attempt in result["attempts"]]
    assert (hows, result["restarts"]) == (["start", "chosen"], 0) if chosen == 1 else (["start", "restart"], 1)
    check_seconds(result)
    assert f"auto: {'1 node' if chosen == 1 else 'batch on 2 nodes'}" in capsys.readouterr().err
    if chosen == 1:
        assert result["seconds"]["lost"] < result["seconds"]["start"], "measuring belongs to the start"
        without_end(tmp_path / "run", tmp_path / "resumed", keep=4)
        resumed = run(digits, tmp_path / "resumed", strategy="auto", nodes=2, **SETTINGS)
        assert len(told) == 1 and resumed["choice"] == result["choice"]
        assert Choice(chosen, seconds).told_again(2) in capsys.readouterr().err
        assert [resumed[key] for key in SAME] == [plain[key] for key in SAME]
