"""stdout and stderr, for text that people read. Text that cannot be written never fails the work: the log's disk may be
full, its terminal closed, or its reader gone.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO


class Shown(io.TextIOBase, TextIO):
    """This process's stdout or stderr, as `sys` has it at each call. It drops text that cannot be written.

    name: "stdout" or "stderr".
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._error: OSError | None = None
        """The first error of the stream since `settle`."""

    @property
    def _stream(self) -> TextIO | None:
        """The stream in `sys`; None if the process was started without it."""
        stream: TextIO | None = getattr(sys, self._name, None)
        # While rich shows a bar on stderr, it replaces both streams. Its own stream for stderr would write to this one.
        return getattr(stream, "rich_proxied_file", stream) if self._name == "stderr" else stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write the text, if that is possible. Characters that the encoding lacks become escapes."""
        try:
            self._try(lambda stream: stream.write(text))
        except UnicodeEncodeError:
            self.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        """Write what the stream holds back, if that is possible."""
        self._try(lambda stream: stream.flush())

    def _try(self, action: Callable[[TextIO], object]) -> OSError | None:
        """Return the error of `action`. Do nothing if the stream is closed, or was never there."""
        stream = self._stream
        if stream is None or getattr(stream, "closed", False):
            return None
        try:
            action(stream)
        except OSError as error:
            self._error = self._error or error
            return error
        return None

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        stream = self._stream
        return stream is not None and not getattr(stream, "closed", False) and stream.isatty()

    def fileno(self) -> int:
        """Return the stream's descriptor. Raise OSError without a descriptor."""
        stream = self._stream
        if stream is None:
            raise io.UnsupportedOperation(f"there is no {self._name}")
        return stream.fileno()

    def settle(self) -> OSError | None:
        """Flush for the last time. Return the first error of the stream, and drop the text that was not written.

        Python flushes its streams at its end. Text that it cannot write there would turn the exit status into 120.
        """
        if self._try(lambda stream: stream.flush()) is not None:
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
                os.dup2(nowhere.fileno(), self.fileno())
            self.flush()
        error, self._error = self._error, None
        return error


OUT = Shown("stdout")
"""For a command's result."""
ERR = Shown("stderr")
"""For everything else: progress, logs, errors."""


def finished(status: int, only_text: bool = False) -> int:
    """Return the exit status of a command that has shown all its text. A result that cannot be shown does not change
    the status of work that is done.

    only_text: the text on stdout is all that the command makes. Its loss is then exit status 1, unless its reader has
        gone, as in `--help | head`.
    """
    error = OUT.settle()
    if error is not None and not isinstance(error, BrokenPipeError):
        print(f"sparksplit: stdout: the result could not be written: {error.strerror}", file=ERR)
        status = status or int(only_text)
    ERR.settle()
    return status
