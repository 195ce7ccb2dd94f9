"""Reading from something that may give less than was asked for at once: a file, a pipe, a socket."""

from __future__ import annotations

from collections.abc import Callable


def read_exactly(read: Callable[[int], bytes], count: int) -> bytes:
    """`count` bytes, or fewer where there are no more.

    read: returns at most that many bytes, and none at the end, as a file's `read` or a socket's `recv` does.
    """
    parts, missing = [], count
    while missing > 0 and (part := read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
