"""Reading from what may give less than was asked for at once: files, pipes, sockets."""

from __future__ import annotations

from collections.abc import Callable


def read_exactly(read: Callable[[int], bytes], count: int) -> bytes:
    """`count` bytes, or fewer where there are no more.

    read: gives at most so many bytes, and none at the end, such as a file's `read` or a socket's `recv`.
    """
    parts, missing = [], count
    while missing > 0 and (part := read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
