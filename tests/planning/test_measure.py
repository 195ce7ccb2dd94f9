"""The measurements of a plan, on forked nodes."""

from __future__ import annotations

from functools import partial

import pytest

from sparksplit.base.config import parse
from sparksplit.planning import plan
from sparksplit.planning.measured import Measured
from sparksplit.planning.messages import PlanPayload
from sparksplit.planning.predicted import Predictor
from sparksplit.planning.workload import workload
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig


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
