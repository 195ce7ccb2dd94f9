"""A transform that makes one of several nodes slow."""

import sys
import time


def on_one_node(tensors, label, seeds):
    """Sleep in the process of rank 1."""
    if sys.argv[-1] == "rank=1":
        time.sleep(0.02)
    return tensors, label
