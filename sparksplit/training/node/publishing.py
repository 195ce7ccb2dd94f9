"""What rank 0 publishes into the run's folder: after each round metrics.jsonl and TensorBoard's events; the model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from hdfs_io import filesystem
from sparksplit.model.export import export, upload
from sparksplit.training.node.process import Process
from sparksplit.training.record import METRICS, EpochRecord
from sparksplit.training.report import by_rows

TENSORBOARD = "tensorboard"


def publish_history(run: str, history: Sequence[EpochRecord], scratch: str) -> None:
    """Write all that is told of the finished rounds into the folder of `run`, by way of the local folder `scratch`."""
    publish_metrics(run, history)
    publish_events(run, history, scratch)


def publish_metrics(run: str, history: Sequence[EpochRecord]) -> None:
    """Write metrics.jsonl, one line per round, into the folder of `run`; the whole of it, since HDFS files that are
    appended to can be read half-written."""
    text = "".join(json.dumps(record.to_json(), allow_nan=False) + "\n" for record in history)
    filesystem.write_bytes(filesystem.join(run, METRICS), text.encode())


def publish_events(run: str, history: Sequence[EpochRecord], scratch: str) -> None:
    """Write the TensorBoard events of all rounds into the folder of `run`, by way of the local folder `scratch`.

    A resumed run writes them anew, so that no round stands there twice.
    """
    local = Path(scratch) / TENSORBOARD
    shutil.rmtree(local, ignore_errors=True)
    for name, rounds in by_rows(history).items():
        with tf.summary.create_file_writer(str(local / name)).as_default():
            for epoch, values in rounds:
                for key, value in values.items():
                    if value is not None:
                        tf.summary.scalar(f"epoch_{key}", value, step=epoch)
    if local.exists():
        upload(local, filesystem.join(run, TENSORBOARD))


def publish_model(process: Process, scratch: str) -> None:
    """Write the trained model, and what it needs to know of its data, into the run's folder."""
    run = process.payload.run
    process.data.description.write(run)
    export(process.model, process.inputs, run, scratch)
