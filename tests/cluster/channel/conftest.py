"""The channel that these tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparksplit.cluster import member
from sparksplit.cluster.channel.line import Line
from sparksplit.cluster.channel.server import Channel


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Channel]:
    # Members of this process must not end it.
    monkeypatch.setattr(member, "_end_as_orphan", lambda reason: None)
    begin, begun = Line.__init__, []

    def noted(line: Line, *arguments: Any, **keys: Any) -> None:
        begun.append(line)
        begin(line, *arguments, **keys)

    monkeypatch.setattr(Line, "__init__", noted)
    channel = Channel("127.0.0.1", nodes=2)
    yield channel
    channel.close()
    for each in begun:
        if hasattr(each, "_wire"):
            each.close()
