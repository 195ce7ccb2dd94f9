"""What a run that fails leaves and says, without Spark."""

from __future__ import annotations

import pytest

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.errors import InputError, RunError
from training.run import _going_on


@pytest.mark.parametrize("error", [InputError("the model's"), RunError("a node's"), KeyboardInterrupt()])
def test_the_first_error_is_raised_where_the_output_cannot_be_looked_at(tmp_path, monkeypatch, error):
    def away(path: str) -> None:
        raise RunError(f"{path}: HDFS could not be used for 120 s")

    output = Output(str(tmp_path / "run"), "hash", "train")
    with pytest.raises(type(error)) as caught, output.claimed(), _going_on(output):
        output.begin()
        monkeypatch.setattr(filesystem, "listing", away)
        raise error
    assert caught.value is error


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_mistake_before_the_first_checkpoint_removes_what_is_ones_own(tmp_path, taken_over):
    output, successor = (Output(str(tmp_path / "run"), "hash", "train") for _ in range(2))
    with pytest.raises(InputError), output.claimed(), _going_on(output):
        output.begin()
        if taken_over:
            successor.lease._write()
        raise InputError("the model's")
    assert (tmp_path / "run").exists() == taken_over
