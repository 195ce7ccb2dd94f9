"""What a sum over two processes of this machine costs, against copying the same bytes once.

    python benchmarks/allreduce.py [--rounds 3] [--only shared ring grpc mpi]

    shared    collective: shared, memory that both share
    ring      collective: ring, TCP over loopback
    grpc      TensorFlow's own, as collective: tensorflow uses them on CPUs, within a tf.function
    mpi       MPI_Allreduce of MPICH with mpi4py, both from PyPI, in an environment of its own (build/mpi-venv)

Each sums one array of 400,000, 1,700,000 and 100,000,000 bytes of float32: the gradients of the MLP and of the CNN of
overhead.py, and what a larger model has. Each process has a core of its own, and both wait for each other before each
sum, so that none counts the other's being late. hot: the same array again and again. cold: both have changed 64 MB of
something else before each. memcpy: one process copies an array of that size, between sums, while the other one does
nothing.

The last line is one JSON object: medians in milliseconds by caches, bytes and contender, and share_of_memcpy, memcpy's
milliseconds over those of `shared`. spread: of `shared`, the largest less the smallest round over the median, percent.
load: how many processes wanted a core when it began; figures of a busy machine mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import venv
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
ROOT = HERE.parent.parent
SIZES = (400_000, 1_700_000, 100_000_000)
CACHES = ("hot", "cold")
CONTENDERS = ("shared", "ring", "grpc", "mpi")
MPI = ("mpi4py==4.1.2", "mpich==5.0.2", "numpy")
SECRET = b"allreduce"
TIME_LIMIT = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table and the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=200, help="sums of a round; a twentieth for the largest size")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="bytes")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--mpi-venv", type=Path, default=ROOT / "build" / "mpi-venv", help="is made where missing")
    parser.add_argument("--node", nargs=2, metavar=("CONTENDER", "RANK"), help="be one of the two processes")
    arguments = parser.parse_args(argv)
    if arguments.node:
        node(arguments.node[0], int(arguments.node[1]), arguments.sizes, arguments.repeats)
        return 0
    load, lacking = os.getloadavg()[0], None
    contenders = list(arguments.only)
    if "mpi" in contenders:
        lacking = mpi_lacks(arguments.mpi_venv)
        if lacking:
            contenders.remove("mpi")
            print(f"no MPI: {lacking}", file=sys.stderr)
    rounds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for number in range(arguments.rounds):
        for name in contenders:
            options = ["--repeats", str(arguments.repeats), "--sizes", *map(str, arguments.sizes)]
            found = mpi(arguments.mpi_venv, options) if name == "mpi" else pair(name, options)
            for (caches, size), (own, copy) in found.items():
                rounds[caches, size, name].append(own)
                if name == "shared":
                    rounds[caches, size, "memcpy"].append(copy)
                line = f"{number + 1}/{arguments.rounds} {caches} {int(size):,} bytes, {name}: {own:.3f} ms"
                print(f"{line}, memcpy {copy:.3f} ms", file=sys.stderr)
    report(rounds, {"load": round(load, 2), "cores": os.cpu_count(), "mpi": lacking or ", ".join(MPI[:2])})
    return 0


def report(rounds: dict[tuple[str, str, str], list[float]], around: dict[str, Any]) -> None:
    """Print the JSON line."""
    found: dict[str, Any] = {
        name: {caches: {} for caches in CACHES} for name in ("milliseconds", "share_of_memcpy", "spread")
    }
    for (caches, size, name), values in rounds.items():
        found["milliseconds"][caches].setdefault(size, {})[name] = round(statistics.median(values), 4)
    for caches, by_size in found["milliseconds"].items():
        for size, by_name in by_size.items():
            if "shared" in by_name:
                values = rounds[caches, size, "shared"]
                found["share_of_memcpy"][caches][size] = round(by_name["memcpy"] / by_name["shared"], 3)
                found["spread"][caches][size] = round(100 * (max(values) - min(values)) / statistics.median(values))
    versions = {name: version(name) for name in ("numpy", "tensorflow")}
    print(json.dumps({**found, **around, "versions": versions}))


# The two processes.


def pair(name: str, options: Sequence[str]) -> dict[tuple[str, str], tuple[float, float]]:
    """(caches, bytes) to the milliseconds of (a sum, memcpy), as node 0 of two has measured them."""
    command = [sys.executable, str(HERE), *options, "--node", name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    nodes = [subprocess.Popen([*command, str(rank)], env=environment, **pipes) for rank in range(2)]  # type: ignore[call-overload]
    try:
        while True:
            said = [json.loads(node.stdout.readline() or "null") for node in nodes]
            if None in said:
                raise SystemExit(f"allreduce.py: a process of {name} failed")
            if "result" in said[0]:
                return _parsed(said[0]["result"])
            for node in nodes:
                print(json.dumps([one["gather"] for one in said]), file=node.stdin, flush=True)
    finally:
        for node in nodes:
            try:
                node.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                node.kill()
                node.communicate()


def mpi(environment: Path, options: Sequence[str]) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the seconds of nodes that mpiexec starts."""
    program = [str(environment / "bin" / "python"), str(HERE), *options, "--node", "mpi", "0"]
    command = [str(environment / "bin" / "mpiexec"), "-n", "2", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=True)
    return _parsed(json.loads(done.stdout.splitlines()[-1])["result"])


def mpi_lacks(environment: Path) -> str | None:
    """Why there is no MPI; None if there is."""
    try:
        if not (environment / "bin" / "mpiexec").exists():
            venv.create(environment, with_pip=True)
            pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", *MPI]
            subprocess.run(pip, check=True, capture_output=True, text=True)
        probe = [str(environment / "bin" / "python"), "-c", "from mpi4py import MPI"]
        subprocess.run(probe, check=True, capture_output=True, text=True, timeout=60)
    except subprocess.CalledProcessError as error:
        return str((error.stderr.strip().splitlines() or [str(error)])[-1])
    return None


def _parsed(result: dict[str, list[float]]) -> dict[tuple[str, str], tuple[float, float]]:
    return {(key.split()[0], key.split()[1]): (values[0], values[1]) for key, values in result.items()}


def node(name: str, rank: int, sizes: Sequence[int], repeats: int) -> None:
    """One of the two processes: rank 0 prints its medians as a line of JSON."""
    rank, prepare, meet, close = MAKERS[name](rank)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    other = np.zeros(64 << 20, np.uint8)
    result = {}
    for size in sizes:
        array = np.random.default_rng(rank).random(size // 4, np.float32)
        copied = array.copy()
        add = prepare(array)
        for caches in CACHES:
            sums, copies = [], []
            for _ in range(3 + (repeats if size < 10_000_000 else max(1, repeats // 20))):
                if caches == "cold":
                    other += 1
                meet()
                began = time.perf_counter()
                add()
                sums.append(time.perf_counter() - began)
                if caches == "cold":
                    other += 1
                meet()
                if rank == 0:
                    began = time.perf_counter()
                    np.copyto(copied, array)
                    copies.append(time.perf_counter() - began)
            result[f"{caches} {size}"] = [1e3 * statistics.median(sums[3:]), 1e3 * statistics.median(copies[3:] or [0])]
    close()
    if name != "mpi" or rank == 0:
        print(json.dumps({"result": result}), flush=True)


# The contenders: (rank, what makes the sum of an array, what waits for the other process, what ends it).

Made = tuple[int, Callable[[Any], Callable[[], object]], Callable[[], object], Callable[[], object]]


def ours(rank: int, join: Callable[..., Any]) -> Made:
    """A collective of this project."""
    collective = join(rank)
    one = np.ones(1, np.float32)
    return rank, lambda array: lambda: collective.sum([array]), lambda: collective.sum([one]), collective.close


def shared(rank: int) -> Made:
    from sparksplit.collectives.shared import Shared

    return ours(rank, lambda rank: Shared.connect(rank, 2, SECRET, gather))


def ring(rank: int) -> Made:
    from sparksplit.collectives.ring import Ring

    return ours(rank, lambda rank: Ring.connect(rank, 2, "127.0.0.1", SECRET, gather))


def grpc(rank: int) -> Made:
    with socket.create_server(("127.0.0.1", 0)) as server:
        servers = [f"127.0.0.1:{port}" for port in gather("ports", server.getsockname()[1])]
    import tensorflow as tf

    from sparksplit.collectives.tensorflow import TensorFlowCollective

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    task = {"type": "chief" if rank == 0 else "worker", "index": 0}
    cluster = {"chief": servers[:1], "worker": servers[1:]}
    collective = TensorFlowCollective(rank, 2, {"cluster": cluster, "task": task})
    one = np.ones(1, np.float32)

    def prepare(array: Any) -> Callable[[], object]:
        tensor = tf.constant(array)
        function = tf.function(lambda value: collective.sum_tensors([value]), autograph=False)

        def add() -> object:
            return function(tensor)[0].numpy()

        return add

    return rank, prepare, lambda: collective.sum([one]), collective.close


def under_mpi(rank: int) -> Made:
    from mpi4py import MPI as mpi4py  # type: ignore[import-not-found]  # noqa: N811

    world = mpi4py.COMM_WORLD

    def prepare(array: Any) -> Callable[[], object]:
        total = np.empty_like(array)
        return lambda: world.Allreduce(array, total)

    return world.Get_rank(), prepare, world.Barrier, lambda: None


def gather(name: str, value: Any) -> list[Any]:
    """Every process's value, by rank, through the one that has started them."""
    print(json.dumps({"gather": value}), flush=True)
    values: list[Any] = json.loads(sys.stdin.readline())
    return values


MAKERS = {"shared": shared, "ring": ring, "grpc": grpc, "mpi": under_mpi}


if __name__ == "__main__":
    sys.exit(main())
