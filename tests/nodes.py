"""Nodes as threads of the test's process, for what needs neither Spark nor processes; and where real ones are."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil


class Meeting:
    """A rendezvous of threads: the stand-in for the driver's `gather`."""

    def __init__(self, nodes, limit=60):
        self._values, self._barrier = {}, threading.Barrier(nodes, timeout=limit)
        self._nodes = nodes

    def gather(self, rank):
        def gather(name, value):
            self._values[name, rank] = value
            self._barrier.wait()
            values = [self._values[name, other] for other in range(self._nodes)]
            self._barrier.wait()
            return values

        return gather

    def abort(self):
        self._barrier.abort()


def in_threads(nodes, function):
    """[function(rank, gather) for each rank], all at once; the first error of any of them."""
    meeting = Meeting(nodes)

    def run(rank):
        try:
            return function(rank, meeting.gather(rank))
        except BaseException:
            meeting.abort()
            raise

    with ThreadPoolExecutor(nodes) as pool:
        futures = [pool.submit(run, rank) for rank in range(nodes)]
    errors = [future.exception() for future in futures if future.exception() is not None]
    first = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    if errors:
        raise (first or errors)[0]
    return [future.result() for future in futures]


def until(true, seconds=60):
    """Wait until it is true, which it must become in time, however busy the machine."""
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def pid_of(rank):
    """The pid of the real node that this test session started; None where there is none."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            started = process.cmdline()[-2:] == ["sparksplit.cluster.node_main", f"rank={rank}"]
            if started or process.name() == f"node-{rank}":  # the zygote's (tests/zygote.py)
                found.append(process.pid)
        except psutil.Error:
            continue  # It has ended meanwhile.
    assert len(found) < 2
    return found[0] if found else None
