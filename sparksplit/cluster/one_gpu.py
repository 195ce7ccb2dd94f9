"""Which GPU a node beside the driver takes. On executors, Spark or TensorFlowOnSpark gives each node its GPU."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

VISIBLE = "CUDA_VISIBLE_DEVICES"
_QUERY = ("nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits")
_SECONDS = 10.0


def environment(command: Sequence[str] = _QUERY) -> dict[str, str]:
    """Return the environment variable that shows one GPU to a node: the GPU with the least used memory.

    Return {} if the user has set the variable, or if the machine has at most one GPU. command: lists the GPUs.
    """
    if VISIBLE in os.environ:
        return {}
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # no driver of NVIDIA, or one that does not answer
        return {}
    gpus = [line.split(", ") for line in listed.splitlines() if ", " in line]
    # A GPU that does not say how much memory is used counts as free.
    return {VISIBLE: min(gpus, key=lambda gpu: int(gpu[1]) if gpu[1].isdigit() else 0)[0]} if len(gpus) > 1 else {}
