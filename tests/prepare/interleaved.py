"""Something that happens in the middle of an operation on files: before whichever of its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hdfs_io import filesystem

_CALLS = (
    *("create_bytes", "entries", "exists", "flush", "is_folder", "listing", "make_folder", "missing", "modified"),
    *("open_input", "read_bytes", "remove", "remove_empty", "rename", "write_bytes", "writing"),
)


@contextmanager
def before_call(number: int, happens: Callable[[], None]) -> Iterator[list[str]]:
    """Within the block, `happens` is called once, before this thread's call `number` (from 0) of the file system.

    Gives the names of the calls, up to that one; fewer than that where it was not reached.
    """
    calls: list[str] = []
    thread = threading.current_thread()

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*arguments: Any, **more: Any) -> Any:
            if threading.current_thread() is thread and len(calls) <= number:
                calls.append(name)
                if len(calls) > number:
                    happens()
            return call(*arguments, **more)

        return watching

    with pytest.MonkeyPatch.context() as patched:
        for name in _CALLS:
            patched.setattr(filesystem, name, watched(name, getattr(filesystem, name)))
        yield calls
