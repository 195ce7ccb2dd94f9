"""The transform of benchmarks/diagnose.py: each row costs MICROSECONDS, of a core or of waiting; rows stay as they are.

HOW: sleep waits, as one that asks a server would; numpy keeps a core busy outside the interpreter, so that several
threads do it at once; python keeps the interpreter itself busy, where only one thread can.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

HOW, MICROSECONDS = "sleep", 0.0
"""benchmarks/diagnose.py writes others here."""
_VALUES = np.ones(1 << 15, np.float32)


def costly(tensors: dict[str, Any], label: Any, seeds: Any) -> tuple[dict[str, Any], Any]:
    """The rows, after the time that they cost."""
    seconds = len(seeds) * MICROSECONDS / 1e6
    if HOW == "sleep":
        time.sleep(seconds)
        return tensors, label
    # Of this thread's own clock: on a busy core it takes as much longer as real work would.
    until = time.thread_time() + seconds
    out = np.empty_like(_VALUES)
    while time.thread_time() < until:
        if HOW == "numpy":
            np.sqrt(_VALUES, out=out)
        else:
            sum(range(200))
    return tensors, label
