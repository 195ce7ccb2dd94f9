"""Hints about the existing columns, for the error about a missing column."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.errors import did_you_mean

_SHOWN = 30
_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "pipe", ",": "comma", "\x01": "^A"}


def there_are(column: str, names: Sequence[str]) -> str:
    """Return a hint such as `; it has a, b; did you mean 'b'?`. column: a name that is not in `names`."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    shown = f"; it has {', '.join(names[:_SHOWN])}{more}"
    return shown + (delimiter_hint(names) or did_you_mean(column, names))


def delimiter_hint(names: Sequence[str]) -> str:
    """Return the key to set if the only column is a whole line of a file with another delimiter; otherwise "" (no
    hint).
    """
    if len(names) != 1:
        return ""
    mark = max(_DELIMITERS, key=names[0].count)
    return (
        f"; if its columns are separated by {mark!r}, set input.delimiter: {_DELIMITERS[mark]}"
        if mark in names[0]
        else ""
    )
