"""How a graph calls a function on NumPy arrays with less around it than `tf.numpy_function`.

Of the 650 us that a small model's step took with it, on one of two quiet cores, 135 went into looking at the arrays
(each result goes through a function of TensorFlow's that parses NumPy's version number, 11 us each time), and 35 into
what Python makes and removes for a call from a thread that it does not know.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
import tensorflow as tf
from tensorflow.python.ops import script_ops

Array = npt.NDArray[Any]

_known = threading.local()


class GraphCall:
    """`function` for graphs: it is given arrays, and gives contiguous arrays of the same dtypes.

    Whoever calls a graph with it in it must keep this object: TensorFlow does not.
    """

    def __init__(self, function: Callable[[Sequence[Array]], list[Array]]) -> None:
        self._function = function
        self._registered = _Registered(function)
        self._token = script_ops._py_funcs.insert(self._registered)

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """Tensors of the results; a graph does not know their shapes. They are where the arrays are, if these are
        aligned."""
        dtypes = [tensor.dtype for tensor in tensors]
        if tf.executing_eagerly():
            # Of one tensor the result is no list.
            found: list[Any] = tf.nest.flatten(
                tf.numpy_function(lambda *arrays: self._function(arrays), tensors, dtypes)
            )
            return found
        return list(tf.raw_ops.PyFunc(input=tensors, token=self._token, Tout=dtypes))


class _Registered(script_ops.EagerFunc):  # type: ignore[misc]
    """Functions of this class are those whose results TensorFlow's registry passes on as they are."""

    def __init__(self, function: Callable[[Sequence[Array]], list[Array]]) -> None:
        self._function = function

    def __call__(self, device: str, token: str, args: Sequence[Array]) -> list[Array]:
        _stay_known()
        return self._function(args)


def _stay_known() -> None:
    """Let Python keep what it knows of this thread: it would remove that after the call, and make it anew for the next.

    The threads are TensorFlow's, few, and as old as the process.
    """
    if not getattr(_known, "stays", False):
        ctypes.pythonapi.PyGILState_Ensure()  # never released: the count of those who need it does not come to zero
        _known.stays = True
