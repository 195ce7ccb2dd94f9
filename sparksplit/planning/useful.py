"""The useful mini-batch: up to which size a model learns as much from the same rows. Pure functions.

Branching is by Merrill, Arora, Groeneveld and Hajishirzi, "Critical Batch Size Revisited" (2025), section 3.1. From one
checkpoint, training goes on with mini-batches of B, 2B and 4B rows, each branch over equally many rows. With k times as
many rows, the learning rate is k times as high for SGD, and sqrt(k) times for Adam. The losses then show where the
branches part.

Three things differ from the paper, because a plan has seconds and the paper had 2 billion tokens for each branch:

- The paper allows a difference of 0.01 in the loss. Within seconds, a model may learn less than that. So a branch's
  progress (by how much the loss falls) is compared with the progress of the branch with B rows.
- The paper measures once at each of many checkpoints. Here, everything is repeated with other rows, for an interval.
- All branches see the same rows, and their losses are those of other rows, which none of them has seen.

The gradient noise scale is by McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training" (2018),
section 2.2 and appendix A.1: the variance of a row's gradient, divided by the squared length of the mean gradient. It
tells the useful mini-batch if the optimizer is SGD, and if the loss is equally curved in all directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from sparksplit.comparison.intervals import LEVEL, interval
from sparksplit.planning.measured import Branched, Noise
from sparksplit.planning.plan_record import Branch, Useful
from sparksplit.planning.predicted import Interval

FACTORS = (1, 2, 4)
"""The rows of the branches' mini-batches, as multiples of the configured `batch_size`."""
REPEATS = 8
"""Checkpoints, each after training with other rows."""
GRADIENTS = 16
"""The mini-batches whose gradients are compared, in each repeat."""
LOSSES = 4
"""The loss of a branch is a mean: at the end, and at equal distances in the last half of its last epoch."""
LEAST_UPDATES = 32
"""The fewest updates of a branch with the configured mini-batch. The largest mini-batch then has 8 updates."""
AS_MUCH = 0.9
"""A branch with at least this share of the progress learns as much."""
_FORWARD = 1 / 3
"""The share of a step's time that the loss alone takes: a backward pass takes about twice as long as a forward pass."""


def rate_factor(optimizer: str, times: int) -> float:
    """Return the factor of the learning rate for `times` as many rows in a mini-batch. optimizer: the name in Keras.

    Linear for SGD, also with momentum. The square root for optimizers that divide by a mean of past gradients, as Adam
    and RMSprop do (Malladi et al. 2022, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms").
    """
    return float(times) if optimizer.lower() == "sgd" else math.sqrt(times)


@dataclass(frozen=True)
class Window:
    """The length of a branch. updates: with the configured mini-batch; 0 if the seconds or the rows are too few.
    needed: the fewest seconds that are enough. Infinite if the rows are too few."""

    updates: int
    needed: float


def window(seconds: float, per_update: float, epoch_updates: int, epochs: int, held_out: float) -> Window:
    """Return how long the branches can be.

    seconds: for all repeats. per_update: seconds of an update with the configured mini-batch. epoch_updates: such
    updates in an epoch over the rows at hand. epochs: of the configuration. The checkpoint and a branch together are no
    longer than its run. held_out: mini-batches of which the loss is computed, each time.
    """
    passes = 1 + len(FACTORS)  # up to the checkpoint, and the branches
    fixed = GRADIENTS + (1 + LOSSES * len(FACTORS)) * held_out * _FORWARD
    if min(epoch_updates // GRADIENTS, epoch_updates * epochs // (2 * LEAST_UPDATES)) == 0:
        return Window(0, math.inf)
    most = int((seconds / (REPEATS * max(per_update, 1e-9)) - fixed) / passes)
    updates = min(most, epoch_updates * epochs // 2)
    updates -= updates % FACTORS[-1]
    needed = REPEATS * per_update * (fixed + passes * LEAST_UPDATES)
    return Window(updates if updates >= LEAST_UPDATES else 0, needed)


def noise_of(gradients: Iterable[Sequence[Any]], rows: int) -> Noise | None:
    """Return the noise of gradients, without bias; None if a gradient is not finite, as with a scaled loss.

    gradients: means over `rows` other rows each, with the same weights; at least two.
    """
    # No copy of a gradient: next to the optimizer's variables, there may be room for little more than one.
    count, squares, total = 0, 0.0, None
    for gradient in gradients:
        parts = [np.ravel(part) for part in gradient]
        count, squares = count + 1, squares + sum(map(_square, parts))
        total = total or [np.zeros(part.shape) for part in parts]
        for whole, part in zip(total, parts, strict=True):
            np.add(whole, part, out=whole)
    assert total is not None and count > 1
    if not math.isfinite(squares):
        return None
    mean, of_mean = squares / count, sum(map(_square, total)) / count**2
    variance = (mean - of_mean) * count / (count - 1)  # of the gradient of a mini-batch
    return Noise(rows * variance, of_mean - variance / count)


def _square(values: np.ndarray) -> float:
    """Return the squared length, summed in float64 without a copy in float64."""
    return float(np.einsum("i,i->", values, values, dtype=np.float64))


def useful(branched: Branched) -> Useful:
    """Return what the repeats show."""
    repeats = branched.repeats
    progress = [repeat.before - (repeat.after[0] or 0.0) for repeat in repeats]
    branches = []
    for place, (size, factor) in enumerate(zip(branched.batch_sizes, branched.rate_factors, strict=True)):
        own = [repeat.before - end for repeat in repeats if (end := repeat.after[place]) is not None]
        is_finite = len(own) == len(repeats)
        share = _ratio(own, progress) if is_finite else None
        learns = _verdict(own, progress) if is_finite else "less"
        branches.append(Branch(batch_size=size, rate_factor=factor, share=share, learns=learns))
    _, *branches = branches  # the first one is the configured mini-batch
    until = next((place for place, branch in enumerate(branches) if branch.learns == "less"), len(branches))
    as_much = [branched.batch_sizes[0]]
    as_much += [branch.batch_size for branch in branches[:until] if branch.learns == "as much"]
    noises = [repeat.noise for repeat in repeats if repeat.noise is not None]
    return Useful(
        batch_size=max(as_much) if _falls(progress) else None,
        branches=branches,
        noise_scale=_ratio([noise.variance for noise in noises], [noise.square for noise in noises]),
    )


def _falls(progress: Sequence[float]) -> bool:
    """Whether the loss falls, with a 95 % interval. One repeat has none, and is taken as it is."""
    mean, low, _ = interval(progress)
    return (mean if low is None else low) > 0


def _verdict(own: Sequence[float], others: Sequence[float]) -> Literal["as much", "less", "undecided"]:
    """Decide whether the mean of `own` is at least AS_MUCH of the mean of `others`. If there is no such progress to
    compare with, only a loss that rises is known to learn less."""
    falls = _falls(others)
    differences = [value - AS_MUCH * other * falls for value, other in zip(own, others, strict=True)]
    _, low, high = interval(differences)
    if low is None or high is None:
        return "undecided"
    return "as much" if falls and low >= 0 else "less" if high < 0 else "undecided"


def _ratio(values: Sequence[float], others: Sequence[float]) -> Interval | None:
    """Return the ratio of the means of paired values, with its 95 % interval (Fieller 1954). None if the mean of
    `others` may be 0, so that no interval is bounded."""
    count = len(values)
    if count < 2:
        return None
    y, x = float(np.mean(values)), float(np.mean(others))
    (yy, xy), (_, xx) = np.cov(values, others) * float(special.stdtrit(count - 1, (1 + LEVEL) / 2)) ** 2 / count
    a, b, c = x * x - xx, x * y - xy, y * y - yy
    if x <= 0 or a <= 0:
        return None
    half = math.sqrt(max(0.0, b * b - a * c))
    return Interval(y / x, float((b - half) / a), float((b + half) / a))
