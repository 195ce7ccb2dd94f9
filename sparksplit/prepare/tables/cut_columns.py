"""Computes the cut value of each row, one int64, from the columns that a cut uses, in Spark's expressions.

By key: a hash of the columns as text. By time: microseconds since 1970, or the whole number itself. A time is in UTC if
neither the column nor its text names a zone. By column: the index of the split in SPLITS; true is validation, false is
train. Null: the row is bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sparksplit.dataset.manifest import SPLITS
from sparksplit.features.table import WHOLE
from sparksplit.prepare.cut_config import CutConfig

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TIMES = ("timestamp", "timestamp_ntz", "date")
_NAMES = {
    **{name: place for place, name in enumerate(SPLITS)},
    **dict.fromkeys(("valid", "val", "dev", "true"), 1),
    "false": 0,
}
_DAY, _NUMBER = r"\\d{4}-\\d{2}-\\d{2}", r"[-+]?\\d{1,19}"
_NO_ZONE = _DAY + r"[ T]\\d{1,2}:\\d{2}(:\\d{2}(\\.\\d*)?)?"


@dataclass(frozen=True)
class CutColumns:
    """The columns that a cut uses, by their names in the source, and the kind of their values."""

    names: tuple[str, ...] = ()
    kind: Literal["key", "time", "number", "split"] = "key"

    @classmethod
    def of(cls, cut: CutConfig, names: Sequence[str], types: Sequence[str], frame: DataFrame) -> CutColumns:
        """Return the columns that `cut` uses.

        names, types: of these columns.
        frame: only these columns, of the training rows. If no boundary shows what a text column holds, its first value
            is read.

        Raise ConfigError if a column's type does not fit the cut.
        """
        if cut.by not in ("time", "column"):
            return cls(tuple(names))
        name, type_ = names[0], types[0]
        if cut.by == "column":
            if type_ not in ("string", "boolean"):
                raise cut.error(
                    "column", f"{name!r} is {type_}, but must be text (train, validation or test) or boolean"
                )
            return cls((name,), "split")
        boundaries = [value for value in (cut.validation_from, cut.test_from) if value is not None]
        if type_ in WHOLE:
            kind: Literal["time", "number"] = "number"
        elif type_ in _TIMES:
            kind = "time"
        elif type_ != "string":
            raise cut.error("column", f"{name!r} is {type_}, but must hold times, dates or whole numbers; cast it")
        elif boundaries:
            kind = "time" if isinstance(boundaries[0], str) else "number"
        else:
            column = f"`{frame.columns[0]}`"
            first = frame.selectExpr(f"{column} rlike '^\\\\s*{_NUMBER}\\\\s*$'").where(f"{column} is not null").first()
            kind = "number" if first is not None and first[0] else "time"
        for key in ("validation_from", "test_from"):
            value = getattr(cut, key)
            if value is not None and isinstance(value, str) != (kind == "time"):
                wanted = "a date or a time" if kind == "time" else "a whole number"
                raise cut.error(key, f"must be {wanted}, because column {name!r} is {type_} (is {value!r})")
        return cls((name,), kind)

    def value(
        self, columns: Sequence[str], types: Sequence[str], nulls: Sequence[str] = (), folders: Sequence[str] = ()
    ) -> Column:
        """Return the int64 of each row, or null.

        columns: names in the frame. types: of the columns. nulls: texts that are null.
        folders: the columns that folders give, in which no text is null
        """
        from pyspark.sql import functions as sql

        if self.kind == "key":
            texts = [_text(name, () if name in folders else nulls) for name in columns]
            known = sql.lit(True)
            for text in texts:
                known = known & text.isNotNull()
            return sql.when(known, sql.xxhash64(*texts))
        return sql.expr(f"cast({_EXPRESSIONS[self.kind](f'`{columns[0]}`', types[0])} as bigint)")

    def text(self, columns: Sequence[str], nulls: Sequence[str] = (), folders: Sequence[str] = ()) -> Column:
        """Return what to show of a row whose value is null: the columns' values, or null if one of them is null.

        nulls, folders: as in `value`
        """
        from pyspark.sql import functions as sql

        texts = [_text(name, () if name in folders else nulls) for name in columns]
        return sql.concat(*(part for text in texts for part in (sql.lit(", "), text)))

    def problem(self, text: str | None) -> tuple[str, str]:
        """Return (why a row is bad, the reason without its value). text: from the expression of `text`"""
        names = ", ".join(repr(name) for name in self.names)
        subject = f"column {names} of the cut" if len(self.names) == 1 else f"columns {names}, cut.columns"
        if text is None:
            return (f"{subject}: is null",) * 2
        wanted = {
            "time": "not a time or date",
            "number": "not a whole number",
            "split": "not train, validation, test, true or false",
        }
        return f"{subject}: {text[2:]!r} is {wanted[self.kind]}", f"{subject}: {wanted[self.kind]}"


def _text(name: str, nulls: Sequence[str]) -> Column:
    """Return the column as text. Null if the text is one of `nulls`."""
    from pyspark.sql import functions as sql

    text = sql.col(name).cast("string")
    return sql.when(~sql.trim(text).isin(list(nulls)), text) if nulls else text


def _time(column: str, type_: str) -> str:
    if type_ == "timestamp":
        return f"unix_micros({column})"
    if type_ == "timestamp_ntz":
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {column})"
    if type_ == "date":
        return f"unix_date({column}) * 86400000000"
    text = f"trim({column})"
    return (
        f"unix_micros(try_cast(case when {text} rlike '^{_DAY}$' then concat({text}, 'T00:00:00Z') "
        f"when {text} rlike '^{_NO_ZONE}$' then concat({text}, 'Z') "
        f"when {text} rlike '^{_NO_ZONE} ?(Z|UTC|GMT|[-+].*)$' then {text} end as timestamp))"
    )


def _number(column: str, type_: str) -> str:
    if type_ != "string":
        return column
    return f"case when trim({column}) rlike '^{_NUMBER}$' then try_cast(trim({column}) as bigint) end"


def _split(column: str, type_: str) -> str:
    cases = " ".join(f"when '{name}' then {place}" for name, place in _NAMES.items())
    return f"case lower(trim(cast({column} as string))) {cases} end"


_EXPRESSIONS = {"time": _time, "number": _number, "split": _split}
