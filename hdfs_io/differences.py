"""Find the keys that differ between two configurations, for the message that says why an output does not match."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_RULES = ("rules", "input.rules")
"""Keys of the version by which rows are read. No user sets them."""
_EARLIER = "made by another version of sparksplit, which read rows differently"
_MOST = 4
_LONG = 40
_CONTENT = "content"


def content(digest: str) -> dict[str, str]:
    """Return the value of a key whose content counts: a data set or a file. `differences` reports only that the content
    changed.
    """
    return {_CONTENT: digest}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return one text for each key that differs, and for other rules of reading rows.

    Both mappings are configurations in sections, as in JSON; a value may come from `content`. then: empty if unknown;
    the result is then empty too.
    """
    if not then:
        return []
    before, after = dict(_flat(then)), dict(_flat(json.loads(json.dumps(now))))
    keys = [*after, *(key for key in before if key not in after)]
    return [_difference(key, before, after) for key in keys if before.get(key) != after.get(key)]


def said(found: Sequence[str]) -> str:
    """Return the first few differences in brackets; an empty text if there are none."""
    more = len(found) - _MOST
    parts = [*found[:_MOST], *([f"{more} more"] if more > 0 else [])]
    return f" ({'; '.join(parts)})" if parts else ""


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value and list(value) != [_CONTENT]:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _difference(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if key in _RULES:
        return _EARLIER
    then, now = (_written(values.get(key)) for values in (before, after))
    if max(len(then), len(now)) > _LONG or any(isinstance(values.get(key), dict) for values in (before, after)):
        return f"{key} has changed"
    return f"{key} was {then}, is {now}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
