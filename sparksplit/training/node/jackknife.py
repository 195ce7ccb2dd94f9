"""How far the rows of each lane move a metric: what its error is estimated from that comes of which rows there are.

A row's lane is a hash of its content, so lanes are random groups of rows; and they are the same groups for every run on
a data set, on whatever number of nodes, so that runs pair by lane as they do by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.collectives import Collective
from sparksplit.training.metrics import LOSS

Array = npt.NDArray[Any]
Sums = Mapping[str, Sequence[Array]]
"""By metric, what its value comes from, as arrays that are added over rows; the last one of the loss is of the rows'
weights, or how many there are."""
_MOST_BYTES = 64 << 20
"""Of a metric's sums in all lanes: nothing is told of a metric that has more."""
_MOST_LANES = 128
"""Of which something is told: more would hardly tell the variance better."""


def jackknife(
    by_lane: Iterable[tuple[int, Sums]],
    nothing: Sums,
    lanes: int,
    value_of: Callable[[str, Sequence[Array]], float],
    collective: Collective,
) -> dict[str, list[float]]:
    """By metric, a number for each of the first 128 lanes that have rows: sqrt(h - 1) times what the lane adds to
    the metric (its value over all rows less that without the lane), where all lanes have h times as many rows.

    The mean of their squares is the metric's sampling variance: the delete-m jackknife (Busing, Meijer and van der
    Leeden, "Delete-m Jackknife for Unequal m", 1999), around the metric itself. It holds for means, and for what else
    describes rows smoothly, such as an AUC. Metrics that count, which change where every row comes twice, are left out,
    and so are those that are no finite number without some lane, or have too much to sum. Nothing is told of rows in
    fewer than two lanes.

    by_lane: (lane, its sums) for this node's lanes that have rows. nothing: the sums over no rows. lanes: how many
    there are. value_of: a metric from its sums. Every node must call it, whatever lanes it has.
    """
    names = [name for name, state in nothing.items() if lanes * sum(each.nbytes for each in state) <= _MOST_BYTES]
    kept = {lane: {name: _wide(sums[name]) for name in names} for lane, sums in by_lane}
    own = np.zeros(lanes)
    for lane, sums in kept.items():
        own[lane] = sums[LOSS][-1]
    weights = np.array(collective.sum([own])[0])
    used = np.flatnonzero(weights > 0)[:_MOST_LANES]
    if len(used) < 2:
        return {}
    shares = weights[used] / weights.sum()
    found: dict[str, list[float]] = {}
    for name in names:
        states = {lane: sums[name] for lane, sums in kept.items()}
        added = _added(states, _wide(nothing[name]), used, lanes, partial(value_of, name), collective)
        if np.isfinite(added[used]).all():
            found[name] = [float(f"{value:.6g}") for value in added[used] * np.sqrt((1 - shares) / shares)]
    return found


def _added(
    states: Mapping[int, Sequence[Array]],
    nothing: Sequence[Array],
    used: Array,
    lanes: int,
    value: Callable[[Sequence[Array]], float],
    collective: Collective,
) -> Array:
    """What each of the lanes `used` adds to the metric, [lanes], NaN if it counts; 0 for the others."""
    own = [np.sum(parts, axis=0) for parts in zip(nothing, *states.values(), strict=True)]
    total = [np.array(each) for each in collective.sum(own)]
    whole = value(total)
    counts = not math.isclose(value([2 * each for each in total]), whole, rel_tol=1e-5, abs_tol=1e-12)
    added = np.zeros(lanes)
    for lane in set(used.tolist()) & set(states):
        without = [all_ - each for all_, each in zip(total, states[lane], strict=True)]
        added[lane] = math.nan if counts else whole - value(without)
    return np.array(collective.sum([added])[0])


def _wide(state: Sequence[Array]) -> list[Array]:
    """In 64 bits, as they are added."""
    return [each.astype(np.float64 if each.dtype.kind == "f" else np.int64) for each in state]
