"""Whether a run survives whatever is killed or stopped, two things too, at any moment: and what that costs.

    python benchmarks/chaos.py [--runs 20] [--seed 1] [--only K ...] [--hdfs] [--work FOLDER]

Trains a small model (convolution, Dropout, Adam) with `sparksplit train` so often, each time as users do, on a local
cluster: all strategies in turn, with both input modes. One or two faults befall each run: SIGKILL or SIGSTOP for a
node, the Python worker that holds it, an executor, the executor that feeds the nodes, or SIGKILL for the driver or its
JVM, which are then called again; with --hdfs, where data and runs are on an HDFS of three DataNodes, for
a DataNode too. Faults come while the run starts, while it is fed, at an update, while a checkpoint is written, while it
validates, while it is restarted, while the model is exported, or when run.json has been written. --seed decides all
this; --only repeats single runs of a seed, by their numbers.

Each run is compared with an undisturbed one of the same strategy, which is made first. What a fault costs is the time
until all nodes are again as far as they were before it, or where they went on, how much longer the run took than an
undisturbed one. Two of which the second comes before that count as one,
`together`.

The last line is one JSON object: runs; finished; exact_ledgers; largest_weight_difference, from the undisturbed run;
faults, median_seconds_lost and largest_seconds_lost by kind (kill, stop, driver, datanode, together); left_behind: by
name, processes, ports and files that were there 10 s after the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.chaos_plan import Outcome, Plan, plan, summary
from benchmarks.chaos_run import Place, Run
from benchmarks.overhead import _generated

ROWS, VALIDATION = 6000, 600
SETTINGS = {
    "model.build": "benchmarks/chaos_model.py:build",
    "optimizer": "{name: adam, learning_rate: 0.001}",
    "batch_size": "50",
    "epochs": "14",
    "checkpoint.every": "40",
}
DATANODES = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print; the exit status: 1 where something is not as promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="+", metavar="K", help="these runs alone, the first of which is 0")
    parser.add_argument("--hdfs", action="store_true", help="data and runs on HDFS, some of whose DataNodes are killed")
    parser.add_argument("--work", type=Path, help="keep what the runs leave, and their logs, in this folder")
    arguments = parser.parse_args(argv)
    numbers = arguments.only or range(arguments.runs)
    plans = [plan(arguments.seed, number, DATANODES if arguments.hdfs else 0) for number in numbers]
    work = arguments.work or Path(tempfile.mkdtemp(prefix="chaos-"))
    work.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that nothing of a run stays
    try:
        with _on_hdfs(work) if arguments.hdfs else _locally(work) as place:
            outcomes = list(_played(place, plans))
    finally:
        if arguments.work is None:
            shutil.rmtree(work)
    found = summary(outcomes)
    print(json.dumps({"seed": arguments.seed, **found}))
    good = found["finished"] == found["exact_ledgers"] == found["runs"] and not found["left_behind"]
    return 0 if good and not found["largest_weight_difference"] else 1


def _played(place: Place, plans: Sequence[Plan]) -> Iterator[Outcome]:
    """What came of each run; says so as they go."""
    undisturbed: dict[str, Run] = {}
    for each in plans:
        if each.strategy not in undisturbed:
            quiet = Run(place, Plan(-1, each.strategy, "tensorflow", ()), f"undisturbed-{each.strategy}")
            outcome = quiet.play()
            seconds = quiet.timeline.ended - quiet.timeline.began
            print(f"undisturbed, {each.strategy}: {outcome}, in {seconds:.1f} s", file=sys.stderr, flush=True)
            if outcome.problem or not outcome.exact:
                raise RuntimeError(f"the undisturbed run with strategy: {each.strategy} has failed: {outcome}")
            undisturbed[each.strategy] = quiet
        faults = "; ".join(map(str, each.faults))
        print(f"run {each.number}, {each.strategy}, {each.mode}: {faults}", file=sys.stderr, flush=True)
        run = Run(place, each, f"run-{each.number}", undisturbed[each.strategy])
        outcome = run.play()
        seconds = run.timeline.ended - run.timeline.began
        print(f"  {outcome}, in {seconds:.1f} s", file=sys.stderr, flush=True)
        place.mended()
        yield outcome


def _write_data(folder: str) -> None:
    from sparksplit.dataset.arrays import from_arrays

    x, y = _generated(ROWS + VALIDATION)
    random = np.random.default_rng(1)
    y = np.where(random.random(len(y)) < 0.2, random.integers(0, 10, len(y)), y)  # so that it always goes on learning
    splits = {"train": (x[:ROWS], y[:ROWS]), "validation": (x[ROWS:], y[ROWS:])}
    from_arrays(folder, splits, classes=10, scaling="unit")


@contextmanager
def _locally(work: Path) -> Iterator[Place]:
    data = work / "data"
    if not data.exists():
        _write_data(str(data))
    yield Place(work, str(data), str(work / "runs"), SETTINGS)


@contextmanager
def _on_hdfs(work: Path) -> Iterator[Place]:
    """An HDFS of its own, by the tests' means."""
    import os

    from sparksplit.spark.settings.java import java_home
    from tests.hadoop.cluster import HadoopCluster
    from tests.hadoop.jars import fetch

    java = java_home()
    with HadoopCluster(fetch(java), java, DATANODES) as cluster:
        os.environ["HADOOP_CONF_DIR"] = str(cluster.conf_dir)
        _write_data(f"{cluster.uri}/data")
        runs = f"{cluster.uri}/runs"
        yield Place(work, f"{cluster.uri}/data", runs, SETTINGS, cluster.kill_datanode, cluster.restore)


if __name__ == "__main__":
    sys.exit(main())
