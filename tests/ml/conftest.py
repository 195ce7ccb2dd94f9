"""What the tests of Spark ML share."""

from __future__ import annotations

import pytest

from sparksplit.spark import session


@pytest.fixture
def own_session(fed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `fed`, and the session counts as the program's own, as it does for users: searches of pyspark.ml fit in
    threads, which may not use a session that a call of sparksplit has started."""
    monkeypatch.setattr(session, "_turn", session._Turn())
