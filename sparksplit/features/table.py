"""A table of mixed columns: its features, their kinds, and the places of their values in a row.

Numbers, arrays of numbers and dates are parsed into one tensor for each dtype, side by side, in the order of the
columns. Categories and texts stay texts until their vocabularies are known. Then their indices are stored in the same
way (encoder.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import Description, TensorSpec
from sparksplit.dataset.feature_spec import Category, Date, Feature, Number, Parts, Text
from sparksplit.features import times
from sparksplit.features.encoding import BOOLEANS
from sparksplit.features.feature_config import FeatureConfig, Kind
from sparksplit.features.missing_columns import there_are
from sparksplit.features.names import serving_names

_DTYPES = {
    "tinyint": "int16",
    "smallint": "int32",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "int16",
}
"""Dtypes of parsed numbers: the smallest dtype with all values of a type, and one more value for a missing number.

For int and bigint, the lowest number stands for a missing number.
"""
WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Column:
    """A raw column that is a feature.

    type: Spark's type. kind: the final kind. dtype: dtype of the parsed values; None if the column stays a text.
    values: number of values in a row. fitted: the feature as fitted on earlier rows; None if the column is to be fitted
    as `config` says. format: format of a date's texts; None for ISO 8601.
    """

    name: str
    type: str
    kind: Kind
    config: FeatureConfig
    dtype: str | None
    values: int = 1
    fitted: Feature | None = None
    format: str | None = None

    @property
    def moment(self) -> bool:
        """Whether a date has a time of day."""
        return self.kind == "date" and self.dtype == "int64"


@dataclass(frozen=True)
class Table:
    """The features of a table, in the model's order. Picklable. ignored: columns that are not features."""

    columns: tuple[Column, ...]
    ignored: tuple[str, ...] = ()

    @cached_property
    def tensors(self) -> list[TensorSpec]:
        """The parsed tensors, sorted by dtype."""
        widths: dict[str, int] = {}
        for column in self.columns:
            if column.dtype is not None:
                widths[column.dtype] = widths.get(column.dtype, 0) + column.values
        return [TensorSpec(name=number_tensor(dtype), dtype=dtype, shape=[widths[dtype]]) for dtype in sorted(widths)]

    @cached_property
    def texts(self) -> list[Column]:
        """The columns that stay texts when they are parsed."""
        return [column for column in self.columns if column.dtype is None]

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """By column: (index in `tensors` of the tensor that has its values, place of its first value in a row of the
        tensor).
        """
        order = {tensor.dtype: place for place, tensor in enumerate(self.tensors)}
        ends: dict[str, int] = {}
        by_column = {}
        for column in self.columns:
            if column.dtype is not None:
                by_column[column.name] = order[column.dtype], ends.get(column.dtype, 0)
                ends[column.dtype] = by_column[column.name][1] + column.values
        return by_column

    def feature(self, column: Column) -> Feature:
        """Return `column` as an unfitted feature.

        The tensor and place of a category or text are set later, with its vocabulary.
        """
        config = column.config
        tensor, place = self.places.get(column.name, (0, 0))
        name = self.tensors[tensor].name if column.dtype is not None else ""
        common: dict[str, Any] = {
            "column": column.name, "type": column.type, "tensor": name, "place": place, "values": column.values
        }  # fmt: skip
        if column.kind == "number":
            clip = None if config.clip is None else (config.clip[0], config.clip[1])
            encoding = config.encoding or "one-hot"
            return Number(**common, clip=clip, log1p=config.log1p, indicator=config.indicator, encoding=encoding)
        if column.kind == "date":
            return Date(
                **common, moment=column.moment, format=column.format, parts=date_parts(column), since=config.since
            )
        if column.kind == "category":
            return Category(**common, hash=config.hash, encoding=config.encoding or "embedding")
        return Text(**common, unit=config.unit, lowercase=config.lowercase)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each feature, by its column."""
        return {column.name: column.kind for column in self.columns}

    def said(self) -> dict[str, str]:
        """Return what becomes of each column, as texts for people."""
        features = {column.name: f"{column.name} ({column.type}): {_said(column)}" for column in self.columns}
        return features | {name: f"{name}: ignored" for name in self.ignored}


def number_tensor(dtype: str) -> str:
    """Return the name of the tensor of a dtype's parsed values."""
    return f"numbers_{dtype}"


TENSOR = re.compile(r"(numbers|indices)_[a-z]+[0-9]+")
"""Possible names of a table's tensors."""


def index_tensor(dtype: str) -> str:
    """Return the name of the tensor of a dtype's indices."""
    return f"indices_{dtype}"


def is_mixed(types: Mapping[str, str]) -> bool:
    """Return whether columns of these types must be a table's features: one tensor of numbers cannot hold them."""
    kinds = types.values()
    arrays = any(kind.startswith("array<") for kind in kinds)
    return (arrays and len(types) > 1) or any(kind == "string" or kind in _TIMES for kind in kinds)


def check_named(wanted: Mapping[str, FeatureConfig], names: Sequence[str], place: str) -> None:
    """Raise ConfigError if `wanted` names a column that cannot be a feature. names: columns that may be features."""
    for name, config in wanted.items():
        if name not in names:
            error: ConfigError = config.origin.error((), f"{place} has no such feature{there_are(name, names)}")
            raise error


def table_of(
    types: Mapping[str, str],
    wanted: Mapping[str, FeatureConfig],
    place: str,
    length: Callable[[str], int],
    dtype: str | None = None,
) -> Table:
    """Return the table of columns that are to be fitted.

    types: Spark's types of the columns that may be features, in order. wanted: the configuration of some columns.
    place: name of the rows in errors. length: returns the number of values in a column of arrays. dtype: dtype of
    floating-point numbers; None: their own dtype.

    Raise InputError for a column that cannot be a feature. Raise ConfigError if a column cannot be what the
    configuration asks for.
    """
    columns, ignored = [], []
    for name, kind in types.items():
        config = wanted.get(name, FeatureConfig())
        settled = config.asked or _natural(name, kind, place)
        of_kind = config.model_copy(update={"kind": settled})
        if key := of_kind.misplaced():
            raise config.error(key, f"has no effect on column {name!r}, which is a {settled} ({kind}); remove it")
        if settled == "ignore":
            ignored.append(name)
            continue
        if idle := of_kind.idle():
            raise config.error(idle[0], f"has no effect {idle[1]} (column {name!r})")
        array = kind.startswith("array<")
        _check(name, kind[6:-1] if array else kind, settled, config, array)
        if config.format is not None and kind in _TIMES:
            raise config.error("format", f"is only for texts and whole numbers; column {name!r} is {kind}")
        if array and config.buckets is not None:
            raise config.error("buckets", f"buckets are only for single numbers; column {name!r} is an array")
        values = length(name) if array else config.length if settled == "text" else 1
        parsed = _dtype(kind, settled, dtype, config.format)
        columns.append(Column(name, kind, settled, config, parsed, values, format=config.format))
    if not columns:
        raise InputError(f"{place}: has no columns left for features")
    table = Table(tuple(columns), tuple(ignored))
    try:
        serving_names([table.feature(column) for column in columns])
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error
    return table


def table_like(description: Description, types: Mapping[str, str], place: str) -> Table:
    """Return the table of `description`'s features, for columns of these types.

    Raise InputError if a column is missing, or if its type cannot hold the values of the fitted feature.
    """
    columns = []
    dtypes = {tensor.name: tensor.dtype for tensor in description.tensors}
    for feature in description.features:
        if feature.column not in types:
            told = there_are(feature.column, list(types))
            raise InputError(f"{place}: has no column {feature.column!r}, which the model was trained on{told}")
        if not _like(feature, types[feature.column]):
            raise InputError(
                f"{place}: column {feature.column!r} is {types[feature.column]}, but was {feature.type} (a "
                f"{feature.kind}) when it was fitted; cast it"
            )
        text = isinstance(feature, Category | Text)
        config = FeatureConfig(kind=feature.kind)
        dtype = None if text else dtypes[feature.tensor]
        # Spark writes dates and times as ISO 8601.
        form = feature.format if isinstance(feature, Date) and types[feature.column] not in _TIMES else None
        columns.append(Column(feature.column, feature.type, feature.kind, config, dtype, feature.values, feature, form))
    return Table(tuple(columns))


def _like(feature: Feature, kind: str) -> bool:
    """Return whether a column of this type can have the values of a fitted feature."""
    array = kind.startswith("array<")
    if array != feature.type.startswith("array<"):
        return False
    if isinstance(feature, Category) and "boolean" in (kind, feature.type):
        # `true` is neither a digit nor `True`, so every row would have an unknown value.
        known = feature.type == "boolean" or feature.hash is not None or not {*BOOLEANS}.isdisjoint(feature.vocabulary)
        return {kind, feature.type} <= {"boolean", "string"} and (known or kind == "string")
    if feature.kind == "category" and kind == "date":
        return feature.type == "string"  # a day has one spelling, which may come from a folder's name
    form = feature.format if isinstance(feature, Date) else None
    return _fits(kind[6:-1] if array else kind, array, form)[feature.kind] and kind != "array<string>"


def _natural(name: str, kind: str, place: str) -> Kind:
    element = kind[6:-1] if kind.startswith("array<") else kind
    if (element in _DTYPES and element != "boolean") or element.startswith("decimal("):
        return "number"
    if kind in ("string", "boolean"):
        return "category"
    if kind in _TIMES:
        return "date"
    raise InputError(
        f"{place}: column {name!r} is {kind}, which cannot be a feature. Convert it to numbers, texts, dates or "
        f"arrays of numbers, list it in input.keep, or leave it out (features.{name}: ignore)"
    )


def _check(name: str, kind: str, settled: Kind, config: FeatureConfig, array: bool) -> None:
    if not _fits(kind, array, config.format)[settled]:
        shown = f"array<{kind}>" if array else kind
        error = config.error("kind", f"column {name!r} is {shown}, which cannot be a {settled}")
        raise error


def _fits(kind: str, array: bool, format: str | None) -> dict[Kind, bool]:
    """Return for each kind whether a column can have it.

    kind: type of the column, or of an array's values. format: format of its dates.
    """
    number = kind in _DTYPES or kind.startswith("decimal(")
    return {
        "number": number or kind == "string",
        "category": kind in ("string", "boolean", *WHOLE) and not array,
        "date": (kind in (*_TIMES, "string") or (format is not None and kind in WHOLE)) and not array,
        "text": kind == "string" and not array,
    }


def _dtype(kind: str, settled: Kind, dtype: str | None, format: str | None) -> str | None:
    if settled in ("category", "text"):
        return None
    if settled == "date":
        return "int32" if kind == "date" or (format is not None and not times.has_time(format)) else "int64"
    element = kind[6:-1] if kind.startswith("array<") else kind
    native = _DTYPES.get(element, "float64")
    return dtype if dtype is not None and native.startswith("float") else native


def date_parts(column: Column) -> list[Parts]:
    """Return the parts of a date that the model gets."""
    default: list[Parts] = ["month", "weekday", "hour"] if column.moment else ["month", "weekday"]
    return default if column.config.parts is None else column.config.parts


def _said(column: Column) -> str:
    config, kind = column.config, column.kind
    if kind == "number":
        told = ["number" if column.values == 1 else f"{column.values} numbers"]
        told += ["clipped"] * (config.clip is not None) + ["log1p"] * config.log1p
        if config.buckets:
            told.append(f"{config.buckets} buckets")
        else:
            told += [f"scale {config.scale}"] * (config.scale is not None) + [f"missing: {config.impute}"]
        return ", ".join(told + ["indicator"] * config.indicator)
    if kind == "category":
        most = f"the {config.vocabulary:,} most frequent in at least {config.min_count} rows"
        return f"category, {config.encoding or 'embedding'}: {f'{config.hash:,} hashed' if config.hash else most}"
    if kind == "date":
        since = [f"days since {config.since}"] if config.since else []
        form = f" ({column.format})" if column.format else ""
        return (
            f"{'time' if column.moment else 'date'}{form}: "
            f"{', '.join([*date_parts(column), *since]) or 'missing or not'}"
        )
    return f"text: {config.length} {config.unit}, of the {config.vocabulary:,} most frequent"
