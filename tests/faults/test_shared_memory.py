"""A node that is killed or stopped while nodes sum through shared memory: the run goes on, and has the ring's bits."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparksplit.training import checkpoints
from sparksplit.training.progress_record import read_history
from tests.collectives.processes import in_use, memory_of
from tests.logs import without_times
from tests.nodes import pid_of
from tests.training.records import check_seconds
from tests.training.runs import MOMENTUM, run

pytestmark = pytest.mark.slow

EPOCHS = 10
SETTINGS = {"nodes": 2, "epochs": EPOCHS, "optimizer": MOMENTUM}

SLOWLY = """
import time
from pathlib import Path

def slowly(tensors, label, seeds):
    if not Path({go!r}).exists():
        time.sleep(0.2)
    return tensors, label
"""


def test_a_run_goes_on_from_its_last_checkpoint_each_time(forked, digits, tmp_path, capsys):
    """A node is killed; once the next nodes have written a checkpoint, one of them is stopped."""
    straight = run(digits, tmp_path / "straight", **SETTINGS, collective="ring")
    told = lines(capsys)
    assert told == [f"epoch {number}/{EPOCHS}" for number in range(1, EPOCHS + 1)]
    output, go = tmp_path / "run", tmp_path / "go"
    (tmp_path / "mine.py").write_text(SLOWLY.format(go=str(go)))
    settings = {
        **SETTINGS, "transform": f"{tmp_path}/mine.py:slowly", "max_restarts": 2, "checkpoint": {"seconds": 0.5},
        "collective": "shared",
    }  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, digits, output, **settings)

        def until(true):
            deadline = time.monotonic() + 240
            while not true():
                assert time.monotonic() < deadline and not running.done()
                time.sleep(0.1)  # to look for processes costs a tenth of that

        until(lambda: checkpoints.latest(str(output)) is not None)
        pids = {pid_of(0), pid_of(1)}
        memory = memory_of(pid_of(0))
        assert memory
        os.kill(pid_of(0), signal.SIGKILL)
        until(lambda: not {pid_of(0), pid_of(1)} & (pids | {None}))
        before = checkpoints.latest(str(output))
        until(lambda: checkpoints.latest(str(output)) != before)
        hit = pid_of(1)
        other = memory_of(hit)
        assert other and not other & memory
        os.kill(hit, signal.SIGSTOP)
        go.touch()
        result = running.result(timeout=240)
    assert (result["restarts"], result["collective"]) == (2, {"name": "shared"})
    attempts = result["attempts"]
    assert [(each["how"], each["nodes"]) for each in attempts] == [("start", 2), ("restart", 2), ("restart", 2)]
    assert [each["cause"]["rank"] for each in attempts[:2]] == [0, 1] and "cause" not in attempts[2]
    assert "SIGKILL" in attempts[0]["cause"]["what"]
    assert 0 == attempts[0]["update"] < attempts[1]["update"] < attempts[2]["update"]
    check_seconds(result, read_history(str(output)))
    assert 0 < result["seconds"]["lost"] < result["seconds"]["total"]
    for name in ("weights", "metrics", "ledger"):
        assert result[name] == straight[name]
    found = lines(capsys)
    assert found[-EPOCHS:] == told, "epochs that were told before a restart are told again with it"
    assert not in_use(memory | other)


def lines(capsys):
    """What has been said of epochs, without their values."""
    said = without_times(capsys.readouterr().err).splitlines()
    return [line.split(":")[0] for line in said if line.startswith("epoch ")]
