"""Processes that sum, of which tests kill, stop or delay some."""

import hashlib
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

from sparksplit.collectives.virtual import Stage, VirtualCollective
from tests.collectives.summing_node import given

NODE = Path(__file__).with_name("summing_node.py")
ROOT = Path(__file__).parent.parent.parent
FOR_EVER = 1_000_000
LARGE, SMALL = 1 << 20, 1000

_GATHERED = {"ring": 1, "shared": 2, "mixed": 3, "tensorflow": 1, "auto": 3}
"""How often the nodes gather something until they have come together; with auto, where that is `mixed`."""


class Node:
    """A process, and what it has said. before: what the command begins with. settings: summing_node.main's."""

    def __init__(self, before=(), **settings):
        arguments = [*before, sys.executable, str(NODE), json.dumps(settings)]
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
                self.gathering.put(said)
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
def nodes(size, elements, sums=FOR_EVER, collective="shared", where=({},), **settings):
    """Processes that have come together; nothing is left of them or of their memory. where: by rank, what else a node
    has; taken in turn."""
    running = [
        Node(
            rank=rank,
            size=size,
            elements=elements,
            sums=sums,
            collective=collective,
            **settings,
            **where[rank % len(where)],
        )
        for rank in range(size)
    ]
    names, known = [], set()
    try:
        for _ in range(_GATHERED[collective]):
            said = [node.gathering.get(timeout=60) for node in running]
            names += [each["value"][1] for each in said if each["gather"] == "shared memory"]
            for node in running:
                node.answer([each["value"] for each in said])
        yield running
    finally:
        for node in running:
            known |= node.memory | memory_of(node.process.pid)
            node.close()
    assert not [name for name in names if name in Path("/proc/net/unix").read_text()]
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


def cpu(node):
    """Seconds of the process."""
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def virtual(size, elements, sums):
    """The digest of what virtual nodes get."""
    stage = Stage(size)
    stage.set([])

    def play(rank):
        node, digest = VirtualCollective(rank, stage), hashlib.sha256()
        for arrays in given(rank, elements, sums):
            for found in node.sum(arrays):
                digest.update(found)
        return digest.hexdigest()

    (digest,) = set(stage.play(play))
    return digest


def stopped_and_continued(running, late):
    """Stop node `late` in the middle; the others wait, asleep, say so, and go on with it to the end."""
    others = [node for node in running if node is not running[late]]
    going_on(running[late])
    running[late].process.send_signal(signal.SIGSTOP)
    running[late].wait_for(Node.stopped)
    for node in others:
        node.wait_for(lambda node: node.last("waiting") is True)
    began = [cpu(node) for node in others]
    time.sleep(2)
    assert all(cpu(node) - before < 0.2 for node, before in zip(others, began, strict=True))
    assert all(node.process.poll() is None for node in others)
    running[late].process.send_signal(signal.SIGCONT)
    assert [node.ended(60) for node in running] == [0] * len(running)
    assert {node.last("waiting") for node in others} == {False}
    assert len({node.last("digest") for node in running}) == 1
