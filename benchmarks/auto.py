"""`strategy: auto` against every number of nodes that it can choose: 16 cases that it was not built on.

    sudo python benchmarks/auto.py FILE [--only cnn-100 lstm-host]

12 cases are on two hosts: MLP, CNN, LSTM, table x links of 10, 100 and 1,000 Mbit/s, with at most two nodes. The hosts
are network namespaces with a link that tc limits, and each node has a processor of its own. 4 cases are on one host
without a link: the same models, at most three nodes, which share two processors. Keep these cases apart: do not tune
`auto` by them.

For each case, `sparksplit train` runs with `single`, with `batch` on each further number of nodes, and with `auto`,
once each. Before the first case of a model in a place, a run on all nodes that does not count warms up. seconds: train
and feed of run.json. loss: what the choice costs, by the fixed run on the chosen number of nodes, so that two runs of
the same kind do not differ by chance. auto_loss: how much longer the run with `auto` itself took than the fastest fixed
run. before: how much longer it took until its first update than the fixed run of its choice: measuring, and starting
the nodes again if fewer than all were chosen.

Each case's row is added to FILE at once. A case that fails is named, and the others go on. After an interruption or a
failure, the same command goes on with the cases that are not in FILE. The first line of FILE names the commit and what
the cases are. A file of another commit, or of other cases, is refused.

The last line is one JSON object: commit; cases; within_10_percent: in how many of them the choice takes at most 10 %
longer than the fastest number of nodes; auto_within_10_percent: the same of the run with `auto` itself; always_one and
always_all: the same of one node, and of all nodes, wherever they run; decisive: in how many cases some number of nodes
takes more than 10 % longer; not_best_on_one: in how many of them one node does; soon: in how many of them choosing
takes at most 20 s, or 10 % of the run; largest_loss, largest_auto_loss; before, the largest; failed, the cases without
a row; rows, one for each other case. The exit status is 1 if a case failed, or if all cases ran and a goal was missed.
The goals are in GOALS. With more than MOST cases within 10 % without choosing, the cases would show nothing.

Published figures name the commit that was measured. They are from the first FILE of all cases with this commit.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"model": {"build": "mlp", "params": {"hidden": [256]}}, "batch_size": 2560},
    "cnn": {"model": {"build": "cnn", "params": {"filters": [16, 32], "kernel": 5, "dense": 32}}, "batch_size": 512},
    "lstm": {"model": {"build": "lstm", "params": {"units": [64], "embedding": 0}}, "batch_size": 256},
    "table": {"model": {"build": "tabular", "params": {"hidden": [384, 192], "wide": True}}, "batch_size": 2048},
}
LINKS = (10, 100, 1000)
EPOCHS = {
    "mlp": {10: 12, 100: 80, 1000: 160, 0: 160},
    "cnn": {10: 24, 100: 30, 1000: 30, 0: 30},
    "lstm": {10: 24, 100: 40, 1000: 40, 0: 40},
    "table": {10: 12, 100: 80, 1000: 120, 0: 120},
}
"""Epochs by link (0: one host). The slowest number of nodes takes about half a minute, so all takes about as many
minutes on two processors."""
WITHIN = 1.1
SOON = 20.0
GOALS = {"within_10_percent": 14, "auto_within_10_percent": 14, "not_best_on_one": 6, "soon": 16}
MOST = {"always_one": 10, "always_all": 10}


@dataclass(frozen=True)
class Case:
    """A model and a place. mbit: the link between two hosts; 0: one host. nodes: the most that `auto` may choose."""

    model: str
    mbit: int
    nodes: int

    @property
    def name(self) -> str:
        """The case's name on the command line."""
        return f"{self.model}-{self.mbit or 'host'}"

    @property
    def epochs(self) -> int:
        """The epochs of all runs."""
        return EPOCHS[self.model][self.mbit]


CASES = [
    *(Case(model, mbit, 2) for model in MODELS for mbit in LINKS),
    *(Case(model, 0, 3) for model in MODELS),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and the JSON line; the exit status."""
    from benchmarks.helpers import busy, end_orderly, told_busy

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in CASES]
    parser.add_argument("file", type=Path, help="where the rows are kept")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CASE", help="these cases alone")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # the folder to work in, in the namespaces
    arguments = parser.parse_args(argv)
    cases = [case for case in CASES if case.name in arguments.only]
    if arguments.inside is not None:
        from benchmarks.slow_link_hosts import clean_environment

        clean_environment()
        return _measure(cases, arguments.file, arguments.inside)
    from benchmarks.slow_link_hosts import isolated, missing

    if problem := refused(arguments.file) or missing(max(LINKS)):
        print(f"auto.py: {problem}", file=sys.stderr)
        return 2
    told_busy([busy()])
    end_orderly()
    with tempfile.TemporaryDirectory(prefix="auto-") as work:
        own = sys.argv[1:] if argv is None else list(argv)
        try:
            return isolated([sys.executable, str(Path(__file__).resolve()), *own, "--inside", work], Path(work))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT


def settings() -> dict[str, Any]:
    """The commit, and what the cases are: the first line of the file of rows."""
    from benchmarks.sealed import ROWS, commit

    names = [[case.name, case.nodes] for case in CASES]
    made = {"commit": commit(), "cases": names, "models": MODELS, "rows": ROWS, "epochs": EPOCHS}
    known: dict[str, Any] = json.loads(json.dumps(made))
    return known


def refused(file: Path) -> str | None:
    """Why no rows may be added to `file`; None if they may, or if it does not exist yet."""
    if not file.exists():
        return None if file.parent.is_dir() else f"{file.parent}: no such folder"
    now = settings()
    try:
        there, *rows = [json.loads(line) for line in file.read_text().splitlines()]
        is_own = there.keys() == now.keys() and all("case" in row for row in rows)
    except (ValueError, AttributeError, TypeError):
        is_own = False
    if not is_own:
        return f"{file}: is no file of this program; name another file"
    if there["commit"] != now["commit"]:
        return f"{file}: is of the commit {there['commit']} (this checkout: {now['commit']}); name another file"
    return None if there == now else f"{file}: is of other cases than this program has; name another file"


def kept_rows(file: Path) -> list[dict[str, Any]]:
    """The rows in `file`."""
    return [json.loads(line) for line in file.read_text().splitlines()[1:]] if file.exists() else []


def keep(file: Path, added: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    """Add a row to `file`. An interruption leaves the file as it was, or whole. first: the first line."""
    whole = file.with_name(f"{file.name}.{os.getpid()}")
    whole.write_text("".join(f"{json.dumps(line)}\n" for line in (first, *kept_rows(file), added)))
    whole.replace(file)


def _measure(cases: Sequence[Case], file: Path, work: Path) -> int:
    """Run the cases that are not in `file`, and print what came out. Inside the namespaces."""
    first, done = settings(), {row["case"] for row in kept_rows(file)}
    if left := [case for case in cases if case.name not in done]:
        print(f"{len(left)} of {len(cases)} cases are left", file=sys.stderr)
        _run(left, work, lambda row: keep(file, row, first))
    found_rows = {row["case"]: row for row in kept_rows(file)}
    rows = [found_rows[case.name] for case in cases if case.name in found_rows]
    failed = [case.name for case in cases if case.name not in found_rows]
    print("\n".join(table(rows)))
    found = figures(rows)
    print(json.dumps({"commit": first["commit"], "cases": len(rows), **found, "failed": failed, "rows": rows}))
    return int(bool(failed) or (len(cases) == len(CASES) and is_missed(found)))


def _run(cases: Sequence[Case], work: Path, done: Callable[[dict[str, Any]], None]) -> None:
    """Run `cases`, and call `done` with the row of each. What fails is said, and the others go on."""
    from benchmarks.sealed import SAVED, _prepared
    from benchmarks.slow_link_hosts import FAR, NEAR, Hosts, spark
    from sparksplit.spark.session import spark_session

    hosts = Hosts(max(LINKS), SAVED)
    data: dict[str, Path] = {}
    for name in dict.fromkeys(case.model for case in cases):
        with _going_on(f"the data of {name}"):
            data[name] = _prepared(name, work)
    for places in ((NEAR, FAR), (NEAR, NEAR, NEAR)):
        here = [case for case in cases if case.nodes == len(places) and case.model in data]
        if not here:
            continue
        folder, is_pinned, warm = work / f"spark-{len(places)}", len(places) == 2, set[str]()
        with (
            _going_on(f"Spark with {len(places)} workers"),
            spark(hosts, places, folder, pinned=is_pinned),
            spark_session("auto", len(places)),
        ):
            for case in here:
                with _going_on(case.name):
                    if case.mbit:
                        hosts.limit(case.mbit)
                    if case.model not in warm:
                        _warm_up(case, data[case.model], work)
                        warm.add(case.model)
                    done(found := row(case, dict(_runs(case, data[case.model], work))))
                    print("\n".join(table([found])[1:]), file=sys.stderr)


@contextmanager
def _going_on(what: str) -> Iterator[None]:
    """Say that the block failed, and go on behind it."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        print(f"{what}: failed: {error}", file=sys.stderr)


def _warm_up(case: Case, data: Path, work: Path) -> None:
    """Train for two epochs on all nodes of the place: the first run in a Spark session starts slower."""
    keys = {"strategy": "batch", "nodes": case.nodes, "epochs": 2}
    _train(case, data, work / f"{case.name}-warm-{case.nodes}", keys)


def _runs(case: Case, data: Path, work: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """run.json of each run of a case: by number of nodes, and of `auto`."""
    for nodes in range(1, case.nodes + 1):
        keys = {"strategy": "single" if nodes == 1 else "batch", "nodes": nodes}
        yield str(nodes), _train(case, data, work / f"{case.name}-{nodes}", keys)
    yield "auto", _train(case, data, work / f"{case.name}-auto", {"strategy": "auto", "nodes": case.nodes})


def _train(case: Case, data: Path, output: Path, keys: Mapping[str, Any]) -> dict[str, Any]:
    """run.json of a run of `sparksplit train`, in the place's Spark session."""
    from sparksplit.commands.train import COMMAND

    config = {
        "data": str(data), "output": str(output), "optimizer": {"name": "sgd", "learning_rate": 0.01}, "seed": 1,
        "epochs": case.epochs, "checkpoint": {"seconds": None, "every": None}, **MODELS[case.model], **keys,
    }  # fmt: skip
    file = output.with_suffix(".json")
    file.write_text(json.dumps(config))
    with redirect_stdout(sys.stderr):
        status = COMMAND.main(["--config", str(file)])
    if status:
        raise RuntimeError(f"{output.name}: sparksplit train ended with {status}")
    run: dict[str, Any] = json.loads((output / "run.json").read_text())
    if not run["ledger"]["exact"]:
        raise RuntimeError(f"{output.name}: the ledger is not exact: {run['ledger']}")
    if case.mbit and len(set(run["hosts"])) != run["nodes"]:
        raise RuntimeError(f"{output.name}: {run['nodes']} nodes were on the hosts {run['hosts']}")
    return run


def row(case: Case, runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A case's row, from run.json by number of nodes and of `auto`."""

    def seconds(name: str) -> float:
        return float(runs[name]["seconds"]["train"] + runs[name]["seconds"]["feed"])

    auto, numbers = runs["auto"], [name for name in runs if name != "auto"]
    chosen, best = str(auto["choice"]["nodes"]), min(numbers, key=seconds)
    return {
        "case": case.name,
        "seconds": {name: round(seconds(name), 3) for name in numbers},
        "auto": round(seconds("auto"), 3),
        "chosen": int(chosen),
        "best": int(best),
        "loss": round(seconds(chosen) / seconds(best) - 1, 4),
        "auto_loss": round(seconds("auto") / seconds(best) - 1, 4),
        "step_seconds": auto["choice"]["seconds"],
        "before": round(auto["seconds"]["start"] - runs[chosen]["seconds"]["start"], 1),
    }


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How good the choices were, and how good they could have been without choosing."""
    slower = [[each / min(row["seconds"].values()) > WITHIN for each in row["seconds"].values()] for row in rows]
    return {
        "within_10_percent": sum(1 + row["loss"] <= WITHIN for row in rows),
        "auto_within_10_percent": sum(1 + row["auto_loss"] <= WITHIN for row in rows),
        "always_one": sum(not numbers[0] for numbers in slower),
        "always_all": sum(not numbers[-1] for numbers in slower),
        "decisive": sum(any(numbers) for numbers in slower),
        "not_best_on_one": sum(numbers[0] for numbers in slower),
        "soon": sum(row["before"] <= max(SOON, 0.1 * row["auto"]) for row in rows),
        "largest_loss": max((row["loss"] for row in rows), default=None),
        "largest_auto_loss": max((row["auto_loss"] for row in rows), default=None),
        "before": max((row["before"] for row in rows), default=None),
    }


def is_missed(found: Mapping[str, Any]) -> bool:
    """Whether a goal was missed, or the cases show nothing."""
    return any(found[name] < least for name, least in GOALS.items()) or any(
        found[name] > most for name, most in MOST.items()
    )


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of the table."""
    lines = [
        f"{'case':10} {'1 node':>8} {'2 nodes':>8} {'3 nodes':>8} {'best':>5} {'chosen':>7} {'loss':>7} {'auto':>8} "
        f"{'its loss':>8} {'before':>7}"
    ]
    for one in rows:
        times = [f"{one['seconds'][name]:.2f}s" if name in one["seconds"] else "-" for name in ("1", "2", "3")]
        lines.append(
            f"{one['case']:10} {times[0]:>8} {times[1]:>8} {times[2]:>8} {one['best']:>5} {one['chosen']:>7} "
            f"{one['loss']:>7.1%} {one['auto']:>7.2f}s {one['auto_loss']:>8.1%} {one['before']:>6.1f}s"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
