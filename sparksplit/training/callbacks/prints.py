"""What callbacks print on node 0, on its way to the terminal of the driver's program.

The reports of node 0 carry the last lines with their number. A gap in the numbers shows the driver how many lines are
left out. So a callback that prints without end costs little.
"""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

MOST = 100
"""Lines in a report."""
LONGEST = 300
"""Characters of a line in a report."""


class Prints(io.TextIOBase):
    """The last lines that callbacks have printed. As sys.stdout, it also writes all text to the stdout before."""

    def __init__(self) -> None:
        self._beneath: Any = sys.stdout
        self._begun = ""
        self._count = 0
        self._lines: deque[str] = deque(maxlen=MOST)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take what the block prints to stdout."""
        if sys.stdout is not self:
            self._beneath = sys.stdout
        try:
            with redirect_stdout(self):
                yield
        finally:
            if self._begun:
                self._add("\n")

    def write(self, text: str) -> int:
        """Write to the stdout before, and keep the lines."""
        self._beneath.write(text)
        self._add(text)
        return len(text)

    def writable(self) -> bool:
        """Return True."""
        return True

    def __getattr__(self, name: str) -> Any:
        """Return what else the stdout before has, such as `buffer`. What is written there is in node 0's log alone."""
        return getattr(vars(self)["_beneath"], name)

    def flush(self) -> None:
        """Flush the stdout before."""
        self._beneath.flush()

    @property
    def reported(self) -> list[Any]:
        """What a report carries, JSON-able: [number of lines so far, the last of them]."""
        return [self._count, list(self._lines)]

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stdout before."""
        return getattr(self._beneath, "encoding", None) or "utf-8"

    def fileno(self) -> int:
        """The file descriptor of the stdout before."""
        return int(self._beneath.fileno())

    def _add(self, text: str) -> None:
        *whole, begun = (self._begun + text).split("\n")
        self._begun = begun[-100 * LONGEST :]
        for line in whole:
            # Of a progress bar, the last state.
            last = line.rstrip("\r").rpartition("\r")[2]
            self._lines.append(last if len(last) <= LONGEST else f"{last[: LONGEST - 3]}...")
            self._count += 1


def new_lines(reported: list[Any], seen: int) -> list[str]:
    """Return the lines of a report after the first `seen`. One line stands for lines that are left out."""
    count, lines = reported
    new = count - seen
    if new <= len(lines):
        return lines[len(lines) - new :] if new > 0 else []
    return [f"... {new - len(lines):,} lines of callbacks are left out here; the log of node 0 has them", *lines]
