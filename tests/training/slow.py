"""Transforms that make one of several nodes slow."""

import json
import os
import sys
import time


def on_one_node(tensors, label, seeds):
    """Sleep in the process of rank 1."""
    if sys.argv[-1] == "rank=1":
        time.sleep(0.02)
    return tensors, label


def on_the_chief(tensors, label, seeds):
    """Sleep on rank 0 of a run with TensorFlow's collectives."""
    if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "chief":
        time.sleep(0.05)
    return tensors, label
