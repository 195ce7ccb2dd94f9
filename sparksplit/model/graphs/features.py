"""Turns stored values into the model's inputs in TensorFlow graphs, with the steps of `sparksplit.features.decode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sparksplit.dataset.feature_spec import NUMBERS, Date, Feature, Number, inputs
from sparksplit.features.decode import Group, circle, distance, part, plan, since
from sparksplit.features.encoding import missing_value


class FeatureInputs:
    """The model's inputs of a data set with features."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self._plan = plan(features)
        self._shapes = inputs(list(features))

    def decode(self, tensors: Mapping[str, Any]) -> Any:
        """Return the only input, or a mapping of several inputs by name, [rows, *shape].

        `numbers` has Keras's float type. Indices are int32. tensors: the stored tensors by name, [rows, *shape].
        """
        flat = {name: _flat(tensor) for name, tensor in tensors.items()}
        pieces = [piece for group in self._plan.groups for piece in _group(group, flat[group.tensor])]
        pieces += [_single(feature, _values(feature, flat)) for feature in self._plan.single]
        decoded = {}
        if pieces:
            numbers = tf.concat(pieces, axis=1)
            order = self._plan.order
            decoded[NUMBERS] = numbers if order is None else tf.gather(numbers, order, axis=1)
        for feature in self._plan.own:
            values = _values(feature, flat)
            indices = _bucketed(feature, values) if isinstance(feature, Number) else tf.cast(values, tf.int32)
            decoded[feature.column] = tf.reshape(indices, (-1, *self._shapes[feature.column]))
        return decoded if len(decoded) > 1 else next(iter(decoded.values()))


def _flat(tensor: Any) -> Any:
    return tf.reshape(tensor, (-1, int(np.prod(tensor.shape[1:]))))


def _values(feature: Feature, flat: Mapping[str, Any]) -> Any:
    return flat[feature.tensor][:, feature.place : feature.place + feature.values]


def _missing(stored: Any) -> Any:
    if stored.dtype.is_floating:
        return tf.math.is_nan(stored)
    least = missing_value(stored.dtype.as_numpy_dtype)
    return tf.zeros_like(stored, tf.bool) if least is None else tf.equal(stored, least)


def _group(group: Group, flat: Any) -> list[Any]:
    every = len(group.places) == flat.shape[1] and bool((group.places == np.arange(flat.shape[1])).all())
    stored = flat if every else tf.gather(flat, group.places, axis=1)
    kind = group.kind(stored.dtype.as_numpy_dtype, keras.config.floatx())
    missing = _missing(stored)
    values = tf.cast(stored, kind)
    # Use comparisons instead of minimum and maximum, so that NaN stays.
    if np.isfinite(group.low).any():
        values = tf.where(values < group.low.astype(kind), group.low.astype(kind), values)
    if np.isfinite(group.high).any():
        values = tf.where(values > group.high.astype(kind), group.high.astype(kind), values)
    if group.log1p.any():
        missing = missing | (group.log1p & (values <= -1))
        values = tf.where(group.log1p, tf.math.log1p(tf.where(group.log1p & ~missing, values, 0.0)), values)
    values = tf.where(missing, group.impute.astype(kind), values)
    if group.offset.any():
        values = values - group.offset.astype(kind)
    if (group.scale != 1).any():
        values = values * group.scale.astype(kind)
    pieces = [tf.cast(values, keras.config.floatx())]
    if len(group.indicators):
        pieces.append(tf.cast(tf.gather(missing, group.indicators, axis=1), keras.config.floatx()))
    return pieces


def _single(feature: Feature, values: Any) -> Any:
    if isinstance(feature, Date):
        return _date(feature, values[:, 0])
    indices = _bucketed(feature, values) if isinstance(feature, Number) else tf.cast(values, tf.int32)
    return _flat(tf.one_hot(indices, feature.size, dtype=keras.config.floatx()))


def _bucketed(feature: Number, values: Any) -> Any:
    missing = _missing(values)
    known = tf.where(missing, tf.constant(0.0, tf.float64), tf.cast(values, tf.float64))
    boundaries = tf.constant(feature.buckets, tf.float64, shape=[len(feature.buckets or ())])
    places = tf.reshape(tf.searchsorted(boundaries, tf.reshape(known, [-1]), side="right"), tf.shape(known))
    return tf.where(missing, 0, places + 1)


def _date(feature: Date, values: Any) -> Any:
    missing = _missing(values)
    whole = tf.where(missing, tf.constant(0, tf.int64), tf.cast(values, tf.int64))
    kind = keras.config.floatx()
    columns = [tf.gather(circle(name).astype(kind), part(name, feature.moment, whole)) for name in feature.parts]
    if feature.since is not None:
        offset, scale = distance(feature)
        days = (tf.cast(whole - since(feature), tf.float64) - offset) * scale
        columns.append(tf.cast(days, kind)[:, None])
    shown = [tf.where(missing[:, None], tf.constant(0.0, kind), column) for column in columns]
    return tf.concat([*shown, tf.cast(missing, kind)[:, None]], axis=1)
