"""The channel that these tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparksplit.cluster import member
from sparksplit.cluster.channel.server import Channel


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Channel]:
    # Members of this process must not end it.
    monkeypatch.setattr(member, "_end_as_orphan", lambda reason: None)
    channel = Channel("127.0.0.1", nodes=2)
    yield channel
    channel.close()
