"""Keys made from a run's secret, one for each use: who learns one knows none of the others, nor the secret."""

from __future__ import annotations

import hmac


def derived(secret: bytes, use: str, context: bytes = b"") -> bytes:
    """The key of 32 bytes for `use`, and for one conversation where `context` tells it from others.

    One step of HKDF's expansion (RFC 5869): the secret is random, so nothing has to be extracted from it first.
    """
    return hmac.digest(secret, b"sparksplit\0" + use.encode() + b"\0" + context + b"\x01", "sha256")
