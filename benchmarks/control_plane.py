"""What the driver has to do for a thousand nodes: beats, a rendezvous, a node that is killed, one that falls silent.

    python benchmarks/control_plane.py [--nodes 1000] [--seconds 30]

The driver's side is the product's own: a NodeCluster with its channel, in this process, as it is once the nodes have
started. The nodes and their launchers are coroutines in two other processes, with a real connection each, which send
what real ones send: a beat every 2 s with a state that changes, and their part of each rendezvous.

The last line is one JSON object: nodes; driver_cpu: seconds of CPU a second in this process while all is well (1: a
core); look_milliseconds: of a look at all nodes; gather_seconds: from the first node's call to the last one's answer,
with 200 bytes each; noticed_kill_seconds, noticed_silence_seconds: from the fault to the exception in the driver;
memory_mib: what this process has grown by.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sparksplit.base.errors import NodeFailed
from sparksplit.cluster import NodeCluster
from sparksplit.cluster.channel.limits import BEAT
from sparksplit.cluster.channel.server import Channel
from sparksplit.network.seal import MARK, NONCE, Seal, seals
from sparksplit.network.wire import LONGEST_LINE, text_of

PLAYERS = 2
START_SECONDS = 120.0


# The nodes.


class Player:
    """One node with its launcher, as the driver sees them."""

    def __init__(self, address: tuple[str, int], secret: str, rank: int) -> None:
        self._address, self._secret, self.rank = address, secret, rank
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._seals: dict[str, Seal] = {}
        self._number = self._heard = 0
        self._silent = False
        self.answered = asyncio.Event()
        self.updates = 0

    async def live(self) -> None:
        """Call the driver, and beat until told otherwise."""
        for kind in ("launcher", "node"):
            reader, self._writers[kind] = await asyncio.open_connection(*self._address, limit=LONGEST_LINE)
            challenge, answer = await reader.readexactly(NONCE), os.urandom(NONCE)
            self._seals[kind] = seals(self._secret.encode(), challenge, answer)[1]
            self._writers[kind].write(answer)
            self._send(kind, rank=self.rank, kind=kind, life=kind, pid=os.getpid(), host=f"h{self.rank}", heard=0)
            self._reading = asyncio.create_task(self._read(reader))
        await asyncio.sleep(random.uniform(0, BEAT))
        while not self._silent:
            self.updates += 20
            state = {"update": self.updates, "epoch": 3, "loss": 0.123456, "rows": 64 * self.updates}
            self._send(
                "node", beat={**state, "sync_seconds": 1.25, "steps": 10**6, "phases": 2, "done": 17}, heard=self._heard
            )
            self._send("launcher", beat={})
            await asyncio.sleep(BEAT)

    def gather(self, name: str) -> None:
        """Come to the rendezvous; `answered` is set when all have."""
        self.answered.clear()
        self._send("node", gather=name, value="x" * 200)

    def die(self) -> None:
        """As if killed: the connection ends, and the launcher says so."""
        self._silent = True
        self._writers["node"].close()
        self._send("launcher", ended=-9, output=[])

    def fall_silent(self) -> None:
        """As if stopped."""
        self._silent = True

    def _send(self, to: str, **message: Any) -> None:
        self._number += 1
        text = text_of({"id": self._number, **message})
        self._writers[to].write(self._seals[to].mark(text) + text.line)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if b'"gathered"' in line[: MARK + 20]:
                self._heard += 1
                self.answered.set()


def play(address: tuple[str, int], secret: str, ranks: range, orders: Connection) -> None:
    """Play the nodes of `ranks` and do what `orders` say, until they end."""

    async def main() -> None:
        loop, players = asyncio.get_running_loop(), [Player(address, secret, rank) for rank in ranks]
        tasks = [asyncio.create_task(player.live()) for player in players]
        while True:
            what, value = await loop.run_in_executor(None, orders.recv)
            if what == "end":
                for task in tasks:
                    task.cancel()
                return
            if what == "gather":
                for player in players:
                    player.gather(value)
                await asyncio.gather(*(player.answered.wait() for player in players))
            elif value in ranks:
                getattr(players[value - ranks.start], what)()
            orders.send(time.time())

    asyncio.run(main())


# The driver.


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the quiet time is measured")
    arguments = parser.parse_args(argv)
    found = measured(arguments.nodes, arguments.seconds)
    print(json.dumps(found))
    return 0


def measured(nodes: int, seconds: float) -> dict[str, Any]:
    """The figures of the module's description."""
    killed, memory = _with_nodes(nodes, "die", seconds)
    silent, _ = _with_nodes(nodes, "fall_silent", 0.0)
    return {
        "nodes": nodes,
        **killed["quiet"],
        "noticed_kill_seconds": killed["noticed"],
        "noticed_silence_seconds": silent["noticed"],
        "memory_mib": memory,
    }


def _with_nodes(nodes: int, fault: str, seconds: float) -> tuple[dict[str, Any], float]:
    """(figures, MiB grown) of a cluster of so many played nodes, of which one meets with `fault`. seconds: to measure
    before; 0: nothing is measured."""
    before = psutil.Process().memory_info().rss
    settings = [("spark.master", f"local-cluster[{nodes},1,1024]")]  # looked at before anything is started
    conf = SimpleNamespace(getAll=lambda: settings, get=dict(settings).get)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    cluster = NodeCluster(spark, nodes, "benchmarks:none", {})  # type: ignore[arg-type]
    cluster._channel = channel = Channel("127.0.0.1", nodes)
    context, pipes, players = multiprocessing.get_context("spawn"), [], []
    edges = [nodes * part // PLAYERS for part in range(PLAYERS + 1)]
    for low, high in pairwise(edges):
        here, there = context.Pipe()
        pipes.append(here)
        players.append(context.Process(target=play, args=(channel.address, channel.secret, range(low, high), there)))
        players[-1].start()
    try:
        end = time.monotonic() + START_SECONDS
        while any(record.node is None or not record.state for record in channel.records):
            if time.monotonic() > end:
                raise RuntimeError("the played nodes have not all called")
            time.sleep(0.1)
        failures: list[tuple[float, str]] = []
        watching = threading.Thread(target=_watch, args=(cluster, failures))
        watching.start()
        quiet = _quiet(cluster, pipes, seconds) if seconds else {}
        grown = round((psutil.Process().memory_info().rss - before) / 2**20, 1)
        began = max(_order(pipes, fault, nodes // 2))
        watching.join(60)
        if not failures or f"node {nodes // 2} on" not in failures[0][1]:
            raise RuntimeError(f"the driver has named {failures or 'nobody'}, not node {nodes // 2}")
        return {"quiet": quiet, "noticed": round(failures[0][0] - began, 2)}, grown
    finally:
        for pipe in pipes:
            pipe.send(("end", None))
        for player in players:
            player.join(20)
            player.kill()


def _watch(cluster: NodeCluster, failures: list[tuple[float, str]]) -> None:
    try:
        cluster.run()
    except NodeFailed as error:
        # It has closed the cluster by now, which nobody here takes long for.
        failures.append((time.time(), str(error)))


def _quiet(cluster: NodeCluster, pipes: Sequence[Connection], seconds: float) -> dict[str, Any]:
    time.sleep(2 * BEAT)
    cpu, began = _cpu(), time.monotonic()
    time.sleep(seconds)
    share = (_cpu() - cpu) / (time.monotonic() - began)
    begun = time.perf_counter()
    for _ in range(20):
        cluster._look()
    look = (time.perf_counter() - begun) / 20
    called = time.time()
    answered = max(_order(pipes, "gather", "measured"))
    return {
        "driver_cpu": round(share, 3),
        "look_milliseconds": round(1000 * look, 2),
        "gather_seconds": round(answered - called, 2),
    }


def _order(pipes: Sequence[Connection], what: str, value: Any) -> list[float]:
    for pipe in pipes:
        pipe.send((what, value))
    return [pipe.recv() for pipe in pipes]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
