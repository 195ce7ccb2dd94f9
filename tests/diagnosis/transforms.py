"""Users' transforms, as tests name them by this file's path."""

import time


def slow(tensors, label, seeds):
    """Takes 0.4 ms for each row."""
    time.sleep(4e-4 * len(label))
    return tensors, label


def failing(tensors, label, seeds):
    raise KeyError("out")
