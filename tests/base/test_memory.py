"""Memory that is used again."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource, sys
import numpy as np
from sparksplit.base.memory import keep_freed

if sys.argv[1] == "kept":
    assert keep_freed()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    arrays = [np.ones(100_000, np.float32) for _ in range(10)]
    return sum(float(array[0]) for array in arrays)

for _ in range(3):
    work()
before = faults()
for _ in range(20):
    work()
print(faults() - before)
"""


def faults(how: str) -> int:
    """Page faults of 200 arrays of 100 pages, ten at a time."""
    # A process of its own: it is for good.
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_memory_is_used_again_without_the_system() -> None:
    assert faults("kept") < 100
    assert faults("given back") > 5_000
