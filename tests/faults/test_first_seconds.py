"""A fault in the first seconds of a run, or of one that goes on: before the node has called the driver."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.training.runs import run

pytestmark = pytest.mark.slow


def test_a_node_that_is_stopped_before_it_has_called_is_started_again(
    zygote: Any, forked: None, digits: Any, tmp_path: Any
) -> None:
    """Nothing but its launcher knows of it: it was start_timeout that ended the run."""
    with zygote.befalls(0, signal.SIGSTOP):
        result = run(digits, tmp_path / "run", epochs=1, max_restarts=1)
    assert result["restarts"] == 1 and result["ledger"]["exact"]
    first = result["attempts"][0]["cause"]
    assert first["rank"] == 0 and "has been stopped for 10 s, before it had called" in first["what"]
