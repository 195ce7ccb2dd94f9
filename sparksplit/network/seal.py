"""How the two ends of a connection prove that they know the run's secret, which never crosses the wire.

The called end sends a challenge of random bytes. The caller answers with random bytes of its own and a sealed hello.
Both ends make the same two keys from the secret and these bytes, one for each direction. Every line is sealed: it
begins with a MAC, under its direction's key, of its number and its text. So a line that was invented, altered,
repeated, left out or taken from another connection is refused, the called end's first line proves the called end, and a
stranger's bytes are never parsed.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from sparksplit.network.keys import derived

NONCE = 32
"""Bytes of a challenge, and of what answers it."""
MARK = 32
"""Characters in front of a line."""


class Text(NamedTuple):
    """A line, and what its seals are made of: hashed once, for however many connections."""

    line: bytes
    digest: bytes

    @classmethod
    def of(cls, line: bytes) -> Text:
        return cls(line, hashlib.sha256(line).digest())


class Seal:
    """The seals of one direction of one connection, in order."""

    def __init__(self, key: bytes) -> None:
        self._key, self._count = key, 0

    def mark(self, text: Text) -> bytes:
        """What goes in front of the next line."""
        self._count += 1
        return hmac.digest(self._key, self._count.to_bytes(8, "big") + text.digest, "sha256").hex()[:MARK].encode()

    def opened(self, line: bytes) -> bytes:
        """The next line without its mark; raises ValueError where it is not the right one."""
        mark, text = line[:MARK], line[MARK:]
        if not hmac.compare_digest(mark, self.mark(Text.of(text))):
            raise ValueError("a line's seal is wrong")
        return text


def seals(secret: bytes, challenge: bytes, answer: bytes) -> tuple[Seal, Seal]:
    """(the called end's seal, the caller's) of a connection that began with these bytes."""
    key = derived(secret, "channel")
    return tuple(Seal(derived(key, end, challenge + answer)) for end in ("called", "caller"))  # type: ignore[return-value]
