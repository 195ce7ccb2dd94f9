"""The part of a difference's error that comes from the choice of the rows.

Seeds and rows are crossed: every seed's runs are evaluated on the same rows. The mean difference of S seeds on n rows
has the variance A / S + R / n + E / (S n). A comes from the seeds, R from the rows, and E from both together.

The spread between seeds estimates A / S + E / (S n). The jackknife over lanes (training.node.jackknife) of the mean
over the seeds estimates R / n + E / (S n). The differences between the seeds' own jackknives estimate E / (S n), which
would otherwise count twice. Owen, "The Pigeonhole Bootstrap", 2007, describes sums of this kind. Searle, Casella and
McCulloch, "Variance Components", 1992, describe the mean squares of two crossed random effects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.comparison.comparison_record import ComparedRun

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RowsError:
    """The rows' part of the squared error of a mean over seeds.

    of_mean: the jackknife's variance of the mean, from the rows and from rows and seeds together. both: the part of
    `of_mean` that the spread between seeds has too. lanes: the number of lanes.
    """

    of_mean: float
    both: float
    lanes: int

    @property
    def variance(self) -> float:
        """The part of the squared error that more seeds would not reduce; never below 0."""
        return max(0.0, self.of_mean - self.both)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the jackknife."""
        return self.lanes - 1


def rows_error(by_seed: Sequence[Array]) -> RowsError | None:
    """Return the rows' part of the error of a mean difference; None for fewer than two seeds.

    by_seed: for each seed, the difference of the two runs' jackknives, [lanes].
    """
    if len(by_seed) < 2:
        return None
    values: Any = np.stack(by_seed)
    seeds, lanes = values.shape
    mean = values.mean(axis=0)
    both = float(((values - mean) ** 2).sum()) / (lanes * (seeds - 1) * seeds)
    return RowsError(float((mean**2).mean()), both, lanes)


def paired(
    one: Mapping[int, ComparedRun], other: Mapping[int, ComparedRun], name: str, seeds: Sequence[int]
) -> RowsError | None:
    """Return the rows' part of the error of the mean difference between two strategies. one, other: their runs, by
    seed.

    None if the jackknives of the metric `name` are missing or differ in length, or for fewer than two seeds.
    """
    differences = []
    for seed in seeds:
        both = [(run.jackknife or {}).get(name) for run in (one[seed], other[seed])]
        if both[0] is None or both[1] is None or len(both[0]) != len(both[1]):
            return None
        differences.append(np.subtract(*map(np.asarray, both)))
    return rows_error(differences)
