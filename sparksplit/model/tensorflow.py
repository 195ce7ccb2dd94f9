"""Imports TensorFlow in a process of our own: a node, or an executor that predicts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

_NOT_NEEDED = ("IPython", "matplotlib", "pandas", "scipy", "sklearn")
_GPUS = ("/dev/nvidiactl", "/dev/dxg")
"""Devices that a machine with a GPU has: of Linux, and of Linux in Windows."""


def be_quiet(gpus: Sequence[str] = _GPUS) -> None:
    """Make TensorFlow's C++ code log errors alone, before its first import. The user's own setting stays.

    Without a GPU, it logs fatal errors alone, because it would log an error about CUDA in each process. Python still
    raises all errors.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if any(map(os.path.exists, gpus)) else "3")


def import_tensorflow() -> Any:
    """Import TensorFlow with Keras, but without some libraries that Keras imports if they are installed. Return
    TensorFlow's module.

    Keras uses the libraries for picture galleries, views in notebooks, scikit-learn wrappers and pandas frames as
    inputs. These functions stay off in this process. The libraries take half of the import's processor time. The user's
    functions can import the libraries afterwards.

    Do not call this function in the user's own process: during the call, no thread can import the libraries.
    """
    be_quiet()
    barred = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(barred))  # type: ignore[arg-type]  # None is Python's mark of "cannot be imported"
    try:
        import tensorflow as tf
    finally:
        for name in barred:
            sys.modules.pop(name, None)
    return tf
