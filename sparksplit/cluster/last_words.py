"""How serious a failed node's output is. A line that a library logs is no error of the run, at any level."""

from __future__ import annotations

import logging
import re

from sparksplit.cluster.failures import Failure

_OF_TENSORFLOW = re.compile(
    r"(\d{4}-\d\d-\d\d [\d:.]+: [IWE] |[IWE]\d{4} [\d:.]+ +\d+ )\S+:\d+\] "
    r"|WARNING: All log messages before absl::InitializeLog\(\)"
    r"|To enable the following instructions: "
    r"|(INFO|WARNING):(tensorflow|absl):"
)
"""Lines that TensorFlow's C++ code logs. It logs a missing GPU as an error, for example. A node ends with an exception,
or a fatal line (F)."""
_OF_PYTHON = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ (DEBUG|INFO|WARNING) ")


def level_of(line: str, failure: Failure, reported: bool) -> int:
    """Return the level at which the driver logs a line of a node that has failed.

    reported: whether the node itself reported the failure. The error's one line then explains a user's mistake, a loss
    that is not finite or a full disk, for example, and the output is only for --debug.
    """
    told = (Failure.USAGE, Failure.INPUT, Failure.DIVERGED, Failure.CALLBACK)
    if failure in told or (failure is Failure.PASSING and reported):
        return logging.DEBUG
    return logging.INFO if _OF_TENSORFLOW.match(line) or _OF_PYTHON.match(line) else logging.ERROR
