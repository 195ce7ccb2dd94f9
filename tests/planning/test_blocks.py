"""The blocks of a plan, of rows that name themselves."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from sparksplit.collectives import Alone
from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.blocks import Extent
from sparksplit.diagnosis.node.runner import Runner, Variant
from sparksplit.planning import blocks
from sparksplit.planning.blocks import calibrate
from sparksplit.rows.feed import Feed
from tests.training.node.stand_ins import Rows

BATCH = 30


@pytest.fixture
def runner():
    member = SimpleNamespace(stopping=threading.Event(), leaving=threading.Event(), state=lambda **_: None)
    return Runner(member, Alone(), Effort(block=0.01))


def calibrated(runner):
    """A variant whose last mini-batch has fewer rows, and the numbers of rows that it has seen."""
    feed, seen = Feed(Rows([50, 50]), np.arange(2), batch_size=BATCH, window=2, cache=0, readers=0), set()

    def train(chunk):
        seen.update(np.diff(chunk.offsets).tolist())
        threading.Event().wait(2e-3 * chunk.updates)

    made = Variant(feed, train, 4, lambda number: number)
    calibrate(runner, made)
    feed.close()
    return made, seen


def test_no_measured_block_has_a_mini_batch_that_calibration_has_not(runner):
    made, seen = calibrated(runner)
    assert made.extent.rounds and seen == {30, 10}


def test_slow_steps_are_measured_one_by_one(runner, monkeypatch):
    monkeypatch.setattr(blocks, "SLOW", 1e-3)
    made, _ = calibrated(runner)
    assert made.extent == Extent(0, 1)
