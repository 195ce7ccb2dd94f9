"""What writing checkpoints costs training: step times with one every five seconds, against none.

    python benchmarks/checkpoints.py [--quick] [--pairs 10] [--strategy batch] [--folder FOLDER]

Two nodes train a multi-layer perceptron whose weights and momentum are 50 MB, which is what each checkpoint holds. In
one and the same run, blocks of 20 s with a checkpoint every 5 s take turns with blocks without any; a pair's ratio is
the time of a step with, divided by the time of a step without. Which of the two comes first changes from pair to pair.
The interval is a bootstrap's, of the median ratio. --folder: where checkpoints are written, by default a temporary one.

The last line is one JSON object: ratio and interval (95 %), step_seconds, checkpoints, their megabytes, the longest
time that one took to write (seen once a second), pairs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

EVERY = 5.0
BLOCK = 20.0
HIDDEN = 7860
"""Units whose weights, and as many numbers of momentum, are 50 MB in float32."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the JSON line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="check that everything runs; the figures mean nothing")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--strategy", default="batch", choices=("batch", "local"))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args(argv)
    pairs, every, block = (1, 1.0, 3.0) if arguments.quick else (arguments.pairs, EVERY, BLOCK)
    with tempfile.TemporaryDirectory(prefix="checkpoints-", dir=arguments.folder) as work:
        blocks = measure(Path(work), arguments.strategy, pairs, every, block)
        written = [file.stat().st_size for file in Path(work).glob("run/checkpoints/update-*/*")]
    print(json.dumps({"strategy": arguments.strategy, **figures(blocks), "mb": round(max(written) / 1e6, 1)}))
    return 0


def measure(work: Path, strategy: str, pairs: int, every: float, block: float) -> list[dict[str, Any]]:
    """The blocks: steps, seconds and checkpoints of each. The first is left out."""
    from hdfs_io.publish import Output
    from sparksplit.base.config import parse
    from sparksplit.cluster import NodeCluster
    from sparksplit.dataset.arrays import from_arrays
    from sparksplit.spark.session import spark_session
    from sparksplit.training.inputs import open_data
    from sparksplit.training.messages import Payload
    from sparksplit.training.train_config import TrainConfig

    random = np.random.default_rng(0)
    x, y = random.integers(0, 256, (6400, 784), dtype=np.uint8), random.integers(0, 10, 6400)
    from_arrays(str(work / "data"), {"train": (x, y)}, classes=10, scaling="unit")
    config = parse(
        TrainConfig,
        {
            "data": str(work / "data"),
            "output": str(work / "run"),
            "model": {"build": "mlp", "params": {"hidden": [HIDDEN]}},
            "optimizer": {"name": "sgd", "learning_rate": 1e-4, "momentum": 0.9},
            "strategy": strategy,
            "nodes": 2,
            "batch_size": 64,
            "epochs": 1_000_000,
        },
    )
    data = open_data(config)
    output = Output(config.output, "0", "train", {})
    with spark_session("checkpoints", 2) as spark, output.claimed(overwrite=True):
        output.begin()
        train = Payload.of(config, data, output, {}, output.config_hash, 1).to_json()
        payload = {"train": train, "every": every, "block": block, "blocks": 2 * pairs}
        with NodeCluster(spark, 2, "benchmarks.checkpoints_node:work", payload) as cluster:
            found: list[dict[str, Any]] = cluster.run()[0]["blocks"]
    for each in found:
        print(json.dumps(each), file=sys.stderr)
    return found[1:]


def figures(blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the JSON line says."""
    seconds = [block["seconds"] / block["steps"] for block in blocks]
    with_ = [place for place, block in enumerate(blocks) if block["checkpoints"]]
    ratios = []
    for first in range(0, len(blocks) - 1, 2):
        one, other = (first, first + 1) if first in with_ else (first + 1, first)
        ratios.append(seconds[one] / seconds[other])
    drawn = np.random.default_rng(0).choice(ratios, (10_000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return {
        "ratio": round(statistics.median(ratios), 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
        "step_seconds": round(statistics.median(seconds), 4),
        "checkpoints": sum(block["checkpoints"] for block in blocks),
        "longest_write": max(block["longest_write"] for block in blocks),
        "pairs": len(ratios),
    }


if __name__ == "__main__":
    sys.exit(main())
