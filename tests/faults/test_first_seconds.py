"""A fault in the first seconds of a run, or of one that goes on: before the node has called the driver."""

from __future__ import annotations

import re
import signal
from typing import Any

import numpy as np
import pytest

from sparksplit.base.options import Options
from sparksplit.strategies import COMPARED
from tests.training.runs import run, weights, without_end

pytestmark = pytest.mark.slow


def test_a_node_that_is_stopped_before_it_has_called_is_started_again(
    zygote: Any, forked: None, digits: Any, tmp_path: Any
) -> None:
    """Nothing but its launcher knows of it: it was start_timeout that ended the run."""
    with zygote.befalls(0, signal.SIGSTOP):
        result = run(digits, tmp_path / "run", epochs=1, max_restarts=1)
    assert result["restarts"] == 1 and result["ledger"]["exact"]
    first = result["attempts"][0]["cause"]
    assert first["rank"] == 0 and re.search(r"has been stopped for \d\d s, before it had called", first["what"])


STOPPED = ("epoch-delayed", "single")
"""Strategies whose node is stopped, not killed: it is noticed after 10 s, so not all of them. The test above stops a
node of a new run."""


@pytest.mark.parametrize("strategy", sorted(COMPARED))
def test_a_fault_before_the_first_update_of_a_run_and_of_one_that_goes_on(
    zygote: Any, forked: None, digits: Any, tmp_path: Any, strategy: str
) -> None:
    """In every strategy the run starts again, from its checkpoint where it has one, to the same weights."""
    nodes = 1 if strategy == "single" else 2
    keys = {"strategy": strategy, "nodes": nodes, "epochs": 4, "batch_size": 325, "checkpoint": {"every": "epoch"}}
    first_update = "sparksplit.training.node.loop:Loop._train"
    with zygote.befalls(0, signal.SIGKILL, before=first_update):
        new = run(digits, tmp_path / "new", **keys)
    without_end(tmp_path / "new", tmp_path / "resumed", keep=1)
    with zygote.befalls(nodes - 1, signal.SIGSTOP if strategy in STOPPED else signal.SIGKILL, before=first_update):
        resumed = run(digits, tmp_path / "resumed", Options(resume=True), **keys)
    for result in (new, resumed):
        assert result["restarts"] == 1 and result["ledger"]["exact"]
    assert [found["attempts"][-1]["update"] == 0 for found in (new, resumed)] == [True, False]
    for one, other in zip(weights(tmp_path / "resumed"), weights(tmp_path / "new"), strict=True):
        np.testing.assert_array_equal(one, other)
