"""What this process gets done, as a number that only grows: it tells a process that is slow from one that hangs.

Whatever may take long between two updates calls `note` for each step that it has taken: a block or a batch of rows, an
attempt to reach HDFS, a piece of a file. A node's beats carry the number to the driver.
"""

from __future__ import annotations

import threading


class _Steps:
    def __init__(self) -> None:
        self._lock, self._done = threading.Lock(), 0

    def note(self) -> None:
        """Count one step; from any thread, in well under a microsecond."""
        with self._lock:
            self._done += 1

    def count(self) -> int:
        """The steps so far."""
        return self._done


_steps = _Steps()
note, count = _steps.note, _steps.count
