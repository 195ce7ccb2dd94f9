"""Time to 95 % on MNIST with one hidden layer: sparksplit's against H2O Deep Learning's, on the same cores.

    python benchmarks/h2o.py [--hidden 32 64 128] [--repeats 3] [--threads 2] [--cap 180]

784-HU-10 on MNIST (SPARKSPLIT_DATA) with rectifiers and an L1 penalty of 1e-5 on the weights, for each HU, in turn,
three times over with seeds 1, 2, 3:

    ours    sparksplit train, strategy: single; SGD at 0.5, mini-batches of 128, pixels from 0 to 1, one thread: two
            get into each other's way with so few units
    h2o     H2O Deep Learning as it comes, on one H2O node with --threads (benchmarks/h2o_contender.py)

Both may use the first --threads cores, are scored on the 10,000 test rows after each pass over the 60,000, and have a
clock that stops meanwhile: ours is the seconds of metrics.jsonl (updates, and waiting for rows), theirs is H2O's own.
Starting, reading the input files and making graphs are left out of both. ours makes --epochs passes, H2O as many as it
takes to the target, or fits into --cap seconds of the wall.

H2O comes from PyPI into an environment of its own, which is made where it is missing (--h2o-venv).

The last line is one JSON object: hu32, hu64, hu128, each with, as medians of the repeats, ours_seconds and h2o_seconds
to the target, ratio (of each repeat theirs by ours), ours_epoch_seconds and h2o_epoch_seconds (of a pass); and the best
accuracies, ours_best and h2o_best. A repeat that does not arrive within the cap counts as one that takes for ever:
where the median is one, h2o_seconds and ratio are null, and ratio_at_least says how many times our seconds H2O had by
its last pass. Then cap, target, threads, repeats; busy: the share of all cores that other work had, before each
measurement; points: each repeat's passes as [rows, seconds, test accuracy].
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from benchmarks.helpers import busy, end_orderly, mnist, own_output, told_busy  # noqa: E402

H2O = "h2o==3.46.0.12"
L1, BATCH, LEARNING_RATE, OWN_THREADS = 1e-5, 128, 0.5, 1
TARGET = 0.95
MOST_EPOCHS = 1000

Points = Sequence[tuple[int, float, float]]
"""After each pass: rows trained on, seconds of training, test accuracy."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5, help="passes of ours")
    parser.add_argument("--cap", type=float, default=180, help="seconds that H2O gets for each repeat")
    parser.add_argument("--h2o-venv", type=Path, default=ROOT / "build" / "h2o-venv", help="is made where missing")
    arguments = parser.parse_args(argv)
    train, test = mnist("train"), mnist("t10k")
    available = sorted(os.sched_getaffinity(0))
    problem = None if train and test else "needs MNIST: SPARKSPLIT_DATA names no folder that has it"
    if len(available) < arguments.threads:
        problem = f"{arguments.threads} threads need as many cores (there are {len(available)})"
    if problem is not None:
        print(f"h2o.py: {problem}", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, set(available[: arguments.threads]))
    python = h2o_python(arguments.h2o_venv)
    end_orderly()
    with tempfile.TemporaryDirectory(prefix="h2o-") as work, own_output():
        result = measure(Path(work), train, test, python, arguments)
    told_busy(result["busy"])
    print("\n".join(table(result, arguments.hidden)))
    print(json.dumps(result))
    return 0


def measure(work: Path, train: Any, test: Any, python: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The JSON line's object."""
    from sparksplit.dataset.arrays import from_arrays
    from sparksplit.spark.session import spark_session

    # The test rows as validation rows: those are looked at after each pass.
    data = from_arrays(str(work / "prepared"), {"train": train, "validation": test}, classes=10, scaling="unit")
    for name, (x, y) in (("train", train), ("test", test)):
        np.savetxt(work / f"{name}.csv", np.c_[x.reshape(len(x), -1), y], "%d", ",")
    found: dict[int, list[tuple[Points, Points]]] = {hidden: [] for hidden in arguments.hidden}
    shares: list[float] = []
    with spark_session("h2o", 1), peer(python, work, arguments) as h2o:
        for repeat in range(arguments.repeats):
            for hidden in arguments.hidden:
                shares.append(busy())
                own = ours(data, work / f"run-{hidden}-{repeat}", hidden, repeat + 1, arguments)
                shares.append(busy())
                theirs, ended = h2o.train(hidden, repeat + 1)
                found[hidden].append((own, theirs))
                print(f"{hidden}, repeat {repeat + 1}: ours {own[-1:]}, H2O {theirs[-1:]}, ended by its {ended}")
    return {
        **{f"hu{hidden}": summary(pairs, TARGET) for hidden, pairs in found.items()},
        "target": TARGET,
        "cap": arguments.cap,
        "threads": arguments.threads,
        "repeats": arguments.repeats,
        "busy": shares,
        "points": {f"hu{hidden}": [{"ours": a, "h2o": b} for a, b in pairs] for hidden, pairs in found.items()},
    }


def ours(data: Any, output: Path, hidden: int, seed: int, arguments: argparse.Namespace) -> Points:
    """Train once by the product."""
    import sparksplit

    sparksplit.train(
        data,
        str(output),
        strategy="single",
        threads=OWN_THREADS,
        model={"build": f"{HERE / 'h2o_model.py'}:build", "params": {"hidden": hidden, "l1": L1}},
        optimizer={"name": "sgd", "learning_rate": LEARNING_RATE},
        batch_size=BATCH,
        epochs=arguments.epochs,
        seed=seed,
        # None before the end: H2O writes none.
        checkpoint={"every": 10**9},
    )
    return points_of([json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()])


def points_of(epochs: Sequence[Mapping[str, Any]]) -> Points:
    """The points in the lines of metrics.jsonl."""
    found, rows, seconds = [], 0, 0.0
    for epoch in epochs:
        rows += epoch["rows"]
        seconds += epoch["seconds"]["train"]
        found.append((rows, round(seconds, 4), round(epoch["validation"]["accuracy"], 4)))
    return found


class Peer:
    """H2O, ready to train."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._line()

    def train(self, hidden: int, seed: int) -> tuple[Points, str]:
        """Train once: its points, and why it ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{hidden} {seed}\n")
        self._process.stdin.flush()
        answer = json.loads(self._line())
        return [tuple(point) for point in answer["points"]], answer["ended"]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("H2O has ended; what it said is above")
        return line


@contextmanager
def peer(python: str, work: Path, arguments: argparse.Namespace) -> Iterator[Peer]:
    """H2O on the CSV files in `work`; it has ended when the block has."""
    command = [python, "-P", str(HERE / "h2o_contender.py"), str(work), "--threads", str(arguments.threads)]
    command += ["--l1", str(L1), "--target", str(TARGET), "--cap", str(arguments.cap), "--epochs", str(MOST_EPOCHS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=sys.stderr, text=True) as process:
        try:
            yield Peer(process)
        except BaseException:
            process.terminate()
            raise


def h2o_python(folder: Path) -> str:
    """The interpreter of an environment with H2O; made where it is missing."""
    python, done = folder / "bin" / "python", folder / "complete"
    if not (done.exists() and done.read_text() == H2O):
        print(f"making {folder} with {H2O}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", H2O], check=True, stdout=sys.stderr)
        done.write_text(H2O)
    return str(python)


# The report.


def seconds_to(points: Points, target: float) -> float:
    """Seconds to the first point that reaches `target`; infinite where none does."""
    return next((seconds for _, seconds, accuracy in points if accuracy >= target), math.inf)


def summary(pairs: Sequence[tuple[Points, Points]], target: float) -> dict[str, float | None]:
    """One HU's keys of the JSON line. pairs: ours and H2O's points, of each repeat. None: not reached, or no pass."""
    own = [seconds_to(points, target) for points, _ in pairs]
    theirs = [seconds_to(points, target) for _, points in pairs]
    had = [min(their, points[-1][1] if points else 0.0) for their, (_, points) in zip(theirs, pairs, strict=True)]
    ours_seconds, h2o_seconds = statistics.median_high(own), statistics.median_high(theirs)
    ratio = least = None
    if ours_seconds < math.inf:
        # A repeat in which ours does not arrive shows nothing for it.
        ratios = [their / mine if mine < math.inf else 0.0 for mine, their in zip(own, theirs, strict=True)]
        ratio = _known(statistics.median_high(ratios), 1)
        least = round(statistics.median_low([their / mine for mine, their in zip(own, had, strict=True)]), 1)
    return {
        "ours_seconds": _known(ours_seconds),
        "h2o_seconds": _known(h2o_seconds),
        "ratio": ratio,
        "ratio_at_least": least,
        "h2o_best": _best(their for _, their in pairs),
        "ours_best": _best(mine for mine, _ in pairs),
        "ours_epoch_seconds": _epoch(mine for mine, _ in pairs),
        "h2o_epoch_seconds": _epoch(their for _, their in pairs),
    }


def _known(value: float, digits: int = 3) -> float | None:
    return round(value, digits) if value < math.inf else None


def _best(repeats: Iterable[Points]) -> float | None:
    return max((accuracy for points in repeats for _, _, accuracy in points), default=None)


def _epoch(repeats: Iterable[Points]) -> float | None:
    found = [points[-1][1] / len(points) for points in repeats if points]
    return round(statistics.median(found), 3) if found else None


def table(result: Mapping[str, Any], hidden: Sequence[int]) -> list[str]:
    """A line for each HU."""
    head = ("HU", "ours s", "H2O s", "ratio", "H2O's best", "s a pass", "H2O's")
    lines = [f"{head[0]:>4} {head[1]:>8} {head[2]:>8} {head[3]:>8} {head[4]:>11} {head[5]:>9} {head[6]:>8}"]
    for size in hidden:
        of = result[f"hu{size}"]
        names = ("ours_seconds", "h2o_seconds", "ratio", "h2o_best", "ours_epoch_seconds", "h2o_epoch_seconds")
        told = ["-" if of[name] is None else f"{of[name]:.4g}" for name in names]
        lines.append(f"{size:>4} {told[0]:>8} {told[1]:>8} {told[2]:>8} {told[3]:>11} {told[4]:>9} {told[5]:>8}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
