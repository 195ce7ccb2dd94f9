"""No line to a driver outlives its test: it would call the driver again, in threads that later tests see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparksplit.cluster.channel.line import Line


@pytest.fixture(autouse=True)
def no_line_is_left() -> Iterator[None]:
    begin, begun = Line.__init__, []

    def noted(line: Line, *arguments: Any, **keys: Any) -> None:
        begun.append(line)
        begin(line, *arguments, **keys)

    # Not the fixture `monkeypatch`: what a test changes with it would last until after the test's own fixtures.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Line, "__init__", noted)
        yield
    for each in begun:
        if hasattr(each, "_wire"):
            each.close()
