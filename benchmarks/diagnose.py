"""Whether `sparksplit diagnose` names the limit that was planted, and whether what it recommends helps.

    sudo python benchmarks/diagnose.py [--times 10] [--seed S] [--only transform reader link model skew control]

Each limit is 1.5 to 4 times as slow as the next one, as the seed draws it:

    transform   a transform that sleeps, or keeps a core busy in NumPy or in Python
    reader      a data set that does not fit into cache_mb, on an HDFS whose DataNodes send no faster than tc lets them
    link        two nodes that share mini-batches, on two hosts (network namespaces) with a slow link between them
    model       a multi-layer perceptron with as many hidden units as it takes; a sleeping transform is the next limit
    skew        for preprocess: gzipped files, one of which has 3 to 8 times as many rows as the others together; so
                many that two slots lose 1.5 to 4 times what a preparation takes whatever its rows are, the next limit
    control     nothing is planted: MLP 784-128-10 from memory, on one node, or on two that agree every 64 steps

First the step without anything planted is measured, by `sparksplit train`: the strengths are relative to it, which is
more than any of its parts; and preparations of an even and of a skewed input, by executors that have a processor each.
The data are MNIST (SPARKSPLIT_DATA), or random rows of its shape. All runs in namespaces of its own; one Spark session
serves all trials of a place.

A line for each trial: what was planted, what was named, and what the recommended settings brought when `diagnose`
measured them (how many times as many rows/s, with the interval).

Nothing else should run on the machine: on two cores that other work shared, trials took 40 to 110 s, and intervals were
so wide that most of what was recommended did not measurably help.

The last line is one JSON object: seed; for each scenario {times, named, helped}, of so many trials in how many the
limit was named, and in how many what was recommended helped; seconds, of all. Exit status 1 where one of them was not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.diagnose_places import SlowStorage, slow_storage  # noqa: E402
from benchmarks.diagnose_plan import (  # noqa: E402
    SCENARIOS,
    Outcome,
    Trial,
    judged,
    line,
    link_mbit,
    reached,
    row_seconds,
    rows_for,
    skewed,
    summary,
    trial,
    units,
)
from benchmarks.helpers import end_orderly, mnist, own_output  # noqa: E402
from benchmarks.slow_link_hosts import FAR, NEAR, Hosts, clean_environment, isolated, missing, spark  # noqa: E402
from sparksplit.spark.session import spark_session  # noqa: E402

ROWS, BATCH, UNITS = 60_000, 128, 128
LINK_BATCH = 1024
"""Of the two hosts: so much to compute between two exchanges that a link of some 100 Mbit/s is slow."""
LARGE = 1024
"""Units of the larger of the two models by which those of the heavy model are found."""
EFFORT: dict[str, Any] = {
    "block": 0.3,
    "reading": 1.0,
    "rounds": 4,
    "most_rounds": 10,
    "seconds": 12.0,
    "sweep_rounds": 3,
    "readers": [0, 1, 2, 4],
}
SKEW_ROWS, SKEW_COLUMNS = 150_000, 60
"""The rows that all inputs of preparations repeat."""
TRIED_ROWS, TRIED_TIMES = 600_000, 7.0
"""Of the even input and of the skewed one that say what an idle slot costs."""
EVEN = 1.03
"""A skewed input that takes no more than this many times as long as an even one is lost in what else is going on."""
EPOCHS = 4
"""Of what is measured without a planted limit; the first one counts not."""


def main(argv: Sequence[str] | None = None) -> int:
    """Plant, diagnose, print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="trials of each scenario; 2 are a quick check")
    parser.add_argument("--seed", type=int, help="of what is planted; by default one is drawn, and printed")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=SCENARIOS)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # the folder to work in, in the namespaces
    arguments = parser.parse_args(argv)
    if arguments.seed is None:
        arguments.seed = random.randrange(1 << 31)
    if arguments.inside is not None:
        return _measure(arguments)
    problem = missing(1) or ("--times: must be at least 1" if arguments.times < 1 else None)
    if problem is not None:
        print(f"diagnose.py: {problem}", file=sys.stderr)
        return 2
    end_orderly()
    own = ["--times", str(arguments.times), "--seed", str(arguments.seed), "--only", *arguments.only]
    with tempfile.TemporaryDirectory(prefix="diagnose-") as work:
        try:
            return isolated([sys.executable, str(Path(__file__).resolve()), *own, "--inside", work], Path(work))
        except KeyboardInterrupt:
            return 128 + signal.SIGINT


def _measure(arguments: argparse.Namespace) -> int:
    """All of it, inside the namespaces."""
    clean_environment()
    began = time.perf_counter()
    told(f"seed {arguments.seed}")
    done: list[tuple[Trial, Outcome]] = []
    with own_output():
        bench = Bench(arguments.inside)
        for place, scenarios in PLACES:
            wanted = [name for name in arguments.only if name in scenarios]
            if not wanted:
                continue
            with place(bench, wanted):
                for number in range(arguments.times):
                    for name in wanted:
                        planted = trial(arguments.seed, name, number)
                        start = time.perf_counter()
                        outcome = judged(planted, scenarios[name](bench, planted))
                        done.append((planted, outcome))
                        told(f"{line(planted, outcome)} ({time.perf_counter() - start:.0f} s)")
    result = summary(done)
    print(json.dumps({"seed": arguments.seed, **result, "seconds": round(time.perf_counter() - began)}))
    return 0 if reached(result) else 1


class Bench:
    """What all trials share: the data, and what the step takes with nothing planted."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.hosts = Hosts(0)
        self.data = work / "prepared"
        make_data(str(self.data))
        self.storage: SlowStorage
        """Where the scenario `reader` is wanted."""
        self._steps: dict[str, float] = {}
        self._count = 0

    @cached_property
    def lines(self) -> list[str]:
        """The lines of a CSV file, the first of which has its columns' names."""
        values = np.random.default_rng(0).integers(-10_000, 10_000, (SKEW_ROWS, SKEW_COLUMNS)) / 100
        names = ["copy", *(f"x{number}" for number in range(SKEW_COLUMNS))]
        rows = (",".join(map(str, row)) + f",{number % 3}\n" for number, row in enumerate(values.tolist()))
        return [",".join([*names, "label"]) + "\n", *rows]

    def preparation(self, counts: Sequence[int]) -> dict[str, Any]:
        """Of a preparation of gzipped CSV files of so many rows, no two of which are equal."""
        folder = self.folder()
        folder.mkdir()
        header, *lines = self.lines
        begin = 0
        for number, count in enumerate(counts):
            with gzip.open(folder / f"part-{number:02}.csv.gz", "wt", compresslevel=1) as file:
                file.write(header)
                places = (divmod(place, len(lines)) for place in range(begin, begin + count))
                file.writelines(f"{copy},{lines[line]}" for copy, line in places)
            begin += count
        return {"input": {"format": "csv", "path": str(folder), "label": "label"}, "output": str(self.folder())}

    @cached_property
    def even(self) -> tuple[float, float]:
        """Of preparations with nothing planted: (seconds whatever the rows are, seconds of a slot that each row of the
        input is worth, where another slot is idle meanwhile)"""
        from sparksplit.diagnosis.preprocess.parts import DRIVERS

        seconds = []
        for counts in ([TRIED_ROWS // 4] * 4, skewed(TRIED_ROWS, 4, TRIED_TIMES)):
            config = self.preparation(counts)
            try:
                # The faster of two: other work only adds.
                found = [diagnosed_preparation(config, 0) for _ in range(2)]
            finally:
                shutil.rmtree(config["input"]["path"])
            seconds.append(min(each["seconds"] for each in found))
            alone = min(sum(part["seconds"] for part in each["parts"] if part["name"] in DRIVERS) for each in found)
        even, uneven = seconds
        if uneven < EVEN * even:
            raise ValueError(
                f"{TRIED_ROWS} rows take {even:.1f} s, and skewed {uneven:.1f} s: too much else is going on"
            )
        row = row_seconds(uneven - even, TRIED_ROWS, TRIED_TIMES)
        told(f"nothing planted, a preparation: {alone:.2f} s whatever its rows are; {1e6 * row:.2f} us of a slot a row")
        return alone, row

    def config(self, **keys: Any) -> dict[str, Any]:
        """Of a training run, without its output."""
        return {
            "data": str(self.data),
            "model": {"build": "mlp", "params": {"hidden": [UNITS]}},
            "optimizer": {"name": "sgd", "learning_rate": 0.05},
            "batch_size": BATCH,
            "epochs": EPOCHS,
            **keys,
        }

    def step(self, name: str, **keys: Any) -> float:
        """Seconds per row of a run with nothing planted; measured once for each name."""
        if name not in self._steps:
            self._steps[name] = trained(self.config(**keys), self.folder())
            told(f"nothing planted, {name}: {1 / self._steps[name]:,.0f} rows/s")
        return self._steps[name]

    def folder(self) -> Path:
        """A new name in the folder to work in."""
        self._count += 1
        return self.work / f"run{self._count}"

    def transform(self, how: str, microseconds: float) -> str:
        """The name of a transform that costs so much for each row."""
        text, mark = (HERE / "diagnose_transform.py").read_text(), 'HOW, MICROSECONDS = "sleep", 0.0\n'
        assert mark in text
        file = self.folder().with_suffix(".py")
        file.write_text(text.replace(mark, f"HOW, MICROSECONDS = {how!r}, {microseconds!r}\n"))
        return f"{file}:costly"

    def diagnosed(self, **keys: Any) -> dict[str, Any]:
        """diagnosis.json of such a run."""
        return diagnosed(self.config(**keys), self.folder())


def make_data(path: str) -> None:
    """Write the prepared data set."""
    from sparksplit.dataset.arrays import from_arrays

    chance = np.random.default_rng(0)
    x, y = mnist("train") or (chance.integers(0, 256, (ROWS, 28, 28), np.uint8), chance.integers(0, 10, ROWS))
    from_arrays(path, {"train": (x, y)}, classes=10, scaling="unit")


def told(text: str) -> None:
    """A line of the benchmark's own."""
    print(text, file=sys.__stdout__, flush=True)


def trained(config: dict[str, Any], output: Path) -> float:
    """Seconds per row by `sparksplit train`, in the fastest epoch after the first."""
    import sparksplit

    sparksplit.train(output=str(output), **config)
    epochs = [json.loads(text) for text in (output / "metrics.jsonl").read_text().splitlines()]
    return min(float(epoch["seconds"]["train"] / epoch["rows"]) for epoch in epochs[1:])


def diagnosed(config: dict[str, Any], output: Path) -> dict[str, Any]:
    """What diagnosis.json holds of a training run, with shorter measurements than the command's."""
    from sparksplit.base.config import parse
    from sparksplit.diagnosis import diagnosis_record
    from sparksplit.diagnosis.diagnose import diagnose
    from sparksplit.diagnosis.messages import Effort
    from sparksplit.training.train_config import TrainConfig

    own = parse(TrainConfig, {**config, "output": str(output)})
    measured = diagnose(own, Effort(**EFFORT))
    return diagnosis_record.of(own, measured, made="", seconds=0.0, hosts=[], versions={}).to_json()


def diagnosed_preparation(config: dict[str, Any], pairs: int | None = None) -> dict[str, Any]:
    """diagnosis.json of a preparation of data. pairs: how often what would help is tried; None: as the command does"""
    from sparksplit.base.config import parse
    from sparksplit.diagnosis.preprocess.diagnose_preprocess import PAIRS, diagnose_preprocess
    from sparksplit.prepare.preprocess_config import PreprocessConfig

    return diagnose_preprocess(parse(PreprocessConfig, config), PAIRS if pairs is None else pairs).to_json()


# What is planted: each gives what diagnosis.json holds.


def transform(bench: Bench, planted: Trial) -> dict[str, Any]:
    """A costly transform."""
    assert planted.strength is not None
    microseconds = planted.strength * bench.step("one node") * 1e6
    name = bench.transform(planted.draws["how"], microseconds)
    return bench.diagnosed(transform=name, readers=planted.draws["readers"])


def model(bench: Bench, planted: Trial) -> dict[str, Any]:
    """A heavy model, beside a transform that takes about as long as a light one."""
    assert planted.strength is not None
    light = bench.step("one node")
    heavy = bench.step(f"one node, {LARGE} units", model={"build": "mlp", "params": {"hidden": [LARGE]}})
    hidden = units(planted.strength, light, (UNITS, light), (LARGE, heavy))
    return bench.diagnosed(
        model={"build": "mlp", "params": {"hidden": [hidden]}}, transform=bench.transform("sleep", light * 1e6)
    )


def control(bench: Bench, planted: Trial) -> dict[str, Any]:
    """Nothing."""
    if planted.draws["strategy"] == "single":
        return bench.diagnosed(strategy="single", nodes=1)
    # Nodes that share mini-batches this small do wait for one another.
    return bench.diagnosed(strategy="local", nodes=2, sync={"every": 64})


def reader(bench: Bench, planted: Trial) -> dict[str, Any]:
    """A slow HDFS."""
    assert planted.strength is not None
    seconds = bench.step("one node")
    stored = sum(file.stat().st_size for file in (bench.data / "train").iterdir())
    bench.storage.limit(stored / ROWS / (planted.strength * seconds) / 1e6)
    try:
        return bench.diagnosed(data=f"{bench.storage.uri}/prepared", cache_mb=0)
    finally:
        bench.storage.limit(None)


def link(bench: Bench, planted: Trial) -> dict[str, Any]:
    """A slow link between two hosts."""
    assert planted.strength is not None
    keys: dict[str, Any] = {"strategy": "batch", "nodes": 2, "batch_size": LINK_BATCH}
    seconds = bench.step("two hosts", **keys)
    weights = 28 * 28 * UNITS + UNITS + UNITS * 10 + 10
    bench.hosts.limit(link_mbit(planted.strength, seconds * LINK_BATCH, weights * 4))
    return bench.diagnosed(**keys)


def skew(bench: Bench, planted: Trial) -> dict[str, Any]:
    """A large file, which one task has to read, among small ones."""
    assert planted.strength is not None
    alone, row = bench.even
    times = planted.draws["times"]
    rows = rows_for(planted.strength, alone, row, times)
    config = bench.preparation(skewed(rows, planted.draws["files"], times))
    try:
        return diagnosed_preparation(config)
    finally:
        shutil.rmtree(config["input"]["path"])


# Where trials run.


@contextmanager
def one_host(bench: Bench, scenarios: Sequence[str]) -> Iterator[None]:
    """Two executors of one core on one host, beside a slow HDFS where that is wanted."""
    with ExitStack() as stack:
        if "reader" in scenarios:
            bench.storage = stack.enter_context(slow_storage())
            make_data(f"{bench.storage.uri}/prepared")
        stack.enter_context(spark(bench.hosts, (NEAR, NEAR), bench.work / "one_host"))
        stack.enter_context(spark_session("diagnose", 2))
        yield


@contextmanager
def two_processors(bench: Bench, scenarios: Sequence[str]) -> Iterator[None]:
    """Two executors on one host, each with a processor of its own, which a task's JVM and its Python share."""
    with spark(bench.hosts, (NEAR, NEAR), bench.work / "pinned", pinned=True), spark_session("diagnose", 2):
        yield


@contextmanager
def two_hosts(bench: Bench, scenarios: Sequence[str]) -> Iterator[None]:
    """An executor of one core on each of two hosts."""
    with spark(bench.hosts, (NEAR, FAR), bench.work / "two_hosts"), spark_session("diagnose", 2):
        yield


Planting = Callable[[Bench, Trial], dict[str, Any]]
PLACES: tuple[tuple[Callable[[Bench, Sequence[str]], AbstractContextManager[None]], dict[str, Planting]], ...] = (
    (one_host, {"transform": transform, "reader": reader, "model": model, "control": control}),
    (two_processors, {"skew": skew}),
    (two_hosts, {"link": link}),
)


if __name__ == "__main__":
    sys.exit(main())
