"""The import of TensorFlow where a process trains or predicts."""

from __future__ import annotations

import sys
from typing import Any

_NOT_NEEDED = ("matplotlib", "sklearn")


def import_tensorflow() -> Any:
    """Import TensorFlow with Keras, but without Matplotlib and scikit-learn; return TensorFlow's module.

    Keras imports both wherever they are installed, for pictures and for scikit-learn's interface. That takes a quarter
    of a node's start. The user's own functions can import both afterwards.
    """
    barred = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(barred))  # type: ignore[arg-type]  # None is Python's mark of "cannot be imported"
    try:
        import tensorflow as tf
    finally:
        for name in barred:
            del sys.modules[name]
    return tf
