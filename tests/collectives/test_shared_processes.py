"""Shared memory between processes, of which some are killed, stopped, or late in the middle of a sum."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.collectives.test_ring import rings, sums
from tests.nodes import in_threads

NODE = Path(__file__).with_name("shared_node.py")
ROOT = Path(__file__).parent.parent.parent
FOR_EVER = 1_000_000
LARGE, SMALL = 1 << 20, 1000


class Node:
    """A process, and what it has said."""

    def __init__(self, rank, size, elements, sums):
        arguments = [sys.executable, str(NODE), *map(str, (rank, size, elements, sums))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(arguments, **pipes, env={**os.environ, "PYTHONPATH": str(ROOT)})
        self.said = []
        self.memory = set()
        self.gathering = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "gather" in said:
                self.gathering.put(said["value"])
            else:
                self.said.append(said)

    def answer(self, values):
        self.process.stdin.write(json.dumps(values) + "\n")
        self.process.stdin.flush()

    def last(self, name):
        return next((said[name] for said in reversed(self.said) if name in said), None)

    def wait_for(self, true, seconds=30):
        deadline = time.monotonic() + seconds
        while not true(self):
            assert time.monotonic() < deadline, self.said[-3:]
            time.sleep(0.01)

    def ended(self, seconds=30):
        status = self.process.wait(seconds)
        self._reader.join()
        return status

    def stopped(self):
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def nodes(size, elements, sums=FOR_EVER):
    """Processes that have come together; nothing is left of them or of their memory."""
    running = [Node(rank, size, elements, sums) for rank in range(size)]
    names, known = [], set()
    try:
        for _ in range(2):
            values = [node.gathering.get(timeout=60) for node in running]
            names += [value[1] for value in values if isinstance(value, list)]
            for node in running:
                node.answer(values)
        yield running
    finally:
        for node in running:
            known |= node.memory | memory_of(node.process.pid)
            node.close()
    assert names and not [name for name in names if name in Path("/proc/net/unix").read_text()]
    assert not in_use(known)


def memory_of(pid):
    """The numbers of the shared memory that a process maps."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()  # it has ended, or is another user's
    return {line.split()[4] for line in lines if "memfd:sparksplit" in line}


def in_use(memory):
    """Which of these some process maps, and what of ours lies in /dev/shm."""
    processes = [process.name for process in Path("/proc").glob("[0-9]*")]
    files = {str(file) for file in Path("/dev/shm").iterdir() if "sparksplit" in file.name}
    return {number for process in processes for number in memory_of(process) & memory} | files


def going_on(node):
    before = node.last("sums") or 0
    node.wait_for(lambda node: (node.last("sums") or 0) >= before + 3)
    node.memory = memory_of(node.process.pid)
    assert len(node.memory) == 2  # for what passes between nodes, and for results


@pytest.mark.parametrize(("size", "elements"), [(2, LARGE + 17), (3, LARGE + 1), (5, SMALL)])
def test_processes_get_the_bits_of_a_ring(size, elements):
    import hashlib

    with nodes(size, elements, sums=4) as running:
        assert [node.ended() for node in running] == [0] * size
        digests = {node.last("digest") for node in running}
    generators = [np.random.default_rng(rank) for rank in range(size)]
    calls = [
        [[generator.standard_normal(elements).astype(np.float32), np.array(count)] for count in range(4)]
        for generator in generators
    ]
    formed = rings(size)
    found = in_threads(size, lambda rank, _: sums(formed[rank], *calls[rank]))
    for ring in formed:
        ring.close()
    expected = hashlib.sha256()
    for array in [array for results in found[0] for array in results]:
        expected.update(array)
    assert digests == {expected.hexdigest()}


@pytest.mark.parametrize("elements", [SMALL, LARGE])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_node_killed_in_the_middle_is_noticed_at_once_by_name(rank, elements):
    with nodes(3, elements) as running:
        going_on(running[rank])
        running[rank].process.kill()
        others = [node for node in running if node is not running[rank]]
        assert [node.ended(10) for node in others] == [3, 3]
        assert f"node {rank} closed its connection" in [node.last("lost") for node in others]


def test_all_killed_at_once_leave_nothing():
    with nodes(3, LARGE) as running:
        going_on(running[0])
        for node in running:
            node.process.kill()
        assert [node.ended() for node in running] == [-signal.SIGKILL] * 3


@pytest.mark.parametrize("elements", [SMALL, LARGE])
def test_a_stopped_node_is_waited_for_asleep_and_goes_on(elements):
    """For as long as the driver lets it be, which is told that the others wait."""
    with nodes(2, elements, sums=2000 if elements == SMALL else 100) as running:
        going_on(running[1])
        running[1].process.send_signal(signal.SIGSTOP)
        running[1].wait_for(Node.stopped)
        running[0].wait_for(lambda node: node.last("waiting") is True)
        began = cpu(running[0])
        time.sleep(2)
        assert cpu(running[0]) - began < 0.2
        assert running[0].process.poll() is None
        running[1].process.send_signal(signal.SIGCONT)
        assert [node.ended() for node in running] == [0, 0]
        assert running[0].last("waiting") is False
        assert running[0].last("digest") == running[1].last("digest")


def test_a_stopped_node_that_is_ended_is_noticed():
    with nodes(2, LARGE) as running:
        going_on(running[0])
        running[0].process.send_signal(signal.SIGSTOP)
        running[1].wait_for(lambda node: node.last("waiting") is True)
        running[0].process.kill()
        assert running[1].ended(10) == 3
        assert running[1].last("lost") == "node 0 closed its connection"


def cpu(node):
    """Seconds of the process."""
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
