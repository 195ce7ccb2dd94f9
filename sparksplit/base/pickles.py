"""The user's own functions and classes as bytes, for processes that cannot import the modules they were defined in.

Reading the bytes runs code. Read only bytes that this user's processes have written.
"""

from __future__ import annotations

import pickle
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_INSTALLED = ("site-packages", "dist-packages")
_OURS = ("sparksplit", "hdfs_io")
_LOCK = threading.Lock()


def is_users(module: str | None) -> bool:
    """Return whether a module is the user's own: a notebook, a program, or a file that is not installed.

    Other processes may be unable to import such a module. They can import installed packages.
    """
    if module is None:
        return False
    if module == "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(file, str) and is_users_file(module, Path(file))


@cache
def is_users_file(module: str, file: Path) -> bool:
    """Return whether the file of a module is the user's own: text of Python that is not installed."""
    # Cached, because pickling asks for each of some thousand modules.
    if module.partition(".")[0] in _OURS or file.suffix != ".py":
        return False
    path = file.resolve()
    library = Path(sysconfig.get_path("stdlib")).resolve()
    return not (path.is_relative_to(library) or set(_INSTALLED) & set(path.parts))


def pickled(value: Any) -> bytes:
    """Return `value` as bytes. Functions and classes of the user's own modules are written out in full.

    Raise pickle.PicklingError or TypeError if `value` holds something that only this process can have, such as a lock.
    """
    from pyspark import cloudpickle

    with _by_value():
        return bytes(cloudpickle.dumps(value))


def unpickled(content: bytes) -> Any:
    """Return the value that `pickled` has written. This runs code from `content`."""
    return pickle.loads(content)


@contextmanager
def _by_value() -> Iterator[None]:
    from pyspark import cloudpickle

    def own() -> Iterator[ModuleType]:
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and name != "__main__" and name == module.__name__ and is_users(name):
                yield module

    with _LOCK:
        registered = set(cloudpickle.list_registry_pickle_by_value())
        added = [module for module in own() if module.__name__ not in registered]
        try:
            for module in added:
                cloudpickle.register_pickle_by_value(module)
            yield
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)
