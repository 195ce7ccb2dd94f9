"""The measurements of a plan, on forked nodes."""

from __future__ import annotations

import subprocess
import sys
import weakref
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from sparksplit.base.config import parse
from sparksplit.diagnosis.node import rig as rigs
from sparksplit.planning import measuring, plan
from sparksplit.planning.measured import Measured
from sparksplit.planning.messages import PlanPayload
from sparksplit.planning.predicted import Predictor
from sparksplit.planning.workload import workload
from sparksplit.rows.samples import Sample
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig


def test_what_only_measuring_imports_is_imported_when_the_node_is_ready():
    """So that its memory can be told from that of `train`. Was: SciPy and others counted as memory of a run."""
    code = "import sys, sparksplit.planning.node; sys.exit('scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_memory_is_without_the_sample_and_what_measuring_imports(monkeypatch):
    """Was: without the copies of weights and optimizer. The first node of a run has as much for its checkpoints."""
    monkeypatch.setattr(measuring, "most_memory", lambda: 1000)
    step = SimpleNamespace(variables=lambda: [SimpleNamespace(numpy=lambda: np.zeros(10, np.uint8))])
    assert measuring._memory(SimpleNamespace(in_memory=SimpleNamespace(own_bytes=200), step=step), 30) == 770
    assert measuring._memory(SimpleNamespace(in_memory=None, step=step), 30) == 970


def test_a_sample_is_given_up_before_another_one_is_read(monkeypatch):
    """Was: the memory of both counted as a node's, and only one was subtracted."""
    rig, alive = object.__new__(rigs.Rig), []
    rig._rows = SimpleNamespace(lane_rows=[8], block_rows=8, tensors=[], label=None, reader=None, place_of=None)
    rig._rows.at_hand = lambda: None
    rig._lanes, rig._blocks, rig.kept, rig.in_memory = [0], 1, True, None
    rig._runner, rig.sample = SimpleNamespace(most=float), Sample(rig._rows, [0], 1)

    def read(feed):
        alive.append([each() is not None for each in seen])
        feed.at_hand = lambda lane: None
        seen.append(weakref.ref(feed.at_hand))

    seen: list[weakref.ref] = []
    monkeypatch.setattr(rigs, "_first", read)
    monkeypatch.setattr(rig, "feed", lambda source: SimpleNamespace())
    monkeypatch.setattr(rig, "end", lambda rows: None)
    rig._read()
    rig._read()
    assert alive == [[], [False]] and rig.sample.at_hand() is not None


@pytest.mark.slow
@pytest.mark.parametrize("cache_mb", [512, 0])
def test_every_part_of_a_run_is_measured(forked, digits, tmp_path, monkeypatch, cache_mb):
    monkeypatch.setattr(plan, "PlanPayload", partial(PlanPayload, rounds=2, block=0.02, seconds=60.0))
    keys = {"data": str(digits), "output": str(tmp_path / "run"), "nodes": 2, "strategy": "batch", "epochs": 2}
    config = parse(TrainConfig, {**keys, "collective": "ring", "cache_mb": cache_mb})
    found = plan.measure(config, [64, 32, 8])
    assert Measured.from_json(found.to_json(), "this") == found
    for times, sizes in ((found.alone, (64, 32, 8)), (found.varying, (64, 32)), (found.beside, (64, 32, 8))):
        # A round's last step has fewer rows. A slow machine takes a small sample, with few steps in a round.
        assert all(size / 2 < each.rows <= size for each, size in zip(times, sizes, strict=True))
    assert found.sweep and list(tmp_path.iterdir()) == []
    sent = {kind: exchanged.sent for kind, exchanged in found.exchanges.items()}
    assert all(abs(sent[kind] / sent["gradients"] - 1) < 0.05 for kind in sent)  # no large embeddings
    assert (found.first_reading is not None) == (cache_mb > 0) == (found.reading is None)
    if found.first_reading is None:
        assert found.reading_steps is not None and 32 < found.reading_steps.rows <= 64
    else:
        assert 0 <= found.begin_reading <= found.first_reading
    assert found.begin_pass > 0
    work = workload(config, STRATEGIES["batch"], [14] * 96)
    assert Predictor(found).predicted(work, cache_mb << 20).seconds.mean > 0
