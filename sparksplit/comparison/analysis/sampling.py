"""How much of a difference may be an accident of which rows it was measured on.

Seeds and rows are crossed: every seed's runs are evaluated on the same rows. The mean difference of S seeds on n rows
has the variance A / S + R / n + E / (S n): what seeds, what rows, and what both together make of a difference. The
spread between seeds tells A / S + E / (S n), the jackknife over lanes (training.node.jackknife) tells R / n + E / (S n)
of the mean over the seeds, and the differences between the seeds' own jackknives E / (S n), which would otherwise be
counted twice (Owen, "The Pigeonhole Bootstrap", 2007, on such sums; Searle, Casella and McCulloch, "Variance
Components", 1992, on the mean squares of two crossed random effects).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.comparison.record import ComparedRun

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RowsError:
    """What the rows add to the squared error of a mean over seeds. of_mean: the jackknife's variance of that mean, the
    rows and both together; both: the part of it that the spread between seeds has, too. lanes: how many."""

    of_mean: float
    both: float
    lanes: int

    @property
    def variance(self) -> float:
        """What more seeds would not take away; never below 0."""
        return max(0.0, self.of_mean - self.both)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the jackknife."""
        return self.lanes - 1


def rows_error(by_seed: Sequence[Array]) -> RowsError | None:
    """What the rows add to the error of a mean difference. by_seed: each seed's differences of the two runs'
    jackknives, [lanes]. None for fewer than two seeds."""
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
    """What the rows add to the error of the mean difference between two strategies. one, other: their runs, by seed.

    None where the jackknives of the metric `name` are missing or differ in length, or for fewer than two seeds.
    """
    differences = []
    for seed in seeds:
        both = [(run.jackknife or {}).get(name) for run in (one[seed], other[seed])]
        if both[0] is None or both[1] is None or len(both[0]) != len(both[1]):
            return None
        differences.append(np.subtract(*map(np.asarray, both)))
    return rows_error(differences)
