"""Reading from something that may give less than was asked for at once: a file, a pipe, a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO

_PIECE = 64 << 10
_SHORT = 500


def read_exactly(read: Callable[[int], bytes], count: int) -> bytes:
    """`count` bytes, or fewer where there are no more.

    read: returns at most that many bytes, and none at the end, as a file's `read` or a socket's `recv` does.
    """
    parts, missing = [], count
    while missing > 0 and (part := read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def short_lines(source: IO[bytes], show: Callable[[bytes], None] = lambda piece: None) -> Iterator[str]:
    """The first 500 characters of each line of what another process writes, without spaces at the end.

    A line may be of any length: no more than a piece of it is held. show: called with every piece.
    """
    begins = True
    while piece := source.readline(_PIECE):
        show(piece)
        if begins:
            yield piece.decode(errors="replace").rstrip()[:_SHORT]
        begins = piece.endswith(b"\n")
