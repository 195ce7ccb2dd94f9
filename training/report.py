"""What a run leaves for readers: metrics.jsonl, TensorBoard events, run.json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hdfs_io import filesystem
from sparksplit import __version__

METRICS, TENSORBOARD, RUN = "metrics.jsonl", "tensorboard", "run.json"


def publish_metrics(run: str, history: Sequence[dict[str, Any]]) -> None:
    """Write metrics.jsonl, one line per epoch, into the folder of `run`; the whole of it, since HDFS files that are
    appended to can be read half-written."""
    text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in history)
    filesystem.write_bytes(filesystem.join(run, METRICS), text.encode())


def publish_events(run: str, history: Sequence[dict[str, Any]], scratch: str) -> None:
    """Write the TensorBoard events of all epochs into the folder of `run`, by way of the local folder `scratch`.

    A resumed run writes them anew, so that no epoch stands there twice.
    """
    import tensorflow as tf

    from training.export import upload

    local = Path(scratch) / TENSORBOARD
    shutil.rmtree(local, ignore_errors=True)
    for name in ("train", "validation"):
        records = [record for record in history if name in record]
        if not records:
            continue
        with tf.summary.create_file_writer(str(local / name)).as_default():
            for record in records:
                for key, value in record[name].items():
                    tf.summary.scalar(f"epoch_{key}", value, step=record["epoch"])
    if local.exists():
        upload(local, filesystem.join(run, TENSORBOARD))


def metrics_by_name(history: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """{train, validation: {name: value by epoch}} as run.json holds it."""
    found: dict[str, dict[str, list[float]]] = {}
    for name in ("train", "validation"):
        records = [record[name] for record in history if name in record]
        if records:
            found[name] = {key: [record[key] for record in records] for key in records[0]}
    return found


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    names = ("tensorflow", "keras", "numpy", "pyspark", "pyarrow", "tensorflowonspark")
    return {"sparksplit": __version__, **{name: version(name) for name in names}}


def summary(run: dict[str, Any], output: str) -> Iterator[str]:
    """Lines for the terminal at a run's end."""
    ledger = run["ledger"]
    exact = "exact" if ledger["exact"] else "NOT exact"
    yield (
        f"{run['split']} on {run['nodes']} node{'s' if run['nodes'] > 1 else ''}: {run['epochs']} epochs "
        f"({run['passes']} passes), {run['updates']} updates, {ledger['rows']} rows seen, ledger {exact}"
    )
    yield f"{run['rows_per_second']:,.0f} rows/s, {run['seconds']['total']:.1f} s in all" + (
        f", {run['sync_bytes_per_node'] / 1e6:,.1f} MB sent per node" if run["nodes"] > 1 else ""
    )
    metrics = run["metrics"]
    for name in ("train", "validation"):
        if name in metrics:
            yield f"{name:<11}" + ", ".join(f"{key} {values[-1]:.4f}" for key, values in metrics[name].items())
    if metrics.get("test"):
        yield f"{'test':<11}" + ", ".join(f"{key} {value:.4f}" for key, value in metrics["test"].items())
    yield f"model: {filesystem.join(output, 'model.keras')} and {filesystem.join(output, 'saved_model')}"
