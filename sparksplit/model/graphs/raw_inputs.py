"""Turns raw columns into stored values in a TensorFlow graph, bit for bit as `sparksplit.features.encoding` does.

Each column is a tensor. A number is float64 [rows], or [rows, values] for an array, with NaN for a missing value. Other
columns are string [rows], with "" for a missing value. A date is in ISO 8601, or in its feature's format. A value that
does not fit raises an error with the column's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparksplit.dataset.description import Description, TensorSpec
from sparksplit.dataset.feature_spec import (
    FIRST,
    HASH_KEY,
    MISSING,
    UNKNOWN,
    Category,
    Date,
    Feature,
    Number,
    Text,
)
from sparksplit.features import times
from sparksplit.features.encoding import missing_value, spellings
from sparksplit.features.names import serving_names
from sparksplit.features.tokens import ALONE, APART


class RawInputs:
    """The raw columns of a data set with features. The vocabularies in `tables` must be saved with the graph."""

    def __init__(self, description: Description) -> None:
        self._features, self._specs = description.features, description.model_tensors
        self._names = serving_names(self._features)
        vocabularies = {
            feature.column: feature.vocabulary
            for feature in self._features
            if isinstance(feature, Text) or (isinstance(feature, Category) and feature.hash is None)
        }
        self._tables = {column: _table(vocabulary) for column, vocabulary in vocabularies.items()}

    @property
    def tables(self) -> list[Any]:
        """The lookup tables that the graph uses."""
        return list(self._tables.values())

    def signature(self) -> list[Any]:
        """Return a tf.TensorSpec for each column, with the column's name in the signature."""
        return [
            tf.TensorSpec(
                (None, feature.values) if isinstance(feature, Number) and feature.values > 1 else (None,),
                tf.float64 if isinstance(feature, Number) else tf.string,
                name=self._names[feature.column],
            )
            for feature in self._features
        ]

    def stored(self, columns: Sequence[Any]) -> list[Any]:
        """Return the stored tensors, [rows, *shape] each. columns: tensors in the order of `signature`."""
        # Attach the check to an identity. TensorFlow drops a reshape that changes nothing, and its control dependencies
        # too.
        with tf.control_dependencies([self._same_rows(columns)]):
            columns = [tf.identity(column) for column in columns]
        columns = [
            tf.reshape(column, (-1, feature.values) if isinstance(feature, Number) else (-1,))
            for feature, column in zip(self._features, columns, strict=True)
        ]
        return [self._tensor(spec, columns) for spec in self._specs]

    def _same_rows(self, columns: Sequence[Any]) -> Any:
        values = [feature.values if isinstance(feature, Number) else 1 for feature in self._features]
        sizes = tf.stack([tf.size(column) for column in columns])
        rows = sizes // values
        other = (rows * values != sizes) | (rows != rows[0])
        names = tf.constant([feature.column for feature in self._features])
        message = f"the column must have as many rows as {self._features[0].column}:"
        return tf.debugging.Assert(~tf.reduce_any(other), [message, names[other]])

    def _tensor(self, spec: TensorSpec, columns: Sequence[Any]) -> Any:
        """Return one stored tensor: numbers together, then the other columns, then each value moved to its place."""
        dtype = tf.as_dtype(spec.dtype)
        inside = [pair for pair in zip(self._features, columns, strict=True) if pair[0].tensor == spec.name]
        numbers = [(feature, column) for feature, column in inside if isinstance(feature, Number)]
        others = [(feature, column) for feature, column in inside if not isinstance(feature, Number)]
        pieces = []
        if numbers:
            names = [feature.column for feature, _ in numbers for _ in range(feature.values)]
            pieces.append(_numbers(tf.concat([column for _, column in numbers], axis=1), dtype, names))
        pieces += [tf.cast(self._encoded(feature, column), dtype) for feature, column in others]
        places = [
            place
            for feature, _ in [*numbers, *others]
            for place in range(feature.place, feature.place + feature.values)
        ]
        if sorted(places) != list(range(spec.values)):
            raise ValueError(f"the features do not give each of the {spec.values} values of tensor {spec.name} once")
        flat = tf.concat(pieces, axis=1)
        if places != sorted(places):
            flat = tf.gather(flat, np.argsort(places).astype(np.int32), axis=1)
        return tf.reshape(flat, (-1, *spec.shape))

    def _encoded(self, feature: Feature, column: Any) -> Any:
        """Return the stored values of a date, category or text, [rows, values]."""
        if isinstance(feature, Date):
            return _dates(feature, column)[:, None]
        if isinstance(feature, Text):
            return self._tables[feature.column].lookup(_tokens(feature, column))
        assert isinstance(feature, Category)
        for pattern, replacement in spellings(feature.type):
            column = tf.strings.regex_replace(column, pattern, replacement)
        if feature.hash is None:
            return self._tables[feature.column].lookup(column)[:, None]
        indices = 1 + tf.strings.to_hash_bucket_strong(column, feature.hash, list(HASH_KEY))
        return tf.where(tf.equal(column, ""), tf.constant(MISSING, tf.int64), indices)[:, None]


def _table(vocabulary: list[str]) -> Any:
    # The table knows the missing text too: ONNX cannot compare texts. Its index is also a text's padding.
    keys = tf.constant(["", *vocabulary], tf.string)
    values = tf.constant([MISSING, *range(FIRST, FIRST + len(vocabulary))], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), UNKNOWN)


def _numbers(values: Any, dtype: Any, names: list[str]) -> Any:
    """Return numbers [rows, K] in their stored dtype, with the dtype's missing value for NaN.

    A value that is a bad row in `preprocess` is an error here. names: the column of each of the K numbers.
    """
    missing = tf.math.is_nan(values)
    if dtype.is_floating:
        wanted, whole = f"finite numbers of {dtype.name}", tf.cast(values, dtype)
        wrong = ~(tf.math.is_finite(whole) | missing)
    else:
        limits, least = np.iinfo(dtype.as_numpy_dtype), missing_value(dtype.as_numpy_dtype)
        lowest = limits.min if least is None else limits.min + 1
        wanted = f"whole numbers from {lowest} to {limits.max}"
        # lowest - 1 and max + 1 are powers of two (up to the sign) or -1, so float64 holds them exactly.
        wrong = (values <= float(lowest - 1)) | (values >= float(limits.max + 1)) | (values != tf.floor(values))
        wrong = wrong | missing if least is None else wrong & ~missing
        whole = tf.cast(tf.where(missing | wrong, tf.constant(0.0, tf.float64), values), dtype)
        whole = whole if least is None else tf.where(missing, tf.constant(least, dtype), whole)
    message = f"the column must hold {wanted}, or NaN for a missing value:"
    faulty = tf.reduce_any(wrong, axis=0)
    with tf.control_dependencies([tf.debugging.Assert(~tf.reduce_any(faulty), [message, tf.constant(names)[faulty]])]):
        return tf.identity(whole)


def _tokens(feature: Text, texts: Any) -> Any:
    """Return the first tokens as strings, [rows, feature.values], with "" after the last token."""
    if feature.lowercase:
        texts = tf.strings.lower(texts)
    if feature.unit == "characters":
        tokens = tf.strings.unicode_split(texts, "UTF-8")
    else:
        tokens = tf.strings.split(tf.strings.regex_replace(texts, ALONE, APART))
    return tokens.to_tensor("", shape=[None, feature.values])


def _dates(feature: Date, texts: Any) -> Any:
    """Return days (int32) or microseconds (int64) since 1970, [rows], like `times.parsed`."""
    pattern = times.pattern(feature.moment, feature.format)
    names = times.groups(pattern)
    matched = tf.strings.regex_full_match(texts, pattern)
    safe = tf.where(matched, texts, times.example(feature.moment, feature.format))

    def group(name: str, behind: str = "") -> Any:
        if name not in names:
            return tf.fill(tf.shape(texts), behind)
        return tf.strings.regex_replace(safe, pattern, rf"\{names.index(name) + 1}{behind}")

    year, month, day = (_whole(group(name)) for name in ("year", "month", "day"))
    good = matched & (year >= 1) & (month >= 1) & (month <= 12)
    good = good & (day >= 1) & (day <= times.month_days(year, month))
    values = times.days_from(year, month, day)
    if feature.moment:
        hour, minute, second = (_whole(group(name)) for name in ("hour", "minute", "second"))
        microsecond = _whole(tf.strings.substr(group("fraction", times.NO_FRACTION), 0, 6))
        zone = group("zone", times.NO_ZONE)
        zone_hour, zone_minute = (_whole(tf.strings.substr(zone, start, 2)) for start in (1, 4))
        east = tf.where(tf.equal(tf.strings.substr(zone, 0, 1), "-"), tf.constant(-1, tf.int64), 1)
        good = good & times.in_a_day(hour, minute, second) & times.in_a_day(zone_hour, zone_minute, second)
        values = times.microseconds(values, (hour, minute, second, microsecond), east * (zone_hour * 60 + zone_minute))
    wrong = ~(good | tf.equal(texts, ""))
    form = feature.format or ("YYYY-MM-DDTHH:MM:SS" if feature.moment else "YYYY-MM-DD")
    message = f"the column must hold {form}, or an empty text for a missing value: {feature.column} has"
    with tf.control_dependencies([tf.debugging.Assert(~tf.reduce_any(wrong), [message, texts[wrong]])]):
        dtype = tf.int64 if feature.moment else tf.int32
        return tf.where(good, tf.cast(values, dtype), tf.constant(dtype.min, dtype))


def _whole(digits: Any) -> Any:
    return tf.strings.to_number(tf.strings.join(["0", digits]), tf.int64)
