"""Invariant 7: a node's memory is bounded by the configured buffers, whatever the data set's size."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

from sparksplit.base.config import parse
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig

SIDE = 256
ROW = SIDE * SIDE
LANES, WINDOW = 16, 2
BASE = 700 << 20  # TensorFlow, Keras, pyarrow and a small model, measured without data at about 450 MiB


class Watcher(threading.Thread):
    """The largest anonymous memory of any node, in bytes, while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest, self._over = 0, threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.1):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "sparksplit.cluster.node_main" in process.cmdline():
                        self.largest = max(self.largest, _anonymous(process.pid))
                except (psutil.Error, OSError):
                    continue

    def stop(self) -> int:
        self._over.set()
        self.join()
        return self.largest


def _anonymous(pid: int) -> int:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return (int(fields["RssAnon"].split()[0]) + int(fields["RssShmem"].split()[0])) * 1024


def generated(folder: Path, rows: int) -> Path:
    """A prepared data set of `rows` rows of 64 KiB, made without holding it in memory."""
    images = np.memmap(folder / "images", np.uint8, "w+", shape=(rows, SIDE, SIDE))
    generator = np.random.default_rng(1)
    for start in range(0, rows, 1000):
        part = images[start : start + 1000]
        part[...] = np.frombuffer(generator.bytes(part.nbytes), np.uint8).reshape(part.shape)
    from_arrays(str(folder / "data"), {"train": (images, np.arange(rows) % 2)}, lanes=LANES, scaling="unit")
    (folder / "images").unlink()
    return folder / "data"


def peak(data: Path, output: Path, **keys: object) -> int:
    watcher = Watcher()
    watcher.start()
    values = {
        "data": str(data), "output": str(output), "nodes": 2, "strategy": "batch", "batch_size": 64, "epochs": 1,
        "window": WINDOW, "cache_mb": 64, "optimizer": {"learning_rate": 1e-4}, "model": {"params": {"hidden": []}},
        **keys,
    }  # fmt: skip
    try:
        result = train(parse(TrainConfig, values), Options()).to_json()
    finally:
        largest = watcher.stop()
    assert result["ledger"]["exact"] is True
    assert largest > 100 << 20
    return largest


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_that_trains_on_gigabytes_stays_within_its_buffers(spark, tmp_path):
    """1 GiB in all: each node reads 0.5 GiB, with buffers for a small part of it."""
    (tmp_path / "large").mkdir()
    large = generated(tmp_path / "large", 16 * 1024)
    block_rows = 16
    windows = 3 * (LANES // 2) * WINDOW * block_rows * ROW
    chunks = 4 * 64 * ROW
    largest = peak(large, tmp_path / "run-large")
    assert largest < BASE + windows + chunks, f"{largest >> 20} MiB"
    (tmp_path / "small").mkdir()
    small = generated(tmp_path / "small", 4 * 1024)
    assert largest < 1.25 * peak(small, tmp_path / "run-small")
