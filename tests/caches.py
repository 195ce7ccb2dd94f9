"""What tests fetch once for each user, outside the checkout."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Unavailable(Exception):
    """This machine lacks what the tests need and cannot fetch it; the text is one line with the remedy."""


def caches() -> Path:
    """The folder for it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparksplit"


@contextmanager
def locked(file: Path, seconds: float) -> Iterator[None]:
    """Alone among all processes of this user; the lock goes with its process. Unavailable after `seconds`."""
    end = time.monotonic() + seconds
    with file.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Unavailable(f"another process has held {file} for {seconds:.0f} s") from None
                time.sleep(0.2)
        yield
