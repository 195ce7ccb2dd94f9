"""What reading ahead brings: seconds per epoch at 0, 1, 2, 4 and 8 readers, as an article on data-loader workers did.

    python benchmarks/readers.py [--rows 60000] [--repeats 3] [--microseconds 153]

The CNN 20-50-512-10 on MNIST (SPARKSPLIT_DATA, or rows of its shape) with mini-batches of 64, one node, one thread of
TensorFlow, by `sparksplit train` with `transform` and `readers`. The transform normalises and crops each row, one row
at a time (benchmarks/readers_rows.py), and does so as often as it takes to cost --microseconds of a core for each row:
the article's epoch of 60,000 rows took 12.96 s without workers and 3.77 s with enough. In turn, --repeats times:

    0 to 8                  readers
    together                no readers, and the transform once, for many rows at once
    without_preprocessing   no readers, no transform
    one_batch               one batch, repeated from memory, in a bare loop (benchmarks/peers.py): the device alone

The first epoch of each run is left out, since it reads the rows from the disk; of the others in all repeats the fastest
counts, since other work on the machine only adds. Then the transform alone, in one reader and in two: what two do
together says which share of it only one at a time can do (`serial`; readers are threads).

The last line is one JSON object: seconds (of an epoch of 60,000 rows, by readers), without_preprocessing, one_batch,
together (the same); knee: the fewest readers within 10 % of the fastest; ratio: no readers by the fastest;
transform_microseconds, serial; predicted: the same sweep on 2 and on 8 cores by `predicted`, and predicted_knee; rows,
cores, repeats, measurements; busy: the share of all cores that other work had, before each measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks import readers_rows  # noqa: E402
from benchmarks.helpers import busy, end_orderly, mnist, own_output, told_busy  # noqa: E402

READERS = (0, 1, 2, 4, 8)
BATCH, EPOCH_ROWS = 64, 60_000
ARTICLE_MICROSECONDS = 153.0
"""(12.96 - 3.77) s for 60,000 rows."""
KNEE = 1.1
CORES = (2, 8)
"""Of the predictions."""
ALONE_ROWS = 4096


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=EPOCH_ROWS, help="of the data set; seconds are for 60,000 all the same"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3, help="of each run; the first is left out")
    parser.add_argument("--microseconds", type=float, default=ARTICLE_MICROSECONDS, help="that a row's transform costs")
    arguments = parser.parse_args(argv)
    if arguments.rows < BATCH or arguments.epochs < 2:
        print(f"readers.py: needs {BATCH} rows and two epochs at least", file=sys.stderr)
        return 2
    end_orderly()
    with tempfile.TemporaryDirectory(prefix="readers-") as work, own_output():
        result = measure(Path(work), arguments)
    told_busy(result["busy"])
    print("\n".join(table(result)))
    print(json.dumps(result))
    return 0


def measure(work: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The JSON line's object."""
    from benchmarks.overhead import Bench, Workload, loop
    from sparksplit.dataset.arrays import from_arrays
    from sparksplit.spark.session import spark_session

    x, y = mnist("train") or generated(arguments.rows)
    pixels, y = x[: arguments.rows], y[: arguments.rows]
    # A transform keeps the dtype that is stored.
    x = pixels.astype(np.float32) / np.float32(255)
    data = from_arrays(str(work / "prepared"), {"train": (x, y)}, classes=10)
    (work / "one" / "cnn").mkdir(parents=True)
    np.save(work / "one" / "cnn" / "x.npy", pixels[:BATCH])
    np.save(work / "one" / "cnn" / "y.npy", y[:BATCH])
    transform, microseconds = costing(arguments.microseconds, work, x)
    cores = sorted(os.sched_getaffinity(0))
    device = Bench(work / "one", 5.0, (cores[0], cores[-1]))
    found: dict[str, list[float]] = defaultdict(list)
    shares: list[float] = []
    with spark_session("readers", 1):
        for _ in range(arguments.repeats):
            for name in (*map(str, READERS), "together", "without_preprocessing", "one_batch"):
                shares.append(busy())
                if name == "one_batch":
                    seconds = EPOCH_ROWS / loop(device, Workload("cnn", BATCH, BATCH, 1, 0))
                else:
                    own = {"together": f"{transform}:together", "without_preprocessing": None}
                    seconds = trained(
                        data,
                        work / "run",
                        arguments.epochs,
                        readers=int(name) if name.isdigit() else 0,
                        transform=own.get(name, f"{transform}:one_by_one"),
                    )
                found[name].append(round(seconds, 3))
                print(f"{name}: {seconds:.2f} s per epoch", flush=True)
    serial = serial_share(alone(data, transform, 1), alone(data, transform, 2))
    return {
        **summary(found, serial),
        "transform_microseconds": round(microseconds, 1),
        "rows": arguments.rows,
        "cores": len(cores),
        "repeats": arguments.repeats,
        "measurements": found,
        "busy": shares,
    }


def generated(rows: int) -> tuple[Any, Any]:
    """uint8 [rows, 28, 28] and int64 [rows]: what is in them takes no time."""
    random = np.random.default_rng(0)
    return random.integers(0, 256, (rows, 28, 28), np.uint8), random.integers(0, 10, rows)


def costing(microseconds: float, work: Path, x: Any) -> tuple[str, float]:
    """The file of a transform that costs about so much of a core for each row, and what it costs."""
    rows, seeds = {"x": x[:1024]}, np.arange(len(x[:1024]), dtype=np.uint64)

    def cost() -> float:
        began = time.process_time()
        readers_rows.one_by_one(rows, None, seeds)
        return (time.process_time() - began) / len(rows["x"]) * 1e6

    once = min(cost() for _ in range(5))
    times = max(1, round(microseconds / once))
    file, mark = work / "transform.py", "\nTIMES = 1\n"
    text = (HERE / "readers_rows.py").read_text()
    assert mark in text
    file.write_text(text.replace(mark, f"\nTIMES = {times}\n"))
    return str(file), once * times


def trained(data: Any, output: Path, epochs: int, **keys: Any) -> float:
    """Seconds per epoch of 60,000 rows of a run by the product."""
    import sparksplit

    sparksplit.train(
        data,
        str(output),
        overwrite=True,
        strategy="single",
        threads=1,
        model={"build": "cnn"},
        optimizer={"learning_rate": 0.02},
        batch_size=BATCH,
        epochs=epochs,
        checkpoint={"every": 10**9},
        **keys,
    )
    return seconds_of([json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()])


def seconds_of(epochs: Sequence[Mapping[str, Any]]) -> float:
    """Seconds for 60,000 rows in the fastest epoch after the first, in the lines of metrics.jsonl."""
    return min(float(epoch["seconds"]["train"] * EPOCH_ROWS / epoch["rows"]) for epoch in epochs[1:])


def alone(data: Any, transform: str, readers: int) -> float:
    """Seconds of the transform of some rows in so many threads, without training; the best of three."""
    from sparksplit.base.user_functions import load
    from sparksplit.rows.feed import Feed

    lanes = np.arange(data.manifest.lanes)
    function = load(f"{transform}:one_by_one", Path(transform).read_text())
    # Small chunks, so that none waits for a long one at the end.
    feed = Feed(
        data.split("train"), lanes, batch_size=BATCH, cache=1 << 30, readers=readers, transform=function,
        chunk_bytes=BATCH * 4096,
    )  # fmt: skip
    updates = min(feed.updates, ALONE_ROWS // BATCH)

    def once(epoch: int) -> float:
        began = time.perf_counter()
        for _ in feed.epoch(epoch, 0, updates):
            pass
        return time.perf_counter() - began

    try:
        once(0)
        return min(once(epoch) for epoch in (1, 2, 3))
    finally:
        feed.close()


# The model, and the report.


def serial_share(one: float, two: float) -> float:
    """Which share of the work only one thread at a time can do, by Amdahl's law. one, two: seconds in so many."""
    return round(min(1.0, max(0.0, 2 * two / one - 1)), 3)


def predicted(step: float, preprocessing: float, serial: float, cores: int, readers: int) -> float:
    """Seconds per epoch where `step` and `preprocessing` are its seconds on one core each.

    Without readers they come one after the other. With some, the slower one decides: the step on its one thread, or
    the preprocessing, of which the share `serial` runs in one thread at a time and the rest in as many as there are
    readers and cores; and no more than `cores` seconds of work are done in a second.
    """
    if readers == 0:
        return step + preprocessing
    reading = preprocessing * (serial + (1 - serial) / min(readers, cores))
    return max(step, reading, (step + preprocessing) / cores)


def knee(seconds: Mapping[int, float]) -> int:
    """The fewest readers within 10 % of the fastest."""
    return min(readers for readers, value in seconds.items() if value <= KNEE * min(seconds.values()))


def summary(found: Mapping[str, Sequence[float]], serial: float) -> dict[str, Any]:
    """The figures that follow from the measurements. found: seconds per epoch by name."""
    fastest = {name: min(values) for name, values in found.items()}
    swept = {readers: fastest[str(readers)] for readers in READERS}
    step = fastest["without_preprocessing"]
    preprocessing = max(0.0, swept[0] - step)
    sweeps = {
        cores: {readers: predicted(step, preprocessing, serial, cores, readers) for readers in READERS}
        for cores in CORES
    }
    return {
        "seconds": {str(readers): round(value, 2) for readers, value in swept.items()},
        "knee": knee(swept),
        "ratio": round(swept[0] / min(swept.values()), 2),
        **{name: round(fastest[name], 2) for name in ("together", "without_preprocessing", "one_batch")},
        "serial": serial,
        "predicted": {
            str(cores): {str(readers): round(value, 2) for readers, value in sweep.items()}
            for cores, sweep in sweeps.items()
        },
        "predicted_knee": {str(cores): knee(sweep) for cores, sweep in sweeps.items()},
    }


def table(result: Mapping[str, Any]) -> list[str]:
    """A line for each number of readers, then for each ablation."""
    lines = [f"{'':22} {'s/epoch':>8} " + " ".join(f"{f'on {cores} cores':>11}" for cores in result["predicted"])]
    for readers, seconds in result["seconds"].items():
        guesses = " ".join(f"{sweep[readers]:>11.2f}" for sweep in result["predicted"].values())
        lines.append(f"{readers + ' readers':22} {seconds:>8.2f} {guesses}")
    lines += [f"{name:22} {result[name]:>8.2f}" for name in ("together", "without_preprocessing", "one_batch")]
    return lines


if __name__ == "__main__":
    sys.exit(main())
