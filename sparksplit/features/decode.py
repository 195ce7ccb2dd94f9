"""The computation from stored values to the model's inputs, as data. `sparksplit.model.graphs.features` runs it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.dataset.description import arithmetic
from sparksplit.dataset.feature_spec import NUMBERS, Date, Feature, Number, categories, inputs
from sparksplit.features.times import DAY_MICROSECONDS, civil

Array = npt.NDArray[Any]
F64 = npt.NDArray[np.float64]

PERIODS = {"month": 12, "day": 31, "weekday": 7, "hour": 24}


@dataclass(frozen=True)
class Group:
    """All plain numbers of one stored tensor. Every array except `indicators` has one entry per value, [values].

    The group's part of the model's input `numbers`: every value, then 1.0 (missing) or 0.0 for each place in the group
    that `indicators` lists.
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

    def kind(self, dtype: Any, floats: str) -> np.dtype[Any]:
        """Return the float type of the computation. dtype: the stored dtype. floats: the model's float type.

        Logarithms and all 64-bit values use float64. Raw rows also bring 64-bit whole numbers as float64.
        """
        if self.log1p.any() or np.dtype(dtype).itemsize > 4:
            return np.dtype(np.float64)
        return arithmetic(np.dtype(dtype), self.offset, self.scale, floats)


@dataclass(frozen=True)
class Plan:
    """The steps from stored tensors to inputs.

    groups, single: the number features, computed group by group and then one by one. order: for each number feature, in
    the order of the features, its place in what was computed; None if both orders are equal.
    """

    features: Sequence[Feature]
    groups: list[Group]
    single: list[Feature]
    order: npt.NDArray[np.int32] | None

    @cached_property
    def own(self) -> list[Feature]:
        """The features that are separate inputs of indices."""
        names = categories(list(self.features))
        return [feature for feature in self.features if feature.column in names]


def plan(features: Sequence[Feature]) -> Plan:
    """Return the plan for these features."""
    indexed = categories(list(features))
    places: dict[str, list[int]] = {}
    start = 0
    for feature in features:
        if feature.column not in indexed:
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
    """Return the feature's reference day in its stored unit: days or microseconds since 1970."""
    day = datetime.date.fromisoformat(feature.since or "1970-01-01")
    return (day - datetime.date(1970, 1, 1)).days * (DAY_MICROSECONDS if feature.moment else 1)


def distance(feature: Date) -> tuple[np.float64, np.float64]:
    """Return (offset, scale) of the distance from `since`, in its stored unit.

    A separate division by the unit would change bits, because TensorFlow rearranges the graph.
    """
    unit = DAY_MICROSECONDS if feature.moment else 1
    offset, scale = feature.scaled.offset, feature.scaled.scale
    assert not isinstance(offset, list) and not isinstance(scale, list)  # a date is one value
    return np.float64(offset) * unit, np.float64(scale) / unit


def circle(part: str) -> F64:
    """Return sine and cosine of each value of a part of a date, [values, 2]."""
    period = PERIODS[part]
    angles = [2 * math.pi * value / period for value in range(period)]
    return np.array([(math.sin(angle), math.cos(angle)) for angle in angles])


def part(name: str, moment: bool, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a part of stored dates, from 0. values: array or tensor of int64, days or microseconds since 1970."""
    days = values // DAY_MICROSECONDS if moment else values
    if name == "hour":
        # A day without a time begins at midnight.
        return values // 3_600_000_000 % 24 if moment else days * 0
    if name == "weekday":
        # 1970 began on a Thursday.
        return (days + 3) % 7
    _, month, day = civil(days)
    return month - 1 if name == "month" else day - 1
