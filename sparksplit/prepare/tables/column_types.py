"""The types of Parquet and ORC columns as Spark reads them, and the type that has all values of several types exactly.

A kind is the name of Spark's type. It is a name of ours if Spark's reader has no type for the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_PLAIN: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.date64(): "date",
}
NULL, TIME = "null", "time"
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Types of whole numbers, with the number of digits that they need."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True)
class _Own:
    """A kind of ours.

    read: the type to ask Spark's reader for. kind: the kind of the values. value: SQL for the values of the column.
    """

    read: str
    kind: str
    value: str


_MICROS = "timestamp_micros(({0} - pmod({0}, 1000)) div 1000)"
_OWN: Mapping[str, _Own] = {
    NULL: _Own("int", NULL, "NULL"),
    "time ms": _Own("int", TIME, "CAST({0} AS double) / 1e3D"),
    "time us": _Own("bigint", TIME, "CAST({0} AS double) / 1e6D"),
    "time ns": _Own("bigint", TIME, "CAST({0} AS double) / 1e9D"),
    "timestamp ns": _Own("bigint", "timestamp", _MICROS),
    "timestamp_ntz ns": _Own("bigint", "timestamp_ntz", f"CAST({_MICROS} AS timestamp_ntz)"),
}
"""Times are seconds since midnight. Timestamps end at microseconds, as Spark's do. The SQL is for a session in UTC."""


def kind_of(kind: pa.DataType) -> str | None:
    """Return the kind of a column that has this type in Arrow. None: Spark cannot read it."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_dictionary(kind):
        return kind_of(kind.value_type)
    return next((name(kind) for of, name in _OTHERS if of(kind)), None) or _nested(kind)


_OTHERS: Sequence[tuple[Callable[[Any], bool], Callable[[Any], str]]] = (
    (pa.types.is_null, lambda _: NULL),
    (pa.types.is_duration, lambda _: "bigint"),
    (pa.types.is_fixed_size_binary, lambda _: "binary"),
    (pa.types.is_decimal, lambda kind: f"decimal({kind.precision},{kind.scale})"),
    (pa.types.is_time, lambda kind: f"time {kind.unit}"),
    (
        pa.types.is_timestamp,
        lambda kind: ("timestamp_ntz" if kind.tz is None else "timestamp") + " ns" * (kind.unit == "ns"),
    ),
)


def _nested(kind: pa.DataType) -> str | None:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = [kind_of(kind.value_type)]
        text = "array<{}>"
    elif pa.types.is_map(kind):
        inner = [kind_of(kind.key_type), kind_of(kind.item_type)]
        text = "map<{},{}>"
    elif pa.types.is_struct(kind):
        inner = [kind_of(field.type) for field in kind]
        names = (field.name.replace("`", "``").replace("{", "{{").replace("}", "}}") for field in kind)
        text = f"struct<{','.join(f'`{name}`:{{}}' for name in names)}>"
    else:
        return None
    known = [each for each in inner if each is not None and each not in _OWN]
    return text.format(*known) if len(known) == len(inner) else None


def is_own(kind: str | None) -> bool:
    """Return whether to ask Spark's reader for another type than the reader finds by itself."""
    return kind in _OWN and kind != NULL


def common(kinds: Iterable[str]) -> str | None:
    """Return the kind that has every value of all these kinds exactly, or None."""
    plain = {_OWN[kind].kind if kind in _OWN else kind for kind in kinds}
    return widened(plain - {NULL}) if plain != {NULL} else NULL


def widened(kinds: set[str]) -> str | None:
    """Return Spark's type that has every value of all these types exactly, or None."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if all(kind.startswith("array<") for kind in kinds):
        inner = widened({kind[6:-1] for kind in kinds})
        return inner and f"array<{inner}>"
    whole, floats = kinds & _DIGITS.keys(), kinds & {"float", "double"}
    decimals = [match for kind in kinds if (match := _DECIMAL.fullmatch(kind))]
    if len(whole) + len(floats) + len(decimals) < len(kinds) or (floats and decimals):
        return None
    if floats:
        narrow = "float" if "int" not in whole and "double" not in floats else "double"
        return None if "bigint" in whole else narrow
    if not decimals:
        return max(whole, key=_DIGITS.__getitem__)
    scale = max(int(match[2]) for match in decimals)
    digits = max(*(int(match[1]) - int(match[2]) for match in decimals), *(_DIGITS[kind] for kind in whole), 0)
    return f"decimal({digits + scale},{scale})" if digits + scale <= 38 else None


def asked(kind: str) -> str:
    """Return the type to ask Spark's reader for."""
    return _OWN[kind].read if kind in _OWN else kind


def final(kind: str) -> str:
    """Return Spark's type for the values of a column of this kind."""
    return {NULL: "int", TIME: "double"}.get(kind, kind)


def value(kind: str, column: str, wanted: str) -> str:
    """Return SQL for the values of a column of this kind, as the kind `wanted`. The session must be in UTC."""
    sql = _OWN[kind].value.format(column) if kind in _OWN else column
    return f"CAST({sql} AS {final(wanted)})"
