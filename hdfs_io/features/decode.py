"""Stored values as the model's inputs: what is to be computed, as data, and NumPy's way to compute it.

`sparksplit.model.features` computes the same in TensorFlow, with the same operations in the same order and float type,
so that the bits are the same; only log1p may differ in the last one, since each has its own.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hdfs_io.features.encode import is_missing
from hdfs_io.features.spec import NUMBERS, Category, Date, Feature, Number, categories, inputs
from hdfs_io.features.times import DAY_MICROSECONDS, civil
from hdfs_io.preprocessing import arithmetic

Array = npt.NDArray[Any]
F64 = npt.NDArray[np.float64]

PERIODS = {"month": 12, "day": 31, "weekday": 7, "hour": 24}


@dataclass(frozen=True)
class Group:
    """All plain numbers of one stored tensor: values in `places`, [values], and as many of each of the others.

    Their part of `numbers`: every value, then 1.0 or 0.0 for those in `indicators` (places in the group).
    """

    tensor: str
    places: npt.NDArray[np.int32]
    low: F64
    high: F64
    log1p: npt.NDArray[np.bool_]
    impute: F64
    offset: F64
    scale: F64
    indicators: npt.NDArray[np.int32]

    def kind(self, dtype: Any) -> np.dtype[Any]:
        """The float type to compute in, from the stored one. 64 bit whole numbers always go by float64, by which they
        also come in a raw row."""
        if self.log1p.any() or np.dtype(dtype).itemsize > 4:
            return np.dtype(np.float64)
        return arithmetic(np.dtype(dtype), self.offset, self.scale)


@dataclass(frozen=True)
class Plan:
    """How the inputs come of the stored tensors.

    groups, single: the parts of `numbers` in the order in which they are computed. order: where in these each of
    `numbers` is found, in the order of the features; None where they are in it.
    """

    features: Sequence[Feature]
    groups: list[Group]
    single: list[Feature]
    order: npt.NDArray[np.int32] | None

    @cached_property
    def own(self) -> list[Feature]:
        """The features that are an input of indices each."""
        names = categories(list(self.features))
        return [feature for feature in self.features if feature.column in names]


def plan(features: Sequence[Feature]) -> Plan:
    """What is to be computed for these features."""
    own = categories(list(features))
    places: dict[str, list[int]] = {}
    start = 0
    for feature in features:
        if feature.column not in own:
            width = inputs([feature])[NUMBERS][0]
            places[feature.column] = list(range(start, start + width))
            start += width
    plain: dict[str, list[Number]] = {}
    single: list[Feature] = []
    for feature in features:
        if isinstance(feature, Number) and feature.buckets is None:
            plain.setdefault(feature.tensor, []).append(feature)
        elif feature.column in places:
            single.append(feature)
    targets: list[int] = []
    for members in plain.values():
        targets += [place for feature in members for place in places[feature.column][: feature.values]]
        targets += [place for feature in members for place in places[feature.column][feature.values :]]
    targets += [place for feature in single for place in places[feature.column]]
    order = np.argsort(targets).astype(np.int32)
    in_order = bool((order == np.arange(len(order))).all())
    groups = [_group(tensor, members) for tensor, members in plain.items()]
    return Plan(features, groups, single, None if in_order else order)


def _group(tensor: str, members: list[Number]) -> Group:
    def each(values: list[Any]) -> Array:
        filled = [np.broadcast_to(value, (feature.values,)) for value, feature in zip(values, members, strict=True)]
        return np.concatenate(filled)

    clips = [feature.clip or (-np.inf, np.inf) for feature in members]
    return Group(
        tensor=tensor,
        places=np.concatenate([feature.place + np.arange(feature.values) for feature in members]).astype(np.int32),
        low=each([clip[0] for clip in clips]).astype(np.float64),
        high=each([clip[1] for clip in clips]).astype(np.float64),
        log1p=each([feature.log1p for feature in members]),
        impute=each([feature.scaled.impute for feature in members]).astype(np.float64),
        offset=each([feature.scaled.offset for feature in members]).astype(np.float64),
        scale=each([feature.scaled.scale for feature in members]).astype(np.float64),
        indicators=np.flatnonzero(each([feature.indicator for feature in members])).astype(np.int32),
    )


def since(feature: Date) -> int:
    """The feature's reference in its stored unit: days, or microseconds, since 1970."""
    day = datetime.date.fromisoformat(feature.since or "1970-01-01")
    return (day - datetime.date(1970, 1, 1)).days * (DAY_MICROSECONDS if feature.moment else 1)


def distance(feature: Date) -> tuple[np.float64, np.float64]:
    """(offset, scale) of the distance from `since`, in its stored unit: a division of its own would not keep its bits
    in a graph, which TensorFlow rearranges."""
    unit = DAY_MICROSECONDS if feature.moment else 1
    offset, scale = feature.scaled.offset, feature.scaled.scale
    assert not isinstance(offset, list) and not isinstance(scale, list)  # a date is one value
    return np.float64(offset) * unit, np.float64(scale) / unit


def circle(part: str) -> F64:
    """Sine and cosine of each value of a part of a date, [values, 2]."""
    period = PERIODS[part]
    angles = [2 * math.pi * value / period for value in range(period)]
    return np.array([(math.sin(angle), math.cos(angle)) for angle in angles])


def part(name: str, moment: bool, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A part of stored dates, from 0; a tensor may be given as well. values: int64, days or microseconds since 1970"""
    days = values // DAY_MICROSECONDS if moment else values
    if name == "hour":
        # A day without a time begins at midnight.
        return values // 3_600_000_000 % 24 if moment else days * 0
    if name == "weekday":
        # 1970 began on a Thursday.
        return (days + 3) % 7
    _, month, day = civil(days)
    return month - 1 if name == "month" else day - 1


def decoded(features: Sequence[Feature], tensors: Mapping[str, Array]) -> dict[str, Array]:
    """The model's inputs by name, [rows, *shape] as `spec.inputs` says: `numbers` in float32, indices in int32.

    tensors: the stored ones by name, [rows, *shape].
    """
    planned = plan(features)
    flat = {name: tensor.reshape(len(tensor), math.prod(tensor.shape[1:])) for name, tensor in tensors.items()}
    pieces = [_decoded_group(group, flat[group.tensor]) for group in planned.groups]
    pieces += [_decoded_single(feature, _values(feature, flat)) for feature in planned.single]
    found: dict[str, Array] = {}
    if pieces:
        numbers = np.concatenate(pieces, axis=1)
        found[NUMBERS] = numbers if planned.order is None else numbers[:, planned.order]
    shapes = inputs(list(features))
    for feature in planned.own:
        values = _values(feature, flat)
        indices = _bucketed(feature, values) if isinstance(feature, Number) else values.astype(np.int32)
        found[feature.column] = indices.reshape(len(indices), *shapes[feature.column])
    return found


def _values(feature: Feature, flat: Mapping[str, Array]) -> Array:
    return flat[feature.tensor][:, feature.place : feature.place + feature.values]


def _decoded_group(group: Group, flat: Array) -> npt.NDArray[np.float32]:
    stored = flat[:, group.places]
    kind = group.kind(stored.dtype)
    missing = is_missing(stored)
    values = stored.astype(kind)
    low, high = group.low.astype(kind), group.high.astype(kind)
    values = np.where(values < low, low, values)
    values = np.where(values > high, high, values)
    if group.log1p.any():
        # What has no logarithm is missing.
        missing = missing | (group.log1p & (values <= -1))
        values = np.where(group.log1p, np.log1p(np.where(group.log1p & ~missing, values, 0.0)), values)
    values = np.where(missing, group.impute.astype(kind), values)
    with np.errstate(over="ignore"):
        values = (values - group.offset.astype(kind)) * group.scale.astype(kind)
        indicators = missing[:, group.indicators]
        return np.concatenate([values.astype(np.float32), indicators.astype(np.float32)], axis=1)


def _decoded_single(feature: Feature, values: Array) -> npt.NDArray[np.float32]:
    if isinstance(feature, Date):
        return _decoded_date(feature, values[:, 0])
    indices = _bucketed(feature, values) if isinstance(feature, Number) else values
    assert isinstance(feature, Number | Category)
    rows = indices[:, :, None] == np.arange(feature.size)
    found: npt.NDArray[np.float32] = rows.reshape(len(rows), -1).astype(np.float32)
    return found


def _bucketed(feature: Number, values: Array) -> npt.NDArray[np.int32]:
    missing = is_missing(values)
    known = np.where(missing, 0.0, values.astype(np.float64))
    places = np.searchsorted(np.array(feature.buckets, np.float64), known, side="right")
    return np.where(missing, 0, places + 1).astype(np.int32)


def _decoded_date(feature: Date, values: Array) -> npt.NDArray[np.float32]:
    missing = is_missing(values)
    whole = np.where(missing, 0, values.astype(np.int64))
    columns = [circle(name)[part(name, feature.moment, whole)].astype(np.float32) for name in feature.parts]
    if feature.since is not None:
        offset, scale = distance(feature)
        days = ((whole - since(feature)).astype(np.float64) - offset) * scale
        columns.append(days.astype(np.float32)[:, None])
    shown = [np.where(missing[:, None], np.float32(0), column) for column in columns]
    return np.concatenate([*shown, missing[:, None].astype(np.float32)], axis=1)
