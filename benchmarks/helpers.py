"""What benchmarks/h2o.py and benchmarks/readers.py share: MNIST, and how busy the machine is."""

from __future__ import annotations

import gzip
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

BUSY = 0.1
"""Above this share of the cores in others' use a benchmark says that the machine is busy."""


def mnist(part: str) -> tuple[Any, Any] | None:
    """uint8 [rows, 28, 28] and int64 [rows] of `train` or `t10k`; None without SPARKSPLIT_DATA."""
    named = os.environ.get("SPARKSPLIT_DATA")
    if not named:
        return None
    images, labels = (
        np.frombuffer(gzip.decompress((Path(named) / "mnist" / f"{part}-{name}-ubyte.gz").read_bytes()), np.uint8)
        for name in ("images-idx3", "labels-idx1")
    )
    return images[16:].reshape(-1, 28, 28), labels[8:].astype(np.int64)


def end_orderly() -> None:
    """Let SIGTERM leave every `with`, so that nothing stays running or on the disk."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@contextmanager
def own_output() -> Iterator[None]:
    """What the block prints goes to stderr: the last line of stdout is the benchmark's."""
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout = stdout


def busy(seconds: float = 1.0) -> float:
    """The share of the cores that is in use for this long; to be asked where this benchmark itself does nothing."""
    share: float = psutil.cpu_percent(seconds)
    return round(share / 100, 2)


def told_busy(shares: list[float]) -> bool:
    """Whether one of `shares` is above BUSY; then a line on stderr says so."""
    if max(shares) <= BUSY:
        return False
    print(
        f"the machine is busy: other work had up to {max(shares):.0%} of its cores before a measurement; "
        "seconds are too many, ratios less wrong",
        file=sys.stderr,
    )
    return True
