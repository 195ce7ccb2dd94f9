"""The strategies on two hosts with a slow network between them, against the same on one host.

    sudo python benchmarks/slow_link.py [--data FOLDER] [--epochs 2] [--mbit 100]

Two network namespaces are the hosts: their only connection is a veth pair that tc limits to so many Mbit/s in each
direction. Each runs a Spark standalone worker of one core; the master and the driver are on the first. Every strategy
is trained there by `sparksplit train`, with two nodes, and before that with both workers on the first host, whose nodes
exchange over loopback; `single` runs there, too. Each place is one Spark application, and each run has new nodes. MLP
784-128-10 (102,000 weights), mini-batches of 128, SGD, the same seed, one measurement of each.

Data: a prepared data set (--data), else MNIST where SPARKSPLIT_DATA names it, else scikit-learn's digits.

seconds (train and feed) and rows_per_second are run.json's: exchanges are part of them for all strategies, making
graphs and validation are not.
sync_seconds is the mean over the nodes of what exchanges took, waiting_seconds the part in which a peer was late.

The last line is one JSON object: mbit; link_mb_per_second, measured with a plain socket in both directions at once;
rows, one for each strategy and place; ratio_local_to_batch, rows/s of local H=32 to batch's on two hosts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT = 600.0
BATCH = 128
LOOPBACK = "loopback"


def _local(every: int) -> dict[str, Any]:
    return {"strategy": "local", "sync": {"every": every, "outer": "nesterov"}}


STRATEGIES: dict[str, dict[str, Any]] = {
    "single": {"strategy": "single", "nodes": 1},
    "batch": {"strategy": "batch"},
    "epoch": {"strategy": "epoch"},
    "epoch-delayed": {"strategy": "epoch-delayed"},
    "local H=8": _local(8),
    "local H=32": _local(32),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a prepared data set")
    parser.add_argument("--epochs", type=_at_least(1), default=2)
    parser.add_argument("--mbit", type=_at_least(0), default=100, help="the link's limit in Mbit/s; 0: none")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # the folder to work in, in the namespaces
    arguments = parser.parse_args(argv)
    if arguments.inside is not None:
        return _measure(arguments)
    from benchmarks.slow_link_hosts import isolated, missing
    from sparksplit.base.errors import ConfigError
    from sparksplit.spark.settings.java import java_home

    problem = missing(arguments.mbit)
    if problem is None and arguments.data is not None and not (arguments.data / "_SUCCESS").is_file():
        problem = f"--data {arguments.data}: not a prepared data set (no _SUCCESS file)"
    try:
        java_home()
    except ConfigError as error:
        problem = problem or str(error)
    if problem is not None:
        print(f"slow_link.py: {problem}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="slow-link-") as work:
        own = sys.argv[1:] if argv is None else list(argv)
        try:
            return isolated([sys.executable, str(Path(__file__).resolve()), *own, "--inside", work], Path(work))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT


def _at_least(least: int) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least} (is {value})")
        return value

    return number


def _measure(arguments: argparse.Namespace) -> int:
    """All of it, inside the namespaces."""
    from benchmarks.slow_link_hosts import FAR, NEAR, Hosts, clean_environment, spark
    from sparksplit.spark.session import spark_session

    clean_environment()
    work, rows = arguments.inside, []
    hosts = Hosts(arguments.mbit)
    rate = hosts.measured()
    print(f"the link carries {rate:.1f} MB/s in each direction", file=sys.stderr)
    data = arguments.data.resolve() if arguments.data else _prepare(work)
    for places, strategies in (
        ((NEAR, NEAR), list(STRATEGIES)),
        ((NEAR, FAR), [strategy for strategy in STRATEGIES if strategy != "single"]),
    ):
        count = len(set(places))
        with spark(hosts, places, work / f"spark{count}"), spark_session("slow_link", 2):
            for strategy in strategies:
                output = work / f"run{count}" / strategy
                _train(strategy, data, output, arguments.epochs)
                run = _read(output)
                row = figures(strategy, run, link_name(count, arguments.mbit))
                expected = 1 if row["nodes"] == 1 else count
                if row["hosts"] != expected:
                    raise RuntimeError(f"{strategy} ran on {row['hosts']} hosts, not {expected}: {run['hosts']}")
                rows.append(row)
                print(f"{strategy}, {row['link']}: {row['rows_per_second']:,.0f} rows/s", file=sys.stderr)
    print("\n".join(table(rows)))
    result = {"mbit": arguments.mbit, "link_mb_per_second": round(rate, 2), "rows": rows}
    print(json.dumps({**result, "ratio_local_to_batch": ratio(rows)}))
    return 0


def _prepare(work: Path) -> Path:
    """MNIST, or else scikit-learn's digits, as `sparksplit preprocess` prepares it."""
    import yaml

    from sparksplit.commands.quickstart import digits

    named, output = os.environ.get("SPARKSPLIT_DATA"), work / "prepared"
    if named:
        config = yaml.safe_load((ROOT / "conf" / "preprocess-mnist.yaml").read_text())
        config["input"]["path"] = str(Path(named).resolve() / "mnist")
    else:
        config = yaml.safe_load((ROOT / "conf" / "quickstart.yaml").read_text())["preprocess"]
        config["input"]["path"] = digits()
    _preprocess({**config, "output": str(output)}, work / "preprocess.json")
    return output


def _train(strategy: str, data: Path, output: Path, epochs: int) -> None:
    """`sparksplit train` in the Spark session of the place: a new one each time would take longer than the training."""
    from sparksplit.commands.train import COMMAND

    config = {
        "data": str(data),
        "output": str(output),
        "model": {"build": "mlp", "params": {"hidden": [128]}},
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "batch_size": BATCH,
        "epochs": epochs,
        "nodes": 2,
        "seed": 1,
        **STRATEGIES[strategy],
    }
    output.parent.mkdir(exist_ok=True)
    file = output.with_suffix(".json")
    file.write_text(json.dumps(config))
    with redirect_stdout(sys.stderr):
        status = COMMAND.main(["--config", str(file)])
    if status:
        raise RuntimeError(f"sparksplit train, {strategy}: ended with {status}")


def _preprocess(config: dict[str, Any], file: Path) -> None:
    """`sparksplit preprocess`, as a user would run it. RuntimeError with what it said where it fails."""
    file.write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "sparksplit.commands.cli", "preprocess", "--config", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"sparksplit preprocess ended with {done.returncode}:\n{done.stdout[-3000:]}")


def _read(output: Path) -> dict[str, Any]:
    """run.json."""
    run: dict[str, Any] = json.loads((output / "run.json").read_text())
    if not run["ledger"]["exact"]:
        raise RuntimeError(f"the ledger is not exact: {run['ledger']}")
    return run


def link_name(hosts: int, mbit: int) -> str:
    """What the nodes exchange over."""
    if hosts == 1:
        return LOOPBACK
    return f"{mbit} Mbit/s" if mbit else "not limited"


def figures(strategy: str, run: Mapping[str, Any], link: str) -> dict[str, Any]:
    """A row of the JSON line, from run.json. accuracy: of the test split, else of validation."""
    spent = run["seconds"]
    metrics = run["metrics"]
    return {
        "strategy": strategy,
        "nodes": run["nodes"],
        "hosts": len(set(run["hosts"])),
        "link": link,
        "seconds": round(spent["train"] + spent["feed"], 3),
        "rows_per_second": run["rows_per_second"],
        "sync_seconds": spent["sync"],
        "waiting_seconds": spent["waiting"],
        "bytes_per_node": run["sync_bytes_per_node"],
        "accuracy": metrics["test"].get("accuracy") or metrics.get("validation", {}).get("accuracy", [None])[-1],
    }


def ratio(rows: Sequence[Mapping[str, Any]]) -> float:
    """Rows/s of local H=32 to rows/s of batch, both on two hosts."""
    rates = {row["strategy"]: row["rows_per_second"] for row in rows if row["hosts"] == 2}
    return float(round(rates["local H=32"] / rates["batch"], 2))


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of the table."""
    heads = ("seconds", "rows/s", "sync s", "waiting s", "MB a node", "MB/s", "accuracy")
    lines = [f"{'strategy':14} {'hosts':>5}  {'link':12}" + "".join(f"{head:>11}" for head in heads)]
    for row in rows:
        sent = row["bytes_per_node"] / 1e6
        cells = [f"{row['seconds']:.2f}", f"{row['rows_per_second']:,.0f}", f"{row['sync_seconds']:.2f}"]
        cells += [f"{row['waiting_seconds']:.2f}", f"{sent:.1f}", f"{sent / row['seconds']:.2f}"]
        cells.append("-" if row["accuracy"] is None else f"{row['accuracy']:.4f}")
        names = f"{row['strategy']:14} {row['hosts']:>5}  {row['link']:12}"
        lines.append(names + "".join(f"{cell:>11}" for cell in cells))
    return lines


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
