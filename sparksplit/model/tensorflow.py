"""The import of TensorFlow in a process of our own: a node, or an executor that predicts."""

from __future__ import annotations

import os
import sys
from typing import Any

_NOT_NEEDED = ("matplotlib", "pandas", "scipy", "sklearn")


def import_tensorflow() -> Any:
    """Import TensorFlow with Keras, but without the libraries that Keras imports wherever they are installed; return
    TensorFlow's module.

    Keras imports them for picture galleries, wrappers for scikit-learn and frames of pandas as inputs, which then stay
    off in this process. They take half of the import's processor time. The user's functions can import them afterwards.
    Not for the user's own process: no thread can import them meanwhile.
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
