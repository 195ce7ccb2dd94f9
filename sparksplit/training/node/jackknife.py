"""How far the rows of each lane move a metric. This is used to estimate the metric's error from the choice of rows.

A row's lane is a hash of its content, so lanes are random groups of rows. The groups are the same for every run on a
data set, on any number of nodes. So runs pair by lane as they do by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.collectives import Collective

Array = npt.NDArray[Any]
Sums = Mapping[str, Sequence[Array]]
"""By metric, the arrays that its value comes from, which are added over rows. The last array is what the rows count in
the metric: the sum of their weights, or their number."""
_MOST_BYTES = 64 << 20
"""Bytes of a metric's sums in all lanes. A metric with larger sums is left out."""
_MOST_LANES = 128
"""Largest number of lanes in the result. More lanes would hardly improve the estimate of the variance."""


def jackknife(
    by_lane: Iterable[tuple[int, Sums]],
    nothing: Sums,
    lanes: int,
    value_of: Callable[[str, Sequence[Array]], float],
    collective: Collective,
) -> dict[str, list[float]]:
    """Return, by metric, a number for each of the first 128 lanes that have rows.

    The number is sqrt(h - 1) times what the lane adds to the metric. h is the number of rows in all lanes (or their
    weight), divided by that of the lane. The lane adds the metric's value over all rows minus its value without the
    lane.

    The mean of the squares of these numbers is the metric's sampling variance, around the metric itself. This is the
    delete-m jackknife: Busing, Meijer and van der Leeden, "Delete-m Jackknife for Unequal m" (1999). It holds for
    means, and for other smooth functions of the rows, such as an AUC.

    Some metrics are left out:
    - metrics that count, because they change if every row comes twice
    - metrics that are not a finite number without some lane
    - metrics with too much to sum
    With rows in fewer than two lanes, the result is empty.

    by_lane: (lane, its sums) for this node's lanes that have rows.
    nothing: the sums over no rows.
    lanes: number of lanes.
    value_of: computes a metric from its sums.
    Every node must call this, also without rows.
    """
    names = [name for name, state in nothing.items() if lanes * sum(each.nbytes for each in state) <= _MOST_BYTES]
    kept = {lane: {name: _wide(sums[name]) for name in names} for lane, sums in by_lane}
    sizes = np.zeros((len(names), lanes))
    for lane, sums in kept.items():
        sizes[:, lane] = [sums[name][-1] for name in names]
    errors: dict[str, list[float]] = {}
    for name, weights in zip(names, np.array(collective.sum([sizes])[0]), strict=True):
        used = np.flatnonzero(weights > 0)[:_MOST_LANES]
        if len(used) < 2:
            continue
        shares = weights[used] / weights.sum()
        states = {lane: sums[name] for lane, sums in kept.items()}
        added = _added(states, _wide(nothing[name]), used, lanes, partial(value_of, name), collective)
        if np.isfinite(added[used]).all():
            errors[name] = [float(f"{value:.6g}") for value in added[used] * np.sqrt((1 - shares) / shares)]
    return errors


def _added(
    states: Mapping[int, Sequence[Array]],
    nothing: Sequence[Array],
    used: Array,
    lanes: int,
    value: Callable[[Sequence[Array]], float],
    collective: Collective,
) -> Array:
    """Return what each of the lanes `used` adds to the metric, [lanes]; 0 for other lanes. NaN if the metric counts."""
    sums = [np.sum(parts, axis=0) for parts in zip(nothing, *states.values(), strict=True)]
    total = [np.array(each) for each in collective.sum(sums)]
    whole = value(total)
    counts = not math.isclose(value([2 * each for each in total]), whole, rel_tol=1e-5, abs_tol=1e-12)
    added = np.zeros(lanes)
    for lane in set(used.tolist()) & set(states):
        without = [all_ - each for all_, each in zip(total, states[lane], strict=True)]
        added[lane] = math.nan if counts else whole - value(without)
    return np.array(collective.sum([added])[0])


def _wide(state: Sequence[Array]) -> list[Array]:
    """Return the arrays in 64 bits, for adding."""
    return [each.astype(np.float64 if each.dtype.kind == "f" else np.int64) for each in state]
