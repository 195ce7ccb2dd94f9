"""Find passwords in addresses. Records, logs, errors and pages show configuration values, so none may hold one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SCHEME = r"\s*[a-z][\w+.:-]*://"
_USER = r"(?!\[)[^/?#\s:@]*:(?!\d+([,;+/?#]|$))[^\s@]+@"  # a port is no password; a password may have slashes
_SECRET = r"[\w-]*(?:password|passwd|pwd|secret|token|sig|signature)"
_PARAMETER = rf"\S*[?&;#]{_SECRET}=[^\s&;]"
_PASSWORD = re.compile(f"{_SCHEME}({_USER}|{_PARAMETER})", re.IGNORECASE)


def has_password(text: str) -> bool:
    """Whether `text` is an address with a password or token: scheme://user:password@host, or ?token=... at its end."""
    return _PASSWORD.match(text) is not None


def without_passwords(text: str) -> str:
    """Return `text` with *** for the user and password, and for the tokens, of every address in it."""
    text = re.sub(r"(?<=://)\S*@", "***@", text)
    return re.sub(rf"([?&;#]{_SECRET}=)[^\s&;]+", r"\1***", text, flags=re.IGNORECASE)


def keys_with_passwords(values: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys of values with a password, at any depth."""
    if isinstance(values, str):
        if has_password(values):
            yield key
        return
    if isinstance(values, list | tuple):
        values = dict(enumerate(values))
    for name, value in values.items() if isinstance(values, dict) else ():
        yield from keys_with_passwords(value, (*key, str(name)))
