"""Runs on a real Spark standalone cluster of loopback workers, of which one is lost, with and without a spare."""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.forked import Zygote
from tests.forked import nodes_of as forked_nodes
from tests.standalone import StandaloneCluster
from tests.training.runs import largest_difference, run, weights

pytestmark = pytest.mark.slow

HELD = f"{Path(__file__).with_name('held.py')}:after_a_checkpoint"
KEYS: dict[str, Any] = {
    "strategy": "batch", "nodes": 2, "epochs": 12, "transform": HELD, "checkpoint": {"every": "epoch"},
}  # fmt: skip
SECONDS = 240
"""For a whole run, however busy the machine; an idle one needs 15 to 25."""


def start(
    cluster: StandaloneCluster, data: Path, output: Path, *more: str, held: bool = False, cores: int = 2
) -> subprocess.Popen[str]:
    """A run on two nodes that asks for so many cores. held: it stays where its first checkpoint is written."""
    values = {"data": str(data), "output": str(output), **KEYS}
    keys = [f"--set={key}={json.dumps(value)}" for key, value in values.items()]
    settings = {"spark.cores.max": str(cores), **({"spark.executorEnv.TEST_HELD": str(output)} if held else {})}
    return cluster.command("train", *keys, *more, settings=settings)


def end(run: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit status and standard error."""
    try:
        errors = run.communicate(timeout=SECONDS)[1]
    finally:
        run.kill()
    return run.returncode, errors


def await_checkpoint(run: subprocess.Popen[str], output: Path) -> None:
    give_up = time.monotonic() + SECONDS
    while not any((output / "checkpoints").glob("update-*")):
        assert run.poll() is None, end(run)
        assert time.monotonic() < give_up
        time.sleep(0.1)


def record_of(output: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((output / "run.json").read_text())
    assert found["ledger"]["exact"]
    return {**found, "folder": output}


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """run.json of a run that nothing happened to, on forked nodes."""
    output = tmp_path_factory.mktemp("undisturbed") / "run"
    with forked_nodes(zygote):
        run(digits, output, **KEYS)
    return record_of(output)


def nodes_of(cluster: StandaloneCluster) -> dict[int, psutil.Process]:
    """The node in each worker that holds one."""
    nodes = [each for each in psutil.process_iter() if "sparksplit.cluster.node_main" in words_of(each)]
    found = {}
    for node in nodes:
        with suppress(psutil.Error):  # it has just ended
            place = Path(node.cwd())
            found |= {each: node for each in range(cluster.workers) if place.is_relative_to(cluster.work(each))}
    return found


def words_of(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def await_new_nodes(
    run: subprocess.Popen[str], cluster: StandaloneCluster, before: dict[int, psutil.Process]
) -> dict[int, psutil.Process]:
    """As `nodes_of`, once there are as many that were not there before."""
    give_up = time.monotonic() + SECONDS
    while True:
        found = nodes_of(cluster)
        if len(found) == len(before) and not set(found.values()) & set(before.values()):
            return found
        assert run.poll() is None, end(run)
        assert time.monotonic() < give_up
        time.sleep(0.1)


def test_a_lost_worker_is_replaced_by_a_spare_and_without_one_the_run_ends_and_goes_on_later(
    standalone: StandaloneCluster, zygote: Zygote, undisturbed: dict[str, Any], digits: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    running = start(standalone, digits, output, "--set=queue_timeout=30", held=True)
    await_checkpoint(running, output)
    nodes = nodes_of(standalone)
    standalone.kill_worker(min(nodes))
    nodes = await_new_nodes(running, standalone, nodes)
    lost = min(nodes)
    standalone.kill_worker(lost)
    status, errors = end(running)
    assert status == 1
    last = errors.splitlines()[-1]
    where = standalone.address(lost)
    said = (
        rf"executor \d on {where} was lost \(.*\) \[http://{where}:\S+], and no new executor came within 30 s "
        r"\(queue_time"
    )
    assert re.search(said, last)
    logs = standalone.work(lost).glob("app-*/*/stderr")
    assert any(f"[executor {log.parent.name}, {log}]" in last for log in logs)
    assert "the same command goes on from it" in errors
    assert standalone.used_workers() == []
    with forked_nodes(zygote):  # later, on whatever cluster
        run(digits, output, **KEYS)
    assert record_of(output)["weights"] == undisturbed["weights"]


def test_a_job_whose_last_executor_is_lost_ends_as_a_start_without_one_does(
    standalone: StandaloneCluster, tmp_path: Path
) -> None:
    """Spark itself would wait for ever."""
    source = f"{Path(__file__).with_name('held_rows.py')}:rows"
    (raw := tmp_path / "raw").mkdir()
    keys = [f"input.format={source}", f"input.path={raw}", "input.label=label", f"output={tmp_path / 'set'}"]
    keys.append("queue_timeout=15")
    running = standalone.command("preprocess", *(f"--set={key}" for key in keys), settings={"spark.cores.max": "1"})
    give_up = time.monotonic() + SECONDS
    while not (raw / "begun").exists():
        assert running.poll() is None, end(running)
        assert time.monotonic() < give_up
        time.sleep(0.1)
    for worker in range(standalone.workers):
        standalone.kill_worker(worker)
    status, errors = end(running)
    assert status == 1
    assert re.search(r"waiting for the cluster to grant executors: 0 of 1, \d+ of 15 s \(queue_timeout\)", errors)
    said = r"executor \d+ on \S+ was lost \(.*\) \[\S+], and no new executor came within 15 s \(queue_timeout\)"
    assert re.search(said, errors.splitlines()[-1])
    assert not (tmp_path / "set").exists()


def await_attempt(run: subprocess.Popen[str], output: Path, how: str, nodes: int) -> None:
    """Wait until the last attempt is such a one."""
    give_up = time.monotonic() + SECONDS
    while True:
        last = json.loads((output / "_ATTEMPTS").read_text())["story"][-1]
        if (last["how"], last["nodes"]) == (how, nodes):
            return
        assert run.poll() is None, end(run)
        assert time.monotonic() < give_up, last
        time.sleep(0.1)


def test_it_goes_on_with_fewer_nodes_and_with_all_once_the_worker_is_back(
    standalone: StandaloneCluster, undisturbed: dict[str, Any], digits: Path, tmp_path: Path
) -> None:
    """With input_mode: spark, which needs an executor beyond the nodes', and feeds the nodes of each attempt."""
    output = tmp_path / "run"
    limits = ("--set=start_timeout=60", "--set=stall_timeout=600", "--set=checkpoint.keep=9")
    mode = ("--set=input_mode=spark", "--set=min_nodes=1")
    running = start(standalone, digits, output, *mode, *limits, held=True, cores=3)
    await_checkpoint(running, output)
    lost = min(nodes_of(standalone))
    standalone.kill_worker(lost)
    await_attempt(running, output, "restart", 1)
    standalone.start_worker(lost)
    (output / "hold").write_text(str(len(list((output / "checkpoints").glob("update-*"))) + 1))  # one more
    await_attempt(running, output, "rejoin", 2)
    (output / "go").touch()
    status, errors = end(running)
    assert status == 0, errors
    assert "1 of 2 nodes have executors after 60 s; the run goes on with them (min_nodes)" in errors
    record = record_of(output)
    told = record["attempts"]
    assert [(each["how"], each["nodes"]) for each in told] == [("start", 2), ("restart", 1), ("rejoin", 2)]
    assert 0 == told[0]["update"] < told[1]["update"] < told[2]["update"] and record["restarts"] == 1
    assert told[0]["cause"]["rank"] in (0, 1) and "lost" in told[0]["cause"]["what"]
    assert (record["nodes"], len(record["hosts"])) == (2, 2)
    assert largest_difference(weights(output), weights(undisturbed["folder"])) < 1e-4


def test_a_host_on_which_nodes_have_failed_twice_is_left_out(
    standalone: StandaloneCluster, undisturbed: dict[str, Any], digits: Path, tmp_path: Path
) -> None:
    """The node alone is killed there: its executor stays, and is as free as the other."""
    output = tmp_path / "run"
    running = start(standalone, digits, output, "--set=nodes=1", held=True)
    await_checkpoint(running, output)
    nodes, failed = nodes_of(standalone), list[int]()
    while len(failed) == len(set(failed)):
        # One of two hosts holds it: of any three attempts, two have been on the same host.
        failed += nodes
        nodes[failed[-1]].kill()
        nodes = await_new_nodes(running, standalone, nodes)
    executors = standalone.used_workers()
    (output / "go").touch()
    status, errors = end(running)
    assert status == 0, errors
    assert len(executors) == 2 and failed[-1] not in nodes
    assert f"{standalone.address(failed[-1])}: not used any more, because nodes have failed there repeatedly" in errors
    record = record_of(output)
    assert record["restarts"] == len(failed)
    assert ["SIGKILL" in each["cause"]["what"] for each in record["attempts"][:-1]] == [True] * len(failed)
    assert largest_difference(weights(output), weights(undisturbed["folder"])) < 1e-4
