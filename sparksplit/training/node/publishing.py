"""Rank 0's files in the run's folder: metrics.jsonl and TensorBoard's events of the rounds, and the model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.dataset import description
from sparksplit.model.export import export
from sparksplit.model.writing import writing
from sparksplit.training.node.process import Process
from sparksplit.training.progress_record import METRICS, EpochRecord
from sparksplit.training.report import by_rows

TENSORBOARD = "tensorboard"


def publish_history(run: Fence, history: Sequence[EpochRecord], scratch: str) -> None:
    """Write metrics.jsonl and TensorBoard's events into the folder of `run`. scratch: a local folder to work in."""
    publish_metrics(run, history)
    publish_events(run, history, scratch)


def publish_metrics(run: Fence, history: Sequence[EpochRecord]) -> None:
    """Write metrics.jsonl, one line per round, into the folder of `run`.

    The whole file is always written anew, because a file on HDFS that is appended to can be read half-written.
    """
    text = "".join(json.dumps(record.to_json(), allow_nan=False) + "\n" for record in history)
    run.write_bytes(filesystem.join(run.folder, METRICS), text.encode())


def publish_events(run: Fence, history: Sequence[EpochRecord], scratch: str) -> None:
    """Write the TensorBoard events of all rounds into the folder of `run`. scratch: a local folder to work in.

    All events are written anew, so that a resumed run has no round twice.
    """
    local = Path(scratch) / TENSORBOARD
    shutil.rmtree(local, ignore_errors=True)
    for name, rounds in by_rows(history).items():
        with writing(scratch), tf.summary.create_file_writer(str(local / name)).as_default():
            for epoch, values in rounds:
                for key, value in values.items():
                    if value is not None:
                        tf.summary.scalar(f"epoch_{key}", value, step=epoch)
    if local.exists():
        run.upload(local, filesystem.join(run.folder, TENSORBOARD))


def publish_model(process: Process, scratch: str) -> None:
    """Write the trained model and the description of its data into the run's folder."""
    run = process.payload.fence
    run.write_json(filesystem.join(run.folder, description.FILE), process.data.description.model_dump())
    export(process.model, process.inputs, run, scratch)
