"""Read from a source that may return fewer bytes than requested: a file, a pipe, a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

_PIECE = 64 << 10
_SHORT = 500


def read_exactly(read: Callable[[int], bytes], count: int) -> bytes:
    """Return `count` bytes, or fewer if the source ends before.

    read: returns at most the requested number of bytes, and none at the end, like a file's `read` or a socket's `recv`.
    """
    parts, missing = [], count
    while missing > 0 and (part := read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def short_lines(source: IO[bytes], show: Callable[[bytes], None] = lambda piece: None) -> Iterator[str]:
    """Yield the first 500 characters of each line from another process, without trailing spaces.

    Memory holds only one piece of a line, because a line may have any length. show: called with every piece.
    """
    begins = True
    while piece := source.readline(_PIECE):
        show(piece)
        if begins:
            yield piece.decode(errors="replace").rstrip()[:_SHORT]
        begins = piece.endswith(b"\n")
