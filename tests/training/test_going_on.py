"""What a run that fails leaves and says, without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.config import parse
from sparksplit.base.errors import InputError, NodeFailed, RunError
from sparksplit.training import run
from sparksplit.training.config import TrainConfig
from sparksplit.training.inputs import RunInputs
from sparksplit.training.run import _going_on, _Run


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


@pytest.mark.parametrize("problem", [InputError("checkpoint.json: cannot be read"), RunError("HDFS could not be used")])
def test_why_a_node_failed_is_told_where_there_is_no_restart(tmp_path, monkeypatch, problem):
    def fail(*_: object) -> None:
        raise NodeFailed("node 1 on host7 was killed (SIGKILL)", 1)

    def away(*_: object) -> None:
        raise problem

    monkeypatch.setattr(run, "threads", lambda *_: 1)
    monkeypatch.setattr(run, "checkpoint_of", away)
    monkeypatch.setattr(_Run, "_nodes", fail)
    output = Output(str(tmp_path / "run"), "hash", "train")
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 2, "strategy": "batch", "max_restarts": 1})
    expected = rf"^node 1 on host7 was killed \(SIGKILL\); it cannot be restarted: {problem}$"
    with output.claimed(), pytest.raises(NodeFailed, match=expected) as caught:
        output.begin()
        _Run(None, RunInputs(config, SimpleNamespace(paths=["d"], path="d"), {}, None), output, None, 0.0).to_end(None)
    assert caught.value.exit_status == 1 and caught.value.rank == 1
