"""Raw rows to a prepared data set, measured against plain Spark and against TensorFlowOnSpark.

    python benchmarks/preprocess.py [--rows 5000000] [--repeats 3]
    python benchmarks/preprocess.py --gigabytes 10 [--format csv]

Three inputs: 60,000 rows of MNIST (SPARKSPLIT_DATA, or generated rows of its shape), and generated rows of 20 numbers
and a label, the same rows as Parquet and as CSV. Three contenders on two executors of 1 GiB, in turn, three times over;
medians:

    ours   sparksplit preprocess: every row checked, hashed, numbered, dealt to splits and lanes, sorted, written
    spark  spark.read of the same files and write.parquet of the same columns with the same codec, and nothing else
    tfos   TensorFlowOnSpark's dfutil.saveAsTFRecords (of the table its first 500,000 rows: its rate does not change)

Each measurement is a Spark application of its own, so that none finds another's compiled code, heap or cache. Its
start is not timed: the clock starts when every executor has run a trivial job, and stops when the output is complete.
Neither peer reads IDX, so both get MNIST as Parquet with a binary column of 784 pixels. Plain Spark is told the types
of the CSV's columns, which spares it the pass that would find them out.

The last line is one JSON object: mnist_ratio_to_tfos, mnist_ratio_to_spark_write, table_ratio_to_tfos,
table_ratio_to_spark_write, csv_ratio_to_spark_write (rows/s of ours to theirs), rows/s, seconds of all cores (cpu) per
million rows, and peak memory of the executors (JVMs and Pythons together).

--gigabytes: instead of all that, so many GiB of input once through ours, and what that read, shuffled, spilled, wrote
and held in memory; the figures of the table in docs/operations.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
VALUES = 20
FILE_ROWS = 500_000
GROUP_ROWS = 50_000
PROBE_ROWS = 50_000
"""How many rows tell how large a row is."""
TFOS_ROWS = FILE_ROWS
"""How many rows of the table TensorFlowOnSpark gets."""
MNIST_ROWS, MNIST_TEST = 60_000, 10_000


@dataclass(frozen=True)
class Case:
    """One contender's way with one input. path: within the work folder."""

    name: str
    contender: str
    format: str
    path: str


CASES = (
    Case("mnist", "ours", "idx", "mnist"),
    Case("mnist", "spark", "parquet", "mnist.parquet"),
    Case("mnist", "tfos", "parquet", "mnist.parquet"),
    Case("table", "ours", "parquet", "table.parquet"),
    Case("table", "spark", "parquet", "table.parquet"),
    Case("table", "tfos", "parquet", "first.parquet"),
    Case("csv", "ours", "csv", "table.csv"),
    Case("csv", "spark", "csv", "table.csv"),
)
RATIOS = (("mnist", "tfos"), ("mnist", "spark"), ("table", "tfos"), ("table", "spark"), ("csv", "spark"))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the generated table")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="CASE or CASE/CONTENDER, such as table csv/ours (default: all)")
    parser.add_argument("--gigabytes", type=float, help="measure ours alone, once, on so many GiB of the table")
    parser.add_argument("--format", choices=("csv", "parquet"), default="parquet", help="of --gigabytes")
    parser.add_argument("--work", type=Path, help="a folder with room for the inputs (default: a temporary one)")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="preprocess-", dir=arguments.work) as work:
        if arguments.gigabytes is not None:
            at_size(Path(work), arguments)
            return 0
        cases = [case for case in CASES if chosen(case, arguments.only)]
        for path in dict.fromkeys(case.path for case in cases):
            make_input(Path(work), path, arguments.rows)
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for _ in range(arguments.repeats):
            for case in cases:
                figures = measured(case, Path(work), rows_of(case.path, arguments.rows), arguments.executors)
                found[f"{case.name}/{case.contender}"].append(figures)
                print(f"{case.name}/{case.contender}: {json.dumps(figures)}", file=sys.stderr, flush=True)
    report(found, arguments)
    return 0


def chosen(case: Case, only: Sequence[str] | None) -> bool:
    """Whether the user wants it."""
    return only is None or case.name in only or f"{case.name}/{case.contender}" in only


def measured(case: Case, work: Path, rows: int, executors: int) -> dict[str, Any]:
    """The figures of one contender, from a process of its own. rows: that it handles."""
    output = work / "output"
    command = [sys.executable, str(HERE / "preprocess_contender.py"), case.contender, case.format]
    command += [str(work / case.path), str(output), "--executors", str(executors)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(output, ignore_errors=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if figures["rows"] not in (None, rows):
        raise RuntimeError(f"{figures['rows']} rows were prepared, not {rows}")
    return {**figures, "rows": rows}


def at_size(work: Path, arguments: argparse.Namespace) -> None:
    """Prepare so many GiB of the table, and print what it took."""
    path = f"table.{arguments.format}"
    write_table(work / f"probe.{arguments.format}", PROBE_ROWS)
    probe = sum(file.stat().st_size for file in (work / f"probe.{arguments.format}").iterdir())
    rows = int(arguments.gigabytes * 2**30 * PROBE_ROWS / probe)
    make_input(work, path, rows)
    case = Case("table", "ours", arguments.format, path)
    figures = measured(case, work, rows, arguments.executors)
    figures["read_bytes"] = sum(file.stat().st_size for file in (work / path).iterdir())
    figures["rows_per_second"] = round(figures["rows"] / figures["seconds"])
    print(json.dumps({"gigabytes": arguments.gigabytes, "format": arguments.format, **figures}))


def rows_of(path: str, rows: int) -> int:
    """The rows of an input. rows: of the table."""
    return {"mnist": MNIST_ROWS, "mnist.parquet": MNIST_ROWS, "first.parquet": TFOS_ROWS}.get(path, rows)


def make_input(work: Path, path: str, rows: int) -> None:
    """Write the input `path` into `work`. rows: of the table."""
    if path == "mnist":
        write_idx(work / path, *mnist())
    elif path == "mnist.parquet":
        x, y = mnist()
        pixels = pa.array([row.tobytes() for row in x], pa.binary())
        (work / path).mkdir()
        for start in range(0, len(y), MNIST_TEST):
            part = pa.table({"x": pixels, "label": y.astype(np.int64)}).slice(start, MNIST_TEST)
            pq.write_table(part, work / path / f"part-{start:06d}.parquet", row_group_size=1_000)
    else:
        write_table(work / path, rows_of(path, rows))


def write_table(folder: Path, rows: int) -> None:
    """`rows` rows in files of FILE_ROWS: 20 float32 of four decimals, c0 to c19, and a label of 0 to 9."""
    folder.mkdir()
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        file = folder / f"part-{number:05d}{folder.suffix}"
        random, count = np.random.default_rng(number), min(FILE_ROWS, rows - start)
        values = random.normal(size=(VALUES, count)).astype(np.float32).round(4)
        columns = {f"c{place}": column for place, column in enumerate(values)}
        table = pa.table({**columns, "label": random.integers(0, 10, count, np.int32)})
        if folder.suffix == ".csv":
            # As decimals, because a float32 of four decimals is none in the writer's float64.
            text = pa.table({name: _decimals(table.column(name)) for name in columns})
            pc.write_csv(text.append_column("label", table.column("label")), file, _PLAIN)
        else:
            pq.write_table(table, file, row_group_size=GROUP_ROWS)


_PLAIN = pc.WriteOptions(quoting_style="none")


def _decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.float64()).cast(pa.decimal128(10, 4), safe=False).cast(pa.string())


def mnist() -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, np.dtype[np.uint8]]]:
    """60,000 rows: uint8 [rows, 784] and uint8 [rows]; generated where SPARKSPLIT_DATA has no MNIST."""
    folder = Path(os.environ.get("SPARKSPLIT_DATA", "/nowhere"), "mnist")
    try:
        x, y = (
            gzip.decompress((folder / f"train-{name}-ubyte.gz").read_bytes()) for name in ("images-idx3", "labels-idx1")
        )
    except FileNotFoundError:
        random = np.random.default_rng(0)
        pixels = random.integers(0, 256, (MNIST_ROWS, 784), np.uint8) * (random.random((MNIST_ROWS, 784)) < 0.2)
        return pixels.astype(np.uint8), random.integers(0, 10, MNIST_ROWS, np.uint8)
    return np.frombuffer(x, np.uint8, offset=16).reshape(-1, 784), np.frombuffer(y, np.uint8, offset=8)


def write_idx(folder: Path, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
    """MNIST's four files, the last 10,000 rows as the test files; not compressed, so that both executors have work."""
    folder.mkdir()
    cut = len(y) - MNIST_TEST
    for name, rows in (("train", slice(0, cut)), ("t10k", slice(cut, None))):
        header = b"\0\0\x08\x03" + b"".join(int(size).to_bytes(4, "big") for size in (len(y[rows]), 28, 28))
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + x[rows].tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\x01" + len(y[rows]).to_bytes(4, "big") + y[rows].tobytes()
        )


def ratios(rates: Mapping[str, float]) -> dict[str, float]:
    """Rows/s of ours to its peers', of what was measured. rates: by CASE/CONTENDER."""
    names = {"tfos": "tfos", "spark": "spark_write"}
    return {
        f"{case}_ratio_to_{names[peer]}": round(rates[f"{case}/ours"] / rates[f"{case}/{peer}"], 3)
        for case, peer in RATIOS
        if f"{case}/ours" in rates and f"{case}/{peer}" in rates
    }


def report(found: Mapping[str, Sequence[Mapping[str, Any]]], arguments: argparse.Namespace) -> None:
    """Print the table and the JSON line."""
    rates = {name: [each["rows"] / each["seconds"] for each in of] for name, of in found.items()}
    medians = {name: statistics.median(of) for name, of in rates.items()}
    cpu = {name: statistics.median(each["cpu_seconds"] / each["rows"] for each in of) for name, of in found.items()}
    peaks = {name: statistics.median(each["peak_mib"]["executors"] for each in of) for name, of in found.items()}
    print(f"{'':14} {'rows/s':>12} {'lowest':>12} {'highest':>12} {'cpu s/M rows':>13} {'peak MiB':>9}")
    for name, of in rates.items():
        print(
            f"{name:14} {medians[name]:>12,.0f} {min(of):>12,.0f} {max(of):>12,.0f}"
            f" {cpu[name] * 1e6:>13.1f} {peaks[name]:>9,.0f}"
        )
    figures = {
        **ratios(medians),
        "rows": arguments.rows,
        "executors": arguments.executors,
        "rows_per_second": {name: round(rate) for name, rate in medians.items()},
        "cpu_seconds_per_million": {name: round(seconds * 1e6, 1) for name, seconds in cpu.items()},
        "peak_mib": peaks,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(main())
