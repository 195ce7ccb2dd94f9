"""Reading is measured with rows that no page cache holds."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.diagnosis.node import rig as rigs
from sparksplit.planning.deadline import Deadline
from sparksplit.planning.steps import Steps
from sparksplit.rows.feed import Feed
from sparksplit.rows.samples import Sample, Unread
from tests.training.node.stand_ins import Rows


@dataclass
class Made:
    feed: Any
    steps: int


@pytest.fixture
def rig(monkeypatch):
    """A rig of a sample of one block of four rows, of three. Its feeds are (source, cache_mb)."""
    made = object.__new__(rigs.Rig)
    rows, config = Rows([12, 5, 12]), SimpleNamespace(batch_size=2, model_copy=lambda update: update)
    made._rows, made._lanes, made._blocks, made.config = rows, [0, 2], 1, config
    made.sample = Sample(rows, [0, 2], 1)
    made.process = made.member = made.collective = made.sync = made.strategy = SimpleNamespace(split=None)
    made._open, made.feeds = [], []

    class Feeds:
        def __init__(self, process, member, collective, changed):
            self._cache_mb = changed["cache_mb"]

        def training(self, source, *_):
            made.feeds.append((source, self._cache_mb))
            return object.__new__(Feed)

    monkeypatch.setattr(rigs, "Feeds", Feeds)
    monkeypatch.setattr(rigs.Rig, "_batch_size", 2)
    monkeypatch.setattr(made, "end", lambda rows: None)
    monkeypatch.setattr(made, "variant", lambda feed, train, resets: Made(feed, 99))
    made.trained = lambda chunk: None
    return made


def test_reading_is_measured_with_rows_that_nothing_has_read(rig):
    """Was: with the sample's rows, which the page cache has since the sample was taken."""
    measured = []
    block = SimpleNamespace(rows=4, steps=2, seconds=1.0, per_row=0.25)
    runner = SimpleNamespace(calibrate=lambda made: None, measure=lambda made: measured.append(made) or block)
    steps = object.__new__(Steps)
    steps._rig, steps._runner, steps._deadline = rig, runner, Deadline(1.0, lambda: 0.0)
    steps._payload = SimpleNamespace(rounds=2)
    per_row, both = steps.reading()
    assert (per_row, both.rows, both.seconds) == ([0.25, 0.25], 2.0, [0.5, 0.5])
    assert len(measured) == 4 and {each.steps for each in measured} == {4}
    # None of these rows stays in memory, and the second feed goes on where the first one ends.
    assert len(rig.feeds) == 2 and all(isinstance(source, Unread) and not cache for source, cache in rig.feeds)
    assert rig.feeds[0][0] is rig.feeds[1][0]


def test_rows_of_a_given_sample_stay_in_memory(rig):
    rig.feed(source=rig.sample, batch_size=2)
    rig.feed(batch_size=2)
    assert [cache > 0 for _, cache in rig.feeds] == [True, False]
