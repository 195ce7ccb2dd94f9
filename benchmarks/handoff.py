"""The hand-off measured: Spark's rows to tensors on the nodes, against TensorFlowOnSpark's feed and what limits both.

    python benchmarks/handoff.py --rows 200000 --nodes 2

Rows of 784 uint8 and a label, from a Spark DataFrame to tf.Tensors of 128 rows on a node; all contenders in one run,
on the same machine and rows, three alternating repeats after a warm-up, medians of rows/s summed over the nodes:

    spark           input_mode: spark, from the first row leaving Spark to the last tensor
    spool           a later epoch of it, from the node's own disk
    tensorflow      input_mode: tensorflow, from the Parquet files
    datafeed        TensorFlowOnSpark's DataFeed, 784 numbers and a label a row, about ten seconds of it
    datafeed_bytes  the same with 784 bytes and a label
    pyarrow         a limit: pyarrow reading those Parquet files in one thread
    memcpy          a limit: copying the rows in memory in one thread

The last line is one JSON object: rows_per_second of each; ratio_to_datafeed and ratio_to_datafeed_bytes (of
spark); spool_to_datafeed; share_of_limit (tensorflow per node, to pyarrow); peak memory (RssAnon + RssShmem) of a
node and of a feeding task's Python.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VALUES = 784
TIME_LIMIT = 300.0
DATAFEED_ROWS = {"numbers": 20_000, "bytes": 60_000}
"""About ten seconds of each on two cores."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table and the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-datafeed", action="store_true", help="leave TensorFlowOnSpark's feed out")
    arguments = parser.parse_args(argv)
    found: dict[str, list[float]] = defaultdict(list)
    peaks: dict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory(prefix="handoff-") as work:
        data = write_data(Path(work), arguments.rows)
        own = Ours(data, arguments.nodes, peaks)
        try:
            own.warm_up()
            for _ in range(arguments.repeats):
                rates = {**own.measure(), "pyarrow": pyarrow_rate(data), "memcpy": memcpy_rate(Path(work))}
                if not arguments.no_datafeed:
                    rates["datafeed"] = datafeed(Path(work), "numbers", arguments)
                    rates["datafeed_bytes"] = datafeed(Path(work), "bytes", arguments)
                for name, rate in rates.items():
                    found[name].append(rate)
                print("  ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()), file=sys.stderr, flush=True)
        finally:
            own.close()
    report(found, peaks, arguments)
    return 0


class Ours:
    """sparksplit's contenders: a Spark session of nodes + 1 executors, a fresh cluster for each measurement."""

    def __init__(self, data: Any, nodes: int, peaks: dict[str, int]) -> None:
        from sparksplit.spark.session import spark_session

        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._data, self._nodes, self._peaks = data, nodes, peaks
        self._session = spark_session("handoff", nodes + 1)
        self._spark = self._session.__enter__()

    def warm_up(self) -> None:
        """Let every executor, of which any may feed, compile and import what it needs; and measure once."""
        frame = self._spark.read.parquet(str(Path(self._data.path, "train")))
        everywhere = frame.repartition(4 * (self._nodes + 1))
        for _ in range(2):
            rows = everywhere.mapInArrow(_imported, "rows long").agg({"rows": "sum"}).collect()[0][0]
            assert rows == self._data.manifest.splits["train"].rows
        self.measure()

    def measure(self) -> dict[str, float]:
        """Rows/s of each."""
        results = self._run()
        began = min(result["began"] for result in results)
        received = max(result["received"] for result in results)
        ends = max(result["first"][2] for result in results)
        print(f"(handed over in {received - began:.2f} s, first epoch {ends - received:.2f} s)", file=sys.stderr)
        rates = {"spark": _fed(results)}
        for name in ("spool", "tensorflow"):
            spans = [result[name] for result in results]
            rates[name] = sum(span[0] for span in spans) / (max(s[2] for s in spans) - min(s[1] for s in spans))
        return rates

    def _run(self) -> list[dict[str, Any]]:
        """What the nodes say."""
        from sparksplit.cluster import NodeCluster
        from sparksplit.cluster.deadlines import Limits
        from sparksplit.handoff.feeding import Feeding
        from sparksplit.strategies.splits import BatchSplit, owned_by_rank

        states: list[dict[str, Any]] = [{} for _ in range(self._nodes)]
        payload = {"data": self._data.path}
        work = "benchmarks.handoff_node:work"
        with (
            _Memory(self._peaks),
            NodeCluster(
                self._spark, self._nodes, work, payload, on_state=states.__setitem__, spare=1, limits=Limits(TIME_LIMIT)
            ) as cluster,
        ):
            cluster.start()
            owned = owned_by_rank(BatchSplit(), self._data.manifest.lanes, self._nodes)
            with Feeding(self._spark, self._data, None, cluster, states, owned) as feeding:
                results = cluster.run(feeding.go_on)
        rows = sum(result["rows"] for result in results)
        wanted = self._data.manifest.splits["train"].rows
        if rows != wanted:
            raise RuntimeError(f"{rows} rows arrived, not {wanted}")
        return results

    def close(self) -> None:
        """Stop Spark."""
        self._session.__exit__(None, None, None)


def _imported(batches: Iterable[Any]) -> Iterator[Any]:
    """Count rows, in a worker that has imported the sender."""
    import pyarrow as pa

    import sparksplit.handoff.sender  # noqa: F401

    yield pa.RecordBatch.from_pylist([{"rows": sum(batch.num_rows for batch in batches)}])


def _fed(results: Sequence[dict[str, Any]]) -> float:
    """Rows/s from the first row on any node to the last tensor."""
    ends = max(result["first"][2] for result in results)
    return float(sum(result["rows"] for result in results) / (ends - min(result["began"] for result in results)))


class _Memory:
    """Watches RssAnon + RssShmem of the nodes and of Spark's Python workers, while it is open."""

    def __init__(self, peaks: dict[str, int]) -> None:
        self._peaks, self._done = peaks, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            for process in psutil.Process().children(recursive=True):
                try:
                    command = " ".join(process.cmdline())
                    kind = "node" if "node_main" in command else "feeder" if "pyspark.daemon" in command else None
                    if kind is not None:
                        self._peaks[kind] = max(self._peaks[kind], _private_bytes(process.pid))
                except (psutil.Error, OSError):
                    continue  # It has ended meanwhile.


def _private_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in status if line.startswith(("RssAnon:", "RssShmem:")))


def datafeed(work: Path, kind: str, arguments: argparse.Namespace) -> float:
    """Rows/s of TensorFlowOnSpark's feed, in a process and a Spark session of its own."""
    rows = min(arguments.rows, DATAFEED_ROWS[kind])
    command = [sys.executable, str(HERE / "datafeed.py"), kind, str(work)]
    command += ["--rows", str(rows), "--nodes", str(arguments.nodes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    if done.returncode:
        raise RuntimeError(f"datafeed.py ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["rows_per_second"])


def pyarrow_rate(data: Any) -> float:
    """Rows/s of pyarrow reading the training split's columns in one thread, row group by row group."""
    import pyarrow.parquet as pq

    rows, begin = 0, time.perf_counter()
    for path in sorted(Path(data.path, "train").glob("*.parquet")):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            rows += file.read_row_group(group, use_threads=False).num_rows
    return rows / (time.perf_counter() - begin)


def memcpy_rate(work: Path) -> float:
    """Rows/s of copying."""
    rows = np.load(work / "x.npy", mmap_mode="r")[:100_000].copy()
    target = np.empty_like(rows)
    np.copyto(target, rows)
    begin = time.perf_counter()
    np.copyto(target, rows)
    return len(rows) / (time.perf_counter() - begin)


def write_data(work: Path, rows: int) -> Any:
    """Random rows as arrays, for datafeed, and as a prepared data set."""
    from sparksplit.dataset.arrays import from_arrays

    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (rows, VALUES), np.uint8), random.integers(0, 10, rows)
    np.save(work / "x.npy", x)
    np.save(work / "y.npy", y)
    return from_arrays(str(work / "prepared"), {"train": (x, y)}, classes=10)


def report(found: dict[str, list[float]], peaks: dict[str, int], arguments: argparse.Namespace) -> None:
    """Print the table and the JSON line."""
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    print(f"{'':15} {'rows/s':>12} {'lowest':>12} {'highest':>12}")
    for name, rates in found.items():
        print(f"{name:15} {medians[name]:>12,.0f} {min(rates):>12,.0f} {max(rates):>12,.0f}")
    figures: dict[str, Any] = {
        "share_of_limit": round(medians["tensorflow"] / arguments.nodes / medians["pyarrow"], 3),
        "peak_mib": {kind: peak >> 20 for kind, peak in peaks.items()},
        "rows": arguments.rows,
        "nodes": arguments.nodes,
        "rows_per_second": {name: round(rate) for name, rate in medians.items()},
    }
    for key, own, peer in (
        ("ratio_to_datafeed", "spark", "datafeed"),
        ("ratio_to_datafeed_bytes", "spark", "datafeed_bytes"),
        ("spool_to_datafeed", "spool", "datafeed"),
    ):
        if peer in medians:
            figures[key] = round(medians[own] / medians[peer], 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
