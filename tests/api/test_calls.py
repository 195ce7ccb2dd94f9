"""Errors of the calls in Python: in Python's words, with the user's own frames."""

from __future__ import annotations

import traceback

import pytest

from sparksplit.api.calls import api_call
from sparksplit.base.errors import ConfigError, NodeFailed, RunError, SparksplitError


def within(error: SparksplitError) -> None:
    raise error from ValueError("of the user's own code")


@pytest.mark.parametrize(
    ("error", "frames"),
    [
        (ConfigError("out: exists; --overwrite replaces it"), 2),
        (NodeFailed("node 0: gone", 0), 2),
        (RunError("own"), 3),
    ],
)
def test_errors_name_arguments_and_have_no_frames_within(error: SparksplitError, frames: int) -> None:
    with pytest.raises(type(error)) as caught:
        api_call(within)(error)
    assert caught.value is error and isinstance(error.__cause__, ValueError)
    assert str(error) in ("out: exists; overwrite=True replaces it", "node 0: gone", "own")
    assert len(traceback.extract_tb(error.__traceback__)) == frames
