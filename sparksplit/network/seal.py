"""How both ends of a connection prove that they know the run's secret. The secret is never sent.

The called end sends a challenge of random bytes. The caller answers with its own random bytes and a sealed hello. Both
ends derive two keys from the secret and these bytes, one for each direction.

Every line is sealed: it begins with a MAC of its number and its text, under the key of its direction. So an invented,
altered, repeated, missing or foreign line is refused. The called end's first line proves the called end. A stranger's
bytes are never parsed.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from sparksplit.network.keys import derived

NONCE = 32
"""Bytes of a challenge, and of the random bytes in its answer."""
MARK = 32
"""Characters of the seal in front of a line."""


class Text(NamedTuple):
    """A line and its hash for the seals. The hash is computed once for all connections."""

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
        """Return the seal to put in front of the next line."""
        self._count += 1
        return hmac.digest(self._key, self._count.to_bytes(8, "big") + text.digest, "sha256").hex()[:MARK].encode()

    def opened(self, line: bytes) -> bytes:
        """Return the next line without its seal. Raise ValueError if the seal is wrong."""
        mark, text = line[:MARK], line[MARK:]
        if not hmac.compare_digest(mark, self.mark(Text.of(text))):
            raise ValueError("a line's seal is wrong")
        return text


def seals(secret: bytes, challenge: bytes, answer: bytes) -> tuple[Seal, Seal]:
    """Return the called end's seal and the caller's seal of the connection that began with these bytes."""
    key = derived(secret, "channel")
    return tuple(Seal(derived(key, end, challenge + answer)) for end in ("called", "caller"))  # type: ignore[return-value]
