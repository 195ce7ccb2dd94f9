"""The import of TensorFlow in a process of our own: a node, or an executor that predicts."""

from __future__ import annotations

import os
import sys
from typing import Any

_NOT_NEEDED = ("matplotlib", "sklearn")


def import_tensorflow() -> Any:
    """Import TensorFlow with Keras, but without Matplotlib and scikit-learn; return TensorFlow's module.

    Keras imports both wherever they are installed, for its picture galleries and its wrappers for scikit-learn, which
    then stay off in this process. That takes a quarter of a node's start. The user's functions can import both
    afterwards. Not for the user's own process: no thread can import the two meanwhile.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    barred = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(barred))  # type: ignore[arg-type]  # None is Python's mark of "cannot be imported"
    try:
        import tensorflow as tf
    finally:
        for name in barred:
            sys.modules.pop(name, None)
    return tf
