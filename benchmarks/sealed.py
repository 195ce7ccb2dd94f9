"""Sealed predictions: `plan` predicts 48 runs from one machine's steps, and only then they are run.

    sudo python benchmarks/sealed.py predict FOLDER [--only mlp-10 cnn-100]
    sudo python benchmarks/sealed.py measure FOLDER [--only mlp-10 cnn-100]

The cells: links of 10, 100 and 1,000 Mbit/s x MLP, CNN, LSTM, table x `batch`, `epoch`, `epoch-delayed`, `local`, on
two nodes. Each of the 12 pairs of model and link has a file of its own, such as FOLDER/mlp-10.json. Without --only, a
step is made for all pairs. The speed of a machine may change within minutes, so it is best to measure a pair right
after its predictions.

`predict` measures steps and exchanges on one host, as `sparksplit plan` does, with both nodes pinned to a processor
each. It fails if the nodes were not measured side by side. It writes the predictions and the git commit with their
SHA-256 digest, and never replaces a file. Both steps say so if the machine is busy before they begin.

`measure` refuses a file that does not have its digest, or was sealed for other runs. It trains each cell with
`sparksplit train`, one node in each of two network namespaces, with a link that tc limits, and one measurement of each
cell. Each cell's measurement is added at once to a file beside the predictions, such as FOLDER/mlp-10.json.measured.
The predictions are always those under the seal. A cell whose run fails is named, and counts as missed. After an
interruption, `measure` goes on with the cells that are not there.

seconds: train and feed of run.json, for equal passes. memory: the VmHWM of the run's node with the most, over its whole
life, so with the last checkpoint and the export of the model.

All strategies of a model and a link make as many passes. Slow links get fewer passes. Each cell at 1,000 Mbit/s then
trains for five seconds or more on two cores, and the slowest cell for a few minutes. `predict` says how long
`measure` will take: the sum of the predictions, and 10 s for the rest of each run.

The last line of `measure` is one JSON object: digests, by pair; links, in MB/s as measured; cells, and how many are
measured; median_error and within_15_percent of the times; fastest_named: for how many of the 12 pairs of model and link
the fastest strategy is named, or one within 5 % of it; memory_within_10_percent; rows, one for each cell. The table
before it has the goals. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.sealed_results import (  # noqa: E402
    add_measured,
    broken,
    figures,
    goals,
    joined,
    measured_rows,
    seal,
    sealed,
    table,
    taken,
)

LINKS = (10, 100, 1000)
NODES = 2
STRATEGIES: dict[str, dict[str, Any]] = {
    "batch": {"strategy": "batch"},
    "epoch": {"strategy": "epoch"},
    "epoch-delayed": {"strategy": "epoch-delayed"},
    "local": {"strategy": "local", "sync": {"every": 16, "outer": "nesterov"}},
}
MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"model": {"build": "mlp", "params": {"hidden": [160]}}, "batch_size": 1024},
    "cnn": {"model": {"build": "cnn", "params": {"filters": [24, 48], "kernel": 5, "dense": 384}}, "batch_size": 128},
    "lstm": {"model": {"build": "lstm", "params": {"units": [112], "embedding": 0}}, "batch_size": 64},
    "table": {"model": {"build": "tabular", "params": {"hidden": [384, 192], "wide": True}}, "batch_size": 1024},
}
"""Each exchange is much larger than what a link may save (SAVED), so the runs do have a link."""
ROWS = {"mlp": 81_920, "cnn": 10_240, "lstm": 4_096, "table": 81_920}
"""Training rows."""
PASSES = {
    "mlp": {10: 6, 100: 24, 1000: 30},
    "cnn": {10: 2, 100: 6, 1000: 8},
    "lstm": {10: 6, 100: 10, 1000: 10},
    "table": {10: 4, 100: 20, 1000: 22},
}
"""Passes over the rows by link, of all strategies: multiples of the nodes."""
PAIRS = {f"{model}-{mbit}": (model, mbit) for model in MODELS for mbit in LINKS}
"""Model and link by the name of their file."""
SECONDS_BESIDE = 10.0
"""Seconds of a run beside training: start, export, end."""
SAVED = 0.55
"""Milliseconds of an idle link that may be made up for: 64 KiB at 1,000 Mbit/s, the most that a host sends at once."""


def main(argv: Sequence[str] | None = None) -> int:
    """Predict, or measure; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["predict", "measure"])
    parser.add_argument("folder", type=Path, help="where the files of the pairs are")
    parser.add_argument(
        "--only", nargs="+", choices=PAIRS, default=list(PAIRS), metavar="PAIR", help="these alone, such as mlp-10"
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # the folder to work in, in the namespaces
    arguments = parser.parse_args(argv)
    if arguments.inside is not None:
        from benchmarks.slow_link_hosts import clean_environment

        clean_environment()
        return {"predict": _predict, "measure": _measure}[arguments.step](arguments)
    from benchmarks.helpers import busy, told_busy
    from benchmarks.slow_link_hosts import isolated, missing

    problem = missing(max(LINKS))
    if problem is None:
        files = [file_of(arguments.folder, pair) for pair in arguments.only]
        wrong = [broken(file, settings()) if arguments.step == "measure" else taken(file) for file in files]
        problem = next((each for each in wrong if each is not None), None)
    if problem is not None:
        print(f"sealed.py: {problem}", file=sys.stderr)
        return 2
    told_busy([busy()])
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="sealed-") as work:
        own = sys.argv[1:] if argv is None else list(argv)
        try:
            return isolated([sys.executable, str(Path(__file__).resolve()), *own, "--inside", work], Path(work))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT


def settings() -> dict[str, Any]:
    """What the cells are, as in a file of predictions."""
    made = {"models": MODELS, "rows": ROWS, "passes": PASSES, "strategies": STRATEGIES, "nodes": NODES}
    known: dict[str, Any] = json.loads(json.dumps(made))
    return known


def commit() -> str | None:
    """The commit of this checkout, marked if files differ from it; None where git does not know it."""
    # With sudo, the checkout belongs to another user.
    told = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    found = subprocess.run(told, cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def file_of(folder: Path, pair: str) -> Path:
    """The file with the predictions of a pair."""
    return folder / f"{pair}.json"


def minutes(cells: Sequence[Mapping[str, Any]]) -> float:
    """How long it will take to measure these cells."""
    return sum(float(cell["seconds"]) + SECONDS_BESIDE for cell in cells) / 60


def _predict(arguments: argparse.Namespace) -> int:
    """Measure one host for each pair, and seal its predictions. Inside the namespaces."""
    from benchmarks.slow_link_hosts import NEAR, Hosts, spark
    from sparksplit.comparison.costs import ethernet
    from sparksplit.planning.plan import measure
    from sparksplit.planning.plan_config import on_nodes
    from sparksplit.planning.predicted import Predictor
    from sparksplit.planning.workload import step_sizes, workload
    from sparksplit.spark.session import spark_session
    from sparksplit.strategies import find

    work, total = arguments.inside, 0.0
    arguments.folder.mkdir(parents=True, exist_ok=True)
    hosts = Hosts(0)
    data = {model: _prepared(model, work) for model in dict.fromkeys(PAIRS[pair][0] for pair in arguments.only)}
    with spark(hosts, (NEAR, NEAR), work / "spark", pinned=True), spark_session("sealed", NODES):
        for pair in arguments.only:
            model, mbit = PAIRS[pair]
            config = _plan_config(model, data[model], work, PASSES[model][mbit])
            measuring = on_nodes(config, {"strategy": "batch", "collective": "ring"}, NODES)
            measured = measure(measuring, step_sizes(measuring, NODES))
            if not measured.beside:
                raise RuntimeError(f"{pair}: no time was left to measure both nodes side by side; predict again")
            lane_rows, cells = _lane_rows(data[model]), []
            predictor = Predictor(measured, ethernet(mbit / 1000), crowded=True)
            for strategy, keys in STRATEGIES.items():
                run = on_nodes(config, keys, NODES)
                found = predictor.predicted(workload(run, find(run.strategy), lane_rows), run.cache_mb << 20)
                cells.append(
                    {"model": model, "mbit": mbit, "strategy": strategy, "seconds": round(found.seconds.mean, 4),
                     "memory": found.memory, "sent": round(found.sent)}
                )  # fmt: skip
            content = sealed(cells, {**settings(), "commit": commit()})
            seal(file_of(arguments.folder, pair), content)
            total += minutes(cells)
            times = ", ".join(f"{cell['strategy']} {cell['seconds']:.1f} s" for cell in cells)
            print(f"{pair}: {times}, sealed as {content['digest']}")
    print(f"`measure` will take about {total:.0f} minutes")
    return 0


def _measure(arguments: argparse.Namespace) -> int:
    """Train every cell that was not measured yet, and compare. Inside the namespaces."""
    from benchmarks.slow_link_hosts import FAR, NEAR, Hosts, spark
    from sparksplit.spark.session import spark_session

    files, work = {pair: file_of(arguments.folder, pair) for pair in arguments.only}, arguments.inside
    contents = {pair: json.loads(file.read_text()) for pair, file in files.items()}

    def known() -> list[dict[str, Any]]:
        return [row for pair, file in files.items() for row in joined(contents[pair]["cells"], measured_rows(file))]

    left = [row for row in known() if row["measured"] is None]
    print(f"{len(left)} of {len(known())} cells are left, about {minutes(left):.0f} minutes", file=sys.stderr)
    links: dict[int, float] = {}
    if left:
        hosts = Hosts(max(LINKS), SAVED)
        links = {mbit: _carried(hosts, mbit) for mbit in dict.fromkeys(cell["mbit"] for cell in left)}
        data = {name: _prepared(name, work) for name in dict.fromkeys(cell["model"] for cell in left)}
        with spark(hosts, (NEAR, FAR), work / "spark", pinned=True), spark_session("sealed", NODES):
            for cell in left:
                hosts.limit(cell["mbit"])
                pair = f"{cell['model']}-{cell['mbit']}"
                name = f"{cell['model']}, {cell['strategy']}, {cell['mbit']} Mbit/s"
                try:
                    took, memory = _train(cell, data[cell["model"]], work)
                except Exception as error:  # the other cells can be measured all the same
                    print(f"{name}: not measured: {error}", file=sys.stderr)
                    continue
                add_measured(files[pair], contents[pair]["digest"], cell, took, memory)
                print(f"{name}: {took:.2f} s", file=sys.stderr)
    rows = known()
    found = figures(rows)
    told, is_met = goals(found, len(rows))
    print("\n".join([*table(rows), "", *told]))
    digests = {pair: content["digest"] for pair, content in contents.items()}
    print(json.dumps({"digests": digests, "links": links, "cells": len(rows), **found, "rows": rows}))
    return 0 if is_met else 1


def _carried(hosts: Any, mbit: int) -> float:
    """The MB/s of a link, with headers and gaps left out. Raise RuntimeError if tc makes another link than asked."""
    hosts.limit(mbit)
    rate: float = hosts.measured()
    if rate < 0.88 * mbit / 8:
        raise RuntimeError(f"the link of {mbit} Mbit/s carries only {rate:.2f} MB/s")
    return round(rate, 3)


def _values(name: str, data: Path, output: Path, passes: int) -> dict[str, Any]:
    return {
        "data": str(data), "output": str(output), "optimizer": {"name": "sgd", "learning_rate": 0.01},
        "epochs": passes, "seed": 1, "checkpoint": {"seconds": None, "every": None}, **MODELS[name],
    }  # fmt: skip


def _plan_config(name: str, data: Path, work: Path, passes: int) -> Any:
    from sparksplit.base.config import parse
    from sparksplit.planning.plan_config import PlanConfig

    return parse(PlanConfig, _values(name, data, work / f"plan-{name}", passes))


def _lane_rows(data: Path) -> list[int]:
    from sparksplit.dataset.prepared import PreparedDataSet

    return list(PreparedDataSet.open(str(data)).split("train").lane_rows)


def _train(cell: Mapping[str, Any], data: Path, work: Path) -> tuple[float, int]:
    """(seconds, VmHWM of the node with the most memory in bytes) of a run of `sparksplit train`."""
    from contextlib import redirect_stdout

    from sparksplit.commands.train import COMMAND

    output = work / "runs" / f"{cell['model']}-{cell['strategy']}-{cell['mbit']}"
    file = output.with_suffix(".json")
    file.parent.mkdir(exist_ok=True)
    values = _values(cell["model"], data, output, PASSES[cell["model"]][cell["mbit"]])
    config = {**values, "nodes": NODES, **STRATEGIES[cell["strategy"]]}
    file.write_text(json.dumps(config))
    with _peaks() as peaks, redirect_stdout(sys.stderr):
        status = COMMAND.main(["--config", str(file)])
    if status:
        raise RuntimeError(f"{output.name}: sparksplit train ended with {status}")
    run = json.loads((output / "run.json").read_text())
    if not run["ledger"]["exact"] or len(set(run["hosts"])) != NODES:
        raise RuntimeError(f"{output.name}: ledger {run['ledger']}, hosts {run['hosts']}")
    return run["seconds"]["train"] + run["seconds"]["feed"], max(peaks)


@contextmanager
def _peaks() -> Iterator[list[int]]:
    """The VmHWM of every node that starts meanwhile, in bytes. A node of an earlier run may still be ending."""
    earlier, peaks = _nodes(), dict[psutil.Process, int]()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):  # looking takes time from the nodes, who have all cores
            for node in _nodes() - earlier:
                try:
                    text = Path(f"/proc/{node.pid}/status").read_text()
                    peaks[node] = int(text.partition("VmHWM:")[2].split()[0]) << 10
                except (OSError, IndexError, ValueError):
                    continue  # it has ended meanwhile

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    found: list[int] = []
    try:
        yield found
    finally:
        over.set()
        watcher.join()
        found.extend(peaks.values())


def _nodes() -> set[psutil.Process]:
    """The processes of nodes."""
    found = psutil.process_iter(["cmdline"])
    return {process for process in found if any("node_main" in word for word in process.info["cmdline"] or ())}


def _prepared(name: str, work: Path) -> Path:
    """The data set of a model, of generated rows: times do not depend on their values."""
    from benchmarks.generated_tables import census
    from benchmarks.overhead import _generated
    from sparksplit.dataset.arrays import from_arrays

    folder, rows = work / f"data-{name}", ROWS[name]
    if name in ("mlp", "cnn"):
        from_arrays(str(folder), {"train": _generated(rows)}, classes=10, scaling="unit")
    elif name == "lstm":
        random = np.random.default_rng(1)
        text = "".join(random.choice(list("abcdefghijklmnopqrstuvwxyz .,"), rows * 40 + 1))
        (work / "text.txt").write_text(text)
        given = {"format": "text", "path": str(work / "text.txt"), "unit": "characters", "length": 40, "stride": 40}
        _preprocess({"input": given, "output": str(folder), "validation": 0.0, "test": 0.0}, work)
    else:
        import pyarrow.parquet as pq

        (work / "census").mkdir()
        pq.write_table(census(rows), work / "census" / "rows.parquet")
        given = {"format": "parquet", "path": str(work / "census"), "label": "earns_more"}
        _preprocess({"input": given, "output": str(folder), "validation": 0.0, "test": 0.0}, work)
    return folder


def _preprocess(config: Mapping[str, Any], work: Path) -> None:
    from benchmarks.slow_link import _preprocess as preprocess

    preprocess(dict(config), work / "preprocess.json")


if __name__ == "__main__":
    sys.exit(main())
