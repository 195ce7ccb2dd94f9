"""One measurement of benchmarks/preprocess.py, in a process and a Spark application of its own.

    python benchmarks/preprocess_contender.py ours|spark|tfos FORMAT INPUT OUTPUT --executors N

Starts Spark with N executors, has a trivial job run in each, and only then starts the clock. Prints one JSON line:
seconds; cpu_seconds of all processes; the rows that ours prepared; peak_mib (RssAnon + RssShmem) of the executors' JVMs
and Pythons together, of the executors' JVMs, of the Pythons and of the driver; Spark's own counts of its stages, in
bytes (input, shuffle, spill) and garbage_seconds; files and bytes that were written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
TFRECORD = {
    "spark.jars.packages": "org.tensorflow:tensorflow-hadoop:1.15.0",
    # It asks for Hadoop 2.6 with all that belongs to it, where Spark has a Hadoop of its own.
    "spark.jars.excludes": "org.apache.hadoop:*",
}
"""For what dfutil.saveAsTFRecords writes with, from Maven Central."""
VALUES = 20
LOOK_SECONDS = 0.2


def main() -> None:
    """Measure once and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("contender", choices=sorted(CONTENDERS))
    parser.add_argument("format", choices=("idx", "csv", "parquet"))
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--executors", type=int, default=2)
    print(json.dumps(measure(parser.parse_args())), flush=True)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of one contender."""
    from sparksplit.spark.session import spark_session

    settings = TFRECORD if arguments.contender == "tfos" else {}
    with spark_session("benchmark", arguments.executors, settings, nodes=False) as spark:
        everywhere = 4 * arguments.executors
        spark.range(everywhere).repartition(everywhere).count()
        cpu, begin = _cpu_seconds(), time.perf_counter()
        with Memory() as memory:
            rows = CONTENDERS[arguments.contender](spark, arguments)
        seconds, cpu = time.perf_counter() - begin, _cpu_seconds() - cpu
        written = [file.stat().st_size for file in Path(arguments.output).rglob("*") if _is_data(file)]
        return {
            "seconds": seconds,
            "cpu_seconds": cpu,
            "rows": rows,
            "peak_mib": {kind: peak >> 20 for kind, peak in memory.peaks.items()},
            "spark": stages(spark),
            "files": len(written),
            "bytes": sum(written),
        }


def _is_data(file: Path) -> bool:
    return file.is_file() and file.name[0] not in "._"


def ours(spark: Any, arguments: argparse.Namespace) -> int:
    """sparksplit preprocess; the rows that it prepared."""
    from sparksplit.base.options import Options
    from sparksplit.prepare.preprocess import preprocess
    from sparksplit.prepare.preprocess_config import PreprocessConfig

    label = {} if arguments.format == "idx" else {"label": "label"}
    config = PreprocessConfig.model_validate(
        {"input": {"format": arguments.format, "path": arguments.input, **label}, "output": arguments.output}
    )
    data = preprocess(config, Options())
    return sum(split.rows for split in data.manifest.splits.values())


def plain_spark(spark: Any, arguments: argparse.Namespace) -> None:
    """Copy the columns with Spark's reader and writer. Spark is told the CSV's types."""
    _read(spark, arguments).write.parquet(arguments.output, compression="lz4_raw")


def tfos(spark: Any, arguments: argparse.Namespace) -> None:
    """TensorFlowOnSpark's way to write what its nodes train on."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from tensorflowonspark import dfutil

    dfutil.saveAsTFRecords(_read(spark, arguments), arguments.output)


def _read(spark: Any, arguments: argparse.Namespace) -> Any:
    if arguments.format == "csv":
        columns = ", ".join(f"c{place} float" for place in range(VALUES)) + ", label int"
        return spark.read.csv(arguments.input, header=True, schema=columns)
    return spark.read.parquet(arguments.input)


CONTENDERS: dict[str, Callable[[Any, argparse.Namespace], int | None]] = {
    "ours": ours,
    "spark": plain_spark,
    "tfos": tfos,
}


def stages(spark: Any) -> dict[str, float]:
    """What Spark counted in all stages so far: bytes, and seconds of collecting garbage."""
    context = spark.sparkContext
    jvm, none = context._jvm, context._gateway.new_array(context._jvm.double, 0)
    store, empty = context._jsc.sc().statusStore(), jvm.java.util.ArrayList()
    found: dict[str, float] = defaultdict(float)
    listed = store.stageList(empty, False, False, none, empty)
    for stage in (listed.apply(place) for place in range(listed.size())):
        found["input"] += stage.inputBytes()
        found["shuffle"] += stage.shuffleWriteBytes()
        found["spill"] += stage.diskBytesSpilled()
        found["garbage_seconds"] += stage.jvmGcTime() / 1000
    return dict(found)


class Memory:
    """Watches RssAnon + RssShmem of this process and what it has started, while it is open; the peaks, in bytes."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = defaultdict(int)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(LOOK_SECONDS):
            now: dict[str, int] = defaultdict(int)
            for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
                try:
                    private = _private_bytes(process.pid)
                    kind = _kind(process)
                    now[kind] += private
                    if kind in ("jvm", "python"):
                        now["executors"] += private
                except (psutil.Error, OSError):
                    continue  # It has ended meanwhile.
            for kind, private in now.items():
                self.peaks[kind] = max(self.peaks[kind], private)


def _kind(process: psutil.Process) -> str:
    """jvm and python: of the executors."""
    command = " ".join(process.cmdline())
    if "CoarseGrainedExecutorBackend" in command:
        return "jvm"
    return "python" if "pyspark.daemon" in command else "driver"


def _private_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in status if line.startswith(("RssAnon:", "RssShmem:")))


def _cpu_seconds() -> float:
    """Of this process and all that it has started, the ended ones among them."""
    seconds = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            seconds += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue
    return seconds


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main()
