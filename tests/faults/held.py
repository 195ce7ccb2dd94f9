"""A transform that keeps a run where its first checkpoint is written, until the test lets it go on."""

import os
import time
from pathlib import Path


def after_a_checkpoint(tensors, label, seeds):
    """TEST_HELD names the run's folder: wait for a file `go` in it, once there is a checkpoint, or as many as the file
    `hold` says."""
    run = os.environ.get("TEST_HELD")
    if run is not None:
        while len(list(Path(run, "checkpoints").glob("update-*"))) >= most(Path(run)) and not Path(run, "go").exists():
            time.sleep(0.05)
    return tensors, label


def most(run):
    try:
        return int((run / "hold").read_text())
    except (OSError, ValueError):
        return 1
