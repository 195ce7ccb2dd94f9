"""A node that is killed or stopped while nodes sum through shared memory: the run goes on, and has the ring's bits."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparksplit.training import checkpoints
from tests.collectives.processes import in_use, memory_of
from tests.nodes import pid_of
from tests.training.runs import MODELS, MOMENTUM, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def straight(zygote, digits, tmp_path_factory):
    from tests.forked import nodes_of

    with nodes_of(zygote):
        return run(
            digits, tmp_path_factory.mktemp("ring") / "run", nodes=2, epochs=5, optimizer=MOMENTUM, collective="ring"
        )


@pytest.mark.parametrize(("number", "rank"), [(signal.SIGKILL, 0), (signal.SIGSTOP, 1)])
def test_the_run_goes_on_from_its_last_checkpoint(forked, digits, straight, tmp_path, number, rank):
    settings = {
        "nodes": 2, "epochs": 5, "transform": f"{MODELS}:slowly", "max_restarts": 1, "optimizer": MOMENTUM,
        "checkpoint": {"seconds": 0.5}, "collective": "shared",
    }  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, digits, tmp_path / "run", **settings)
        deadline = time.monotonic() + 240
        while checkpoints.latest(str(tmp_path / "run")) is None:
            assert time.monotonic() < deadline and not running.done()
            time.sleep(0.01)
        hit = pid_of(rank)
        memory = memory_of(hit)
        assert memory
        os.kill(hit, number)
        result = running.result(timeout=240)
    assert (result["restarts"], result["attempts"][0]["cause"]["rank"]) == (1, rank)
    assert result["collective"] == {"name": "shared"}
    for name in ("weights", "metrics", "ledger"):
        assert result[name] == straight[name]
    assert not in_use(memory)
