"""What it costs `train` to tell where its seconds go: alternating blocks of one run, with that and without.

    python benchmarks/shares.py [--pairs 200] [--seconds 0.2] [--models mlp cnn]

Trains the MLP 784-128-10 (B = 128) and the CNN 20-50-512-10 (B = 64) of benchmarks/overhead.py as a node of `train`
does: the same worker, loop, feed and compiled step, in this process, on one thread of TensorFlow, with MNIST
(SPARKSPLIT_DATA) or generated rows of its shape. The run is cut into blocks of --seconds, with the accounting and
without any, in the order with, without, without, with; two neighbours are a pair. Blocks are short, so that other work
on the machine mostly slows both of a pair.

The last line is one JSON object: for each model `ratio`, a step's time with the accounting to without, the median of
the pairs, its 95 % `interval` (bootstrap), the median step in microseconds, pairs; busy: the share of the cores that
other work had before. Meant: at most 1.01 for the CNN, 1.03 for the MLP.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.helpers import busy, end_orderly, mnist, own_output, told_busy  # noqa: E402
from sparksplit.cluster.leaving import Leaving  # noqa: E402
from sparksplit.training.node.tally import Clock  # noqa: E402

BATCH = {"mlp": 128, "cnn": 64}
ROWS = 19_200
WARM_UP = 2
"""Blocks that do not count."""


class Over(Exception):
    """All blocks have been measured."""


class Switched(Clock):
    """A clock that stands still in every other block. blocks: (whether it ran, steps, seconds) of those that are over;
    the first WARM_UP do not count. seconds: of a block."""

    def __init__(self, blocks: int, seconds: float) -> None:
        super().__init__(time.perf_counter())
        self.blocks: list[tuple[bool, int, float]] = []
        self._count, self._seconds = blocks + WARM_UP, seconds
        self.on = True
        self._begun, self._steps = 0.0, 0

    def fed(self, chunks: Iterator[Any]) -> Iterator[Any]:
        accounted = super().fed(chunks)
        while (chunk := next(accounted if self.on else chunks, None)) is not None:
            self._cut()
            self._steps += chunk.updates
            yield chunk

    @contextmanager
    def spent_on(self, name: str) -> Iterator[None]:
        with super().spent_on(name) if self.on else nullcontext():
            yield

    @contextmanager
    def training(self, step: Any, collective: Any) -> Iterator[None]:
        with super().training(step, collective) if self.on else nullcontext():
            yield

    def _cut(self) -> None:
        now = time.perf_counter()
        if self._steps and now - self._begun < self._seconds:
            return
        if self._steps:
            self.blocks.append((self.on, self._steps, now - self._begun))
        if len(self.blocks) == self._count:
            raise Over
        self.on = len(self.blocks) % 4 in (0, 3)
        self._begun, self._steps = time.perf_counter(), 0


class Alone:
    """A node's line to a driver, without the driver."""

    rank, size, host, local_dir = 0, 1, "localhost", ""

    def __init__(self) -> None:
        self.stopping, self.leaving = threading.Event(), Leaving()
        self._state: dict[str, Any] = {}

    def state(self, **fields: Any) -> None:
        self._state.update(fields)

    announce = state

    def phase(self, name: str) -> Any:
        return nullcontext()

    def gather(self, name: str, value: Any, *, beside: bool = False) -> list[Any]:
        return [value]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a block, at least")
    parser.add_argument("--models", nargs="+", choices=sorted(BATCH), default=["mlp", "cnn"])
    arguments = parser.parse_args(argv)
    end_orderly()
    shares = [busy()]
    told_busy(shares)
    found = {}
    with own_output(), tempfile.TemporaryDirectory(prefix="shares-") as work:
        write_data(work)
        for name in arguments.models:
            found[name] = figures(measured(name, work, 2 * arguments.pairs, arguments.seconds))
            print(f"{name}: {found[name]}")
    print(json.dumps({**found, "seconds": arguments.seconds, "busy": shares[0]}))
    return 0


def write_data(work: str) -> None:
    """The training rows, as a prepared data set in `work`."""
    from sparksplit.dataset.arrays import from_arrays

    rows = mnist("train")
    if rows is None:
        random = np.random.default_rng(0)
        rows = random.integers(0, 256, (ROWS, 28, 28), np.uint8), random.integers(0, 10, ROWS)
    x, y = (part[:ROWS] for part in rows)
    from_arrays(f"{work}/data", {"train": (x, y)}, classes=10, scaling="unit")


def measured(name: str, work: str, blocks: int, seconds: float) -> list[tuple[bool, int, float]]:
    """The blocks of one run."""
    from sparksplit.base.config import parse
    from sparksplit.collectives import Alone as Nobody
    from sparksplit.training.messages import Payload
    from sparksplit.training.node.main import configure
    from sparksplit.training.node.process import Process
    from sparksplit.training.node.worker import Worker
    from sparksplit.training.train_config import TrainConfig

    values: dict[str, Any] = {
        "data": f"{work}/data",
        "output": f"{work}/run",
        "model": {"build": name},
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "strategy": "single",
        "batch_size": BATCH[name],
        "epochs": 1_000_000,
    }
    config = parse(TrainConfig, values)
    payload = Payload(
        config=values,
        places={},
        run=work,
        output=work,
        owner="",
        writing="",
        sources={},
        config_hash="",
        threads=1,
        record_only=True,
    )
    configure(config, 1)
    member: Any = Alone()
    process = Process(member, payload, config)
    process.build()
    worker = Worker(process, member, Nobody())
    worker.begin()
    clock = Switched(blocks, seconds)
    _switch_copying(worker.step, clock)
    try:
        worker.train(process.prepared_rows(), {}, clock)
    except Over:
        return clock.blocks[WARM_UP:]
    finally:
        worker.close()
    raise RuntimeError("the rows ended before the last block did")


def _switch_copying(step: Any, clock: Switched) -> None:
    """Let `step` copy rows to the device by itself, and time that, only while the clock runs."""
    from sparksplit.training.node.compiled.step import as_tensor

    on_device = step._on_device

    def switched(chunk: Any) -> list[Any]:
        return on_device(chunk) if clock.on else [as_tensor(column) for column in [*chunk.tensors, chunk.label]]

    step._on_device = switched


def figures(blocks: Sequence[tuple[bool, int, float]]) -> dict[str, Any]:
    """What the JSON line says of a model."""
    ratios = []
    for one, other in zip(blocks[::2], blocks[1::2], strict=True):
        with_, without = (one, other) if one[0] else (other, one)
        ratios.append((with_[2] / with_[1]) / (without[2] / without[1]))
    drawn = np.random.default_rng(0).choice(ratios, (10_000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return {
        "ratio": round(statistics.median(ratios), 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
        "step_microseconds": round(1e6 * statistics.median(seconds / steps for _, steps, seconds in blocks), 1),
        "pairs": len(ratios),
    }


if __name__ == "__main__":
    sys.exit(main())
