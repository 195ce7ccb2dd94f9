"""What sparksplit's training costs beyond the arithmetic: rows/s against what a user would run instead.

    python benchmarks/overhead.py [--quick] [--only single loop batch2 ceiling local2]

Trains the MLP 784-128-10 (B = 128) and the CNN 20-50-512-10 (B = 64) with SGD on MNIST (SPARKSPLIT_DATA), or on
generated rows of its shape, with each of these, in turn:

    single      sparksplit train, strategy: single                                               one core
    loop        a bare tf.function loop, data in memory, the node's determinism and threads       one core
    fit1        Keras fit, data in memory                                                         one core
    batch2      sparksplit train, strategy: batch, two nodes that share memory                    two cores
    local2      sparksplit train, strategy: local, two nodes that agree every 32 steps            two cores
    ceiling     two such loops at once with B/2 rows a step, which exchange nothing               a core each
    fit2        Keras fit, data in memory                                                         two cores
    mwms        tf_keras fit under MultiWorkerMirroredStrategy in TensorFlowOnSpark, TFRecords    two cores

"One core" means the same core for the whole program: for `single` that is everything that the command starts, Spark's
JVMs, the heartbeats and the reading of Parquet included, so it gets no help that the loop has not. Each measurement is
a new process (a new Spark application) and lasts about five seconds. Start-up and warm-up are left out: of sparksplit's
the first epoch, of every other some dozens of steps. sparksplit and the two `fit`s shuffle their rows, the loops do
not; sparksplit computes the training accuracy too, the others the loss only.

That is a round. There are three at least, and more until the spread of each ratio is under 10 %, but for what the time
limit of 15 minutes leaves out (of the whole list two rounds; what says most is the short one above). A round's ratios
are of rates that were measured within minutes of each other; reported is their median. Their spread is how far their
middle half reaches, in percent of the median.

At its start it says whether other work keeps the machine busy.

The last line is one JSON object: the ratios, `spread` in percent by ratio, `wide` (the ratios whose spread is 10 % or
more, or unknown), the medians in rows/s by model and contender, all measurements, and `busy`, the share of all cores
that others used before each round.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from benchmarks.helpers import busy, told_busy  # noqa: E402
from benchmarks.overhead_report import goes_on, ratios_of, report  # noqa: E402

TF_KERAS = "2.21.0"
"""tf_keras follows TensorFlow's version numbers."""
TIME_LIMIT = 600.0


@dataclass(frozen=True)
class Workload:
    """A model with its data. rows: of the data set. epochs: of sparksplit, the first is warm-up. steps: of mwms."""

    name: str
    batch: int
    rows: int
    epochs: int
    steps: int


WORKLOADS = (Workload("mlp", 128, 60_000, 30, 800), Workload("cnn", 64, 19_200, 4, 300))


@dataclass(frozen=True)
class Bench:
    """Where and how to measure. work: a temporary folder. cores: the two that everything runs on."""

    work: Path
    seconds: float
    cores: tuple[int, int]

    def folder(self, workload: Workload) -> Path:
        """The workload's data, one form for every contender."""
        return self.work / workload.name


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="check that everything runs; the figures mean nothing")
    parser.add_argument("--repeats", type=int, default=3, help="rounds at least; more until the spread is under 10 %%")
    parser.add_argument("--minutes", type=float, default=15.0, help="no round begins that would not end within these")
    parser.add_argument("--only", nargs="+", choices=sorted(CONTENDERS), help="contenders (default: all)")
    parser.add_argument("--models", nargs="+", choices=[workload.name for workload in WORKLOADS])
    parser.add_argument("--mwms-venv", type=Path, default=ROOT / "build" / "mwms-venv", help="is made where missing")
    arguments = parser.parse_args(argv)
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        print("overhead.py: needs two cores", file=sys.stderr)
        return 2
    workloads = [work for work in WORKLOADS if not arguments.models or work.name in arguments.models]
    seconds, repeats, limit = 5.0, arguments.repeats, 60 * arguments.minutes
    if arguments.quick:
        workloads = [replace(work, rows=20 * work.batch, epochs=2, steps=20) for work in workloads]
        seconds, repeats, limit = 0.2, 1, 0.0
    names = [name for name in CONTENDERS if not arguments.only or name in arguments.only]
    found: dict[str, dict[str, list[float]]] = {workload.name: defaultdict(list) for workload in workloads}
    began, shares = time.monotonic(), [busy()]
    told_busy(shares)
    with tempfile.TemporaryDirectory(prefix="overhead-") as work:
        bench = Bench(Path(work), seconds, (available[0], available[1]))
        python = mwms_python(arguments.mwms_venv) if "mwms" in names else None
        for workload in workloads:
            write_data(bench, workload, python)
        taken: list[float] = []
        while goes_on(ratios_of(found), repeats, taken, limit - (time.monotonic() - began)):
            if taken:
                shares.append(busy())
            round_began = time.monotonic()
            for workload in workloads:
                for name in names:
                    rate = CONTENDERS[name](bench, workload) if name != "mwms" else mwms(bench, workload, str(python))
                    found[workload.name][name].append(rate)
                    print(f"{workload.name} round {len(taken) + 1} {name}: {rate:,.0f} rows/s", file=sys.stderr)
            taken.append(time.monotonic() - round_began)
    report(found, shares, {name: function.__doc__ or "" for name, function in CONTENDERS.items()})
    return 0


# The contenders: each trains once and gives rows/s.


def single(bench: Bench, workload: Workload) -> float:
    """sparksplit on one node, pinned to one core with everything that it starts."""
    return _sparksplit(bench, workload, {"strategy": "single", "nodes": 1}, bench.cores[:1])


def batch2(bench: Bench, workload: Workload) -> float:
    """sparksplit on two nodes that share every mini-batch."""
    return _sparksplit(bench, workload, {"strategy": "batch", "nodes": 2, "collective": "shared"}, bench.cores)


def local2(bench: Bench, workload: Workload) -> float:
    """sparksplit on two nodes with mini-batches of their own, of half the size; they agree every 32 steps."""
    keys = {"strategy": "local", "nodes": 2, "collective": "shared", "sync": {"every": 32}}
    return _sparksplit(bench, workload, keys, bench.cores)


def loop(bench: Bench, workload: Workload) -> float:
    """The bare loop on one core."""
    return _peers("loop", bench, workload, workload.batch, [bench.cores[:1]])


def fit1(bench: Bench, workload: Workload) -> float:
    """Keras fit on one core."""
    return _peers("fit", bench, workload, workload.batch, [bench.cores[:1]])


def fit2(bench: Bench, workload: Workload) -> float:
    """Keras fit on both cores."""
    return _peers("fit", bench, workload, workload.batch, [bench.cores])


def ceiling(bench: Bench, workload: Workload) -> float:
    """Two bare loops at once, each with half of the mini-batch's rows."""
    return _peers("loop", bench, workload, workload.batch // 2, [(core,) for core in bench.cores])


def mwms(bench: Bench, workload: Workload, python: str = sys.executable) -> float:
    """tf_keras under MultiWorkerMirroredStrategy in TensorFlowOnSpark; `python` is of its own environment."""
    script = [python, str(HERE / "mwms_fit.py"), "fit", str(bench.folder(workload))]
    options = ["--model", workload.name, "--batch", str(workload.batch), "--steps", str(workload.steps)]
    return _rate(_run([*script, *options], [bench.cores])[0])


CONTENDERS: dict[str, Callable[[Bench, Workload], float]] = {
    function.__name__: function for function in (single, loop, fit1, batch2, local2, ceiling, fit2, mwms)
}


def _sparksplit(bench: Bench, workload: Workload, keys: dict[str, Any], cores: Sequence[int]) -> float:
    """Run the command as a user would; rows/s of the epochs after the first, as the run's folder tells."""
    with tempfile.TemporaryDirectory(dir=bench.work) as folder:
        output = Path(folder) / "run"
        config = {
            "data": str(bench.folder(workload) / "prepared"),
            "output": str(output),
            "model": {"build": workload.name},
            "optimizer": {"name": "sgd", "learning_rate": 0.1},
            "batch_size": workload.batch,
            "epochs": workload.epochs,
            # None before the end: no peer writes any.
            "checkpoint": {"seconds": None},
            **keys,
        }
        file = Path(folder) / "train.yaml"
        file.write_text(json.dumps(config))
        _run([sys.executable, "-m", "sparksplit.commands.cli", "train", "--config", str(file)], [cores])
        run = json.loads((output / "run.json").read_text())
        if not run["ledger"]["exact"]:
            raise RuntimeError(f"the ledger is not exact: {run['ledger']}")
        epochs = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()][1:]
    # Nor does a peer tell what it has done.
    beside = ("records", "checkpoint")
    seconds = [epoch["seconds"]["total"] - sum(epoch["seconds"][name] for name in beside) for epoch in epochs]
    return float(sum(epoch["rows"] for epoch in epochs) / sum(seconds))


def _peers(kind: str, bench: Bench, workload: Workload, batch: int, groups: Sequence[Sequence[int]]) -> float:
    """Rows/s of one process of benchmarks/peers.py per group of cores, all training at the same time."""
    command = [sys.executable, str(HERE / "peers.py"), kind, str(bench.folder(workload)), "--model", workload.name]
    outputs = _run([*command, "--batch", str(batch), "--seconds", str(bench.seconds)], groups, signal=True)
    return sum(_rate(output) for output in outputs)


# Processes.


@contextmanager
def _cores(cores: Sequence[int]) -> Iterator[None]:
    """Let what is started inside, and what that starts, use only these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cores))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class _Program:
    """A program that has been started, and can fail with what it wrote on stderr."""

    def __init__(self, command: list[str]) -> None:
        path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
        environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        # A file, not a pipe: nobody reads it while the program runs.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, env=environment
        )

    def await_line(self) -> None:
        """Wait until it has printed a line, or ended."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def say_go(self) -> None:
        """Give it a line to read."""
        assert self._process.stdin is not None
        # One that has ended is told so by `output`.
        with suppress(BrokenPipeError):
            self._process.stdin.write("go\n")
            self._process.stdin.flush()

    def output(self) -> str:
        """What it printed, once it has ended. RuntimeError where it failed."""
        printed, _ = self._process.communicate(timeout=TIME_LIMIT)
        if self._process.returncode:
            self._errors.seek(0)
            said = self._errors.read()[-3000:]
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.returncode}:\n{said}")
        return printed

    def end(self) -> None:
        """Stop it where it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._errors.close()


def _run(command: list[str], groups: Sequence[Sequence[int]], signal: bool = False) -> list[str]:
    """What `command` printed: started once per group of cores, at once; none is left running.

    signal: each prints a line when it is ready and begins when it is given one.
    """
    programs: list[_Program] = []
    try:
        for group in groups:
            with _cores(group):
                programs.append(_Program(command))
        if signal:
            for program in programs:
                program.await_line()
            for program in programs:
                program.say_go()
        return [program.output() for program in programs]
    finally:
        for program in programs:
            program.end()


def _rate(output: str) -> float:
    return float(json.loads(output.splitlines()[-1])["rows_per_second"])


# Data, and the environment of mwms.


def write_data(bench: Bench, workload: Workload, mwms_environment: str | None) -> None:
    """The workload's rows as arrays, as a prepared data set, and (for mwms) as TFRecord files."""
    from sparksplit.dataset.arrays import from_arrays

    folder = bench.folder(workload)
    folder.mkdir()
    x, y = _mnist() or _generated(workload.rows)
    x, y = x[: workload.rows], y[: workload.rows]
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    from_arrays(str(folder / "prepared"), {"train": (x, y)}, classes=10, scaling="unit")
    if mwms_environment is not None:
        _run([mwms_environment, str(HERE / "mwms_fit.py"), "records", str(folder)], [bench.cores])


def _mnist() -> tuple[Any, Any] | None:
    """uint8 [60000, 28, 28] and int64 [60000]; None without SPARKSPLIT_DATA."""
    named = os.environ.get("SPARKSPLIT_DATA")
    if not named:
        return None
    images, labels = (
        np.frombuffer(gzip.decompress((Path(named) / "mnist" / name).read_bytes()), np.uint8)
        for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
    )
    return images[16:].reshape(-1, 28, 28), labels[8:].astype(np.int64)


def _generated(rows: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = random.integers(0, 10, rows)
    # About as dark as MNIST, with a bright row whose place is the label.
    x = (random.integers(0, 256, (rows, 28, 28)) * (random.random((rows, 28, 28)) < 0.2)).astype(np.uint8)
    x[np.arange(rows), 4 + 2 * y] = 255
    return x, y


def mwms_python(folder: Path) -> str:
    """The interpreter of an environment that adds tf_keras to this one's packages; made where it is missing."""
    python, done = folder / "bin" / "python", folder / "complete"
    wanted = f"{sysconfig.get_path('purelib')}\ntf_keras {TF_KERAS}\n"
    if not (done.exists() and done.read_text() == wanted):
        print(f"making {folder} with tf_keras {TF_KERAS}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        site = next(folder.glob("lib/python*/site-packages"))
        # The same installed packages, not a second copy of them.
        (site / "product.pth").write_text(sysconfig.get_path("purelib") + "\n")
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", f"tf_keras=={TF_KERAS}"]
        subprocess.run(install, check=True, stdout=sys.stderr)
        done.write_text(wanted)
    return str(python)


if __name__ == "__main__":
    sys.exit(main())
