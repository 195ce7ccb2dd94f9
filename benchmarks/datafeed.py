"""TensorFlowOnSpark's own feed, as its MNIST example uses it: one contender of benchmarks/handoff.py.

    python benchmarks/datafeed.py numbers|bytes FOLDER --rows N --nodes N

Feeds the first N rows of FOLDER/x.npy (uint8 [rows, 784]) and FOLDER/y.npy from a cached RDD, as lists of 784 numbers
or as bytes, each with its label, and makes a tf.Tensor of every batch of 128 rows. Prints a JSON line
{"rows_per_second", "rows", "seconds"}, from the first batch on any node to the last.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BATCH = 128
PARTITIONS_PER_NODE = 5


def main() -> None:
    """Feed once and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("numbers", "bytes"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    print(json.dumps(feed(parser.parse_args())), flush=True)


def feed(arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of feeding `arguments.rows` rows."""
    import numpy as np

    from sparksplit.spark.session import spark_session

    x = np.load(arguments.folder / "x.npy", mmap_mode="r")[: arguments.rows]
    y = np.load(arguments.folder / "y.npy")[: arguments.rows]
    if arguments.kind == "numbers":
        rows = [(values, int(label)) for values, label in zip(x.tolist(), y, strict=True)]
    else:
        rows = [(values.tobytes(), int(label)) for values, label in zip(x, y, strict=True)]
    nodes = arguments.nodes
    with tempfile.TemporaryDirectory() as scratch, spark_session("datafeed", nodes) as spark:
        from tensorflowonspark import TFCluster

        os.chdir(scratch)
        told = argparse.Namespace(kind=arguments.kind, results=scratch)
        rdd = spark.sparkContext.parallelize(rows, PARTITIONS_PER_NODE * nodes).cache()
        rdd.count()
        cluster = TFCluster.run(
            spark.sparkContext,
            consume,
            told,
            nodes,
            num_ps=0,
            input_mode=TFCluster.InputMode.SPARK,
            master_node="chief",
            reservation_timeout=120,
        )
        # Returns when every row has been taken; its shutdown() takes 15 s, and the session's end ends the nodes.
        cluster.train(rdd, 1)
        found = [json.loads(file.read_text()) for file in Path(scratch).glob("node-*.json")]
    counted = sum(one["rows"] for one in found)
    if counted < 0.9 * len(rows):
        raise RuntimeError(f"{counted} of {len(rows)} rows arrived")
    seconds = max(one["end"] for one in found) - min(one["begin"] for one in found)
    return {"rows_per_second": counted / seconds, "rows": counted, "seconds": seconds}


def consume(arguments: Any, context: Any) -> None:
    """TensorFlowOnSpark's map_fun: batches to tensors, and what has arrived so far in a file."""
    import numpy as np
    import tensorflow as tf

    feed = context.get_data_feed()
    rows, begin = 0, 0.0
    file = Path(arguments.results) / f"node-{context.executor_id}.json"
    while not feed.should_stop():
        batch = feed.next_batch(BATCH)
        if len(batch) == 0:
            return
        if arguments.kind == "numbers":
            values = np.array([row[0] for row in batch], np.uint8)
        else:
            values = np.frombuffer(b"".join(row[0] for row in batch), np.uint8).reshape(len(batch), -1)
        tf.constant(values)
        tf.constant(np.array([row[1] for row in batch], np.int64))
        if not begin:
            # The first batch only starts the clock: it waited for the feed's start.
            begin = time.time()
            continue
        rows += len(batch)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps({"rows": rows, "begin": begin, "end": time.time()}))
        partial.rename(file)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
