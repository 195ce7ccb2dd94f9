"""Which Python runs the tasks of a program's own session while sparksplit uses the session."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark import SparkContext

_lock = threading.Lock()
_uses: WeakKeyDictionary[SparkContext, tuple[int, str]] = WeakKeyDictionary()
"""For each session whose Python is changed: how many blocks of `own_python` are running, and the Python before them."""


@contextmanager
def own_python(context: SparkContext) -> Iterator[None]:
    """Have tasks on this machine (local, local-cluster) use this program's Python, unless the user has named another.

    By default, Spark takes the PATH's python3. In a notebook, this is often not the notebook's Python, and lacks
    sparksplit. Functions of Python keep the Python of the block in which they become part of a plan. After the last of
    several blocks, the session has the Python that it had before.
    """
    if "PYSPARK_PYTHON" in os.environ or not str(context.master).startswith("local"):
        yield
        return
    named = context.getConf().get("spark.pyspark.python")
    with _lock:
        count, before = _uses.get(context, (0, context.pythonExec))
        _uses[context] = (count + 1, before)
        context.pythonExec = named or sys.executable or before
    try:
        yield
    finally:
        with _lock:
            count, before = _uses.pop(context)
            if count > 1:
                _uses[context] = (count - 1, before)
            else:
                context.pythonExec = before
