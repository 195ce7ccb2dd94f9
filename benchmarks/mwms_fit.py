"""What a user would write without sparksplit: tf_keras `fit` under MultiWorkerMirroredStrategy in TensorFlowOnSpark.

    python benchmarks/mwms_fit.py records FOLDER    writes FOLDER/x.npy, FOLDER/y.npy as TFRecord files
    python benchmarks/mwms_fit.py fit FOLDER ...    trains from them on two nodes; prints one JSON line

Runs in an environment of its own with the product's versions and tf_keras: Keras 3's `fit` does not work under this
strategy. Written as its documentation recommends, where that is faster: pixels as bytes, records parsed by the batch,
files dealt to the nodes (so that no node reads what it does not train on), reading in parallel with training.
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

NODES = 2
FILES = 8
SHUFFLED_TOGETHER = 4096
LIMIT_SECONDS = 300


def main() -> None:
    """Parse the arguments and do it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=("records", "fit"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--batch", type=int, default=128, help="rows of a global mini-batch")
    parser.add_argument("--steps", type=int, default=500, help="steps that are timed")
    arguments = parser.parse_args()
    if arguments.action == "records":
        write_records(arguments.folder)
    else:
        print(json.dumps(fit(arguments)), flush=True)


def write_records(folder: Path) -> None:
    """x.npy (uint8 [rows, 28, 28]) and y.npy (int64 [rows]) to FILES TFRecord files, rows dealt round-robin."""
    import numpy as np
    import tensorflow as tf

    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"part-{number:05d}.tfrecord")) as writer:
            for pixels, label in zip(x[number::FILES], y[number::FILES], strict=True):
                feature = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels.tobytes()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def fit(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train on NODES executors of a local cluster; {"rows_per_second", "rows", "seconds"} as the chief saw it."""
    from sparksplit.spark.session import spark_session

    # TensorFlowOnSpark imports TensorFlow before the user's function runs.
    settings = {"spark.executorEnv.TF_USE_LEGACY_KERAS": "1", "spark.executorEnv.TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryDirectory() as scratch, spark_session("mwms_fit", NODES, settings) as spark:
        from tensorflowonspark import TFCluster

        # It leaves a file in the driver's working directory and in the executors'.
        os.chdir(scratch)
        result = Path(scratch) / "result.json"
        arguments.result = str(result)
        TFCluster.run(
            spark.sparkContext,
            train,
            arguments,
            NODES,
            num_ps=0,
            input_mode=TFCluster.InputMode.TENSORFLOW,
            master_node="chief",
            reservation_timeout=120,
        )
        # Not its shutdown(), which takes 15 s: the session's end ends the nodes.
        return _wait_for(result, TFCluster.tf_status)


def _wait_for(result: Path, status: dict[str, str]) -> dict[str, Any]:
    give_up = time.monotonic() + LIMIT_SECONDS
    while not result.exists():
        if "error" in status or time.monotonic() > give_up:
            raise RuntimeError(status.get("error", f"no result after {LIMIT_SECONDS} s"))
        time.sleep(0.1)
    figures: dict[str, Any] = json.loads(result.read_text())
    return figures


def train(arguments: Any, context: Any) -> None:
    """TensorFlowOnSpark's map_fun: runs on every executor, with TF_CONFIG set."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    if strategy.num_replicas_in_sync != NODES:
        raise RuntimeError(f"{strategy.num_replicas_in_sync} replicas, not {NODES}: the nodes do not see each other")
    rank = 0 if context.job_name == "chief" else 1

    def parse(records: Any) -> tuple[Any, Any]:
        spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        rows = tf.io.parse_example(records, spec)
        pixels = tf.reshape(tf.io.decode_raw(rows["image"], tf.uint8), [-1, 28, 28, 1])
        return tf.cast(pixels, tf.float32) / 255.0, rows["label"]

    files = sorted(str(file) for file in Path(arguments.folder).glob("*.tfrecord"))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # Each node's batches are the global batch, which the strategy cuts to the node's share.
    data = (
        tf.data.Dataset.from_tensor_slices(files[rank::NODES])
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        .repeat()
        .shuffle(SHUFFLED_TOGETHER)
        .batch(arguments.batch, drop_remainder=True)
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )
    layers = tf.keras.layers
    hidden = {
        "mlp": [layers.Flatten(), layers.Dense(128, "relu")],
        "cnn": [
            *(layers.Conv2D(20, 5, activation="relu"), layers.MaxPooling2D(2)),
            *(layers.Conv2D(50, 5, activation="relu"), layers.MaxPooling2D(2)),
            *(layers.Flatten(), layers.Dense(512, "relu")),
        ],
    }
    with strategy.scope():
        model = tf.keras.Sequential(
            [layers.InputLayer((28, 28, 1)), *hidden[arguments.model], layers.Dense(10, "softmax")]
        )
        model.compile(tf.keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    times: list[float] = []

    class Clock(tf.keras.callbacks.Callback):  # type: ignore[misc]
        """Leaves out what `fit` does before its first step and after its last."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            times.append(time.perf_counter())

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            times.append(time.perf_counter())

    model.fit(data, steps_per_epoch=max(20, arguments.steps // 5), verbose=0)
    model.fit(data, steps_per_epoch=arguments.steps, verbose=0, callbacks=[Clock()])
    if rank == 0:
        rows, seconds = arguments.steps * arguments.batch, times[1] - times[0]
        partial = Path(arguments.result + ".partial")
        partial.write_text(json.dumps({"rows_per_second": rows / seconds, "rows": rows, "seconds": seconds}))
        partial.rename(arguments.result)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
