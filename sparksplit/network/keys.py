"""Keys derived from a run's secret, one for each use. A known key reveals neither the other keys nor the secret."""

from __future__ import annotations

import hmac


def derived(secret: bytes, use: str, context: bytes = b"") -> bytes:
    """Return the 32-byte key for `use`. context: makes the key unique to one conversation.

    One step of HKDF-Expand (RFC 5869). The secret is random, so HKDF-Extract is not needed.
    """
    return hmac.digest(secret, b"sparksplit\0" + use.encode() + b"\0" + context + b"\x01", "sha256")
