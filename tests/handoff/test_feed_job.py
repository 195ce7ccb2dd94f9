"""The Spark job that feeds, by an invented Spark."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.handoff import job as job_module
from sparksplit.handoff.job import FeedJob


def test_what_a_feed_reads_is_not_searched_for_damage_once_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows would be read for that, while a restart waits."""
    cancelled = threading.Event()
    context = SimpleNamespace(setJobGroup=lambda *_, **keys: None, cancelJobGroup=lambda group: cancelled.set())
    frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context), select=lambda *_: None)
    schema: Any = SimpleNamespace(names=["row_id"])
    searched: list[str] = []

    def fed(*_: object) -> None:
        assert cancelled.wait(60)
        raise RuntimeError("Job 3 cancelled part of cancelled job group")

    monkeypatch.setattr(job_module, "facts_of", fed)
    monkeypatch.setattr(job_module, "bounded_batches", lambda *_: nullcontext())
    monkeypatch.setattr(job_module, "replace_stuck", lambda *_: [])
    job = FeedJob(frame, schema, 1, "", 1, [], lambda: None, damage=lambda: searched.append("all rows"))
    job.start([])
    job.close()
    assert cancelled.is_set() and not searched
