"""Running statistics of a tensor that can be merged: the basis of scaling and imputing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.dataset.manifest import Statistics

F64 = npt.NDArray[np.float64]
_ARRAYS = ("count", "min", "max", "mean", "squares")


def _quiet() -> np.errstate:
    """Suppress warnings if squares exceed float64's range. They become infinite, and the data set is then refused."""
    return np.errstate(over="ignore", invalid="ignore")


class Moments:
    """Count, minimum, maximum, mean and squared deviations: of a whole tensor, of each value, or of each value on the
    last axis.

    Merged in a fixed order, the result has the same bits wherever the parts were computed. Missing values (NaN) are
    counted separately. Source of the merge: Chan, Golub, LeVeque: Updating Formulae and a Pairwise Algorithm (1979).

    features: 1 for the tensor as a whole, or the number of its values, or of the values on its last axis
    """

    def __init__(self, features: int = 1) -> None:
        self.count: F64 = np.zeros(features)
        self.missing = 0
        self.min: F64 = np.full(features, np.inf)
        self.max: F64 = np.full(features, -np.inf)
        self.mean: F64 = np.zeros(features)
        self.squares: F64 = np.zeros(features)

    def update(self, rows: npt.NDArray[Any]) -> None:
        """Add `rows` [n, ...] of any real dtype."""
        if rows.size == 0:
            return
        part = Moments(len(self.count))
        if rows.dtype == np.uint8 and len(self.count) == 1:
            part._from_bytes(rows)
        else:
            with _quiet():
                part._from_values(rows)
        self.merge(part)

    def _from_bytes(self, rows: npt.NDArray[Any]) -> None:
        counts = np.bincount(rows.reshape(-1), minlength=256)
        values, present = np.arange(256.0), np.flatnonzero(counts)
        self.count[:] = rows.size
        self.min[:], self.max[:] = present[0], present[-1]
        self.mean[:] = (counts * values).sum() / rows.size
        self.squares[:] = (counts * (values - self.mean) ** 2).sum()

    def _from_values(self, rows: npt.NDArray[Any]) -> None:
        values = rows.reshape(-1, len(self.count)).T if len(self.count) > 1 else rows.reshape(1, -1)
        values = np.ascontiguousarray(values, dtype=np.float64)
        gaps = np.isnan(values)
        self.missing = int(gaps.sum())
        self.count = values.shape[1] - gaps.sum(axis=1).astype(np.float64)
        self.min = np.where(gaps, np.inf, values).min(axis=1) if self.missing else values.min(axis=1)
        self.max = np.where(gaps, -np.inf, values).max(axis=1) if self.missing else values.max(axis=1)
        filled = np.where(gaps, 0.0, values) if self.missing else values
        mean = filled.sum(axis=1) / np.maximum(self.count, 1)
        # Clip, so that the mean of a constant is the constant despite rounding, and its deviations are 0.
        self.mean = np.where(self.count > 0, np.clip(mean, self.min, self.max), 0.0)
        deviations = np.where(gaps, 0.0, values - self.mean[:, None]) if self.missing else values - self.mean[:, None]
        self.squares = (deviations**2).sum(axis=1)

    def merge(self, other: Moments) -> None:
        """Add the rows that `other` has seen."""
        total = self.count + other.count
        weight = other.count / np.maximum(total, 1)
        with _quiet():
            delta = other.mean - self.mean
            self.squares = self.squares + other.squares + delta**2 * self.count * weight
            self.mean = self.mean + delta * weight
        self.min, self.max = np.minimum(self.min, other.min), np.maximum(self.max, other.max)
        self.count, self.missing = total, self.missing + other.missing

    @property
    def std(self) -> F64:
        """The population standard deviation, by feature."""
        return np.sqrt(self.squares / np.maximum(self.count, 1))

    def whole(self) -> Statistics:
        """Return the statistics over all features together."""
        count = float(self.count.sum())
        if count == 0:
            return Statistics(min=0.0, max=0.0, mean=0.0, std=0.0, missing=self.missing)
        with _quiet():
            mean = float(np.clip((self.mean * self.count).sum() / count, self.min.min(), self.max.max()))
            squares = float((self.squares + self.count * (self.mean - mean) ** 2).sum())
        return Statistics(
            min=float(self.min.min()),
            max=float(self.max.max()),
            mean=mean,
            std=float(np.sqrt(squares / count)),
            missing=self.missing,
        )

    def part(self, start: int, stop: int) -> Moments:
        """Return the statistics of the features from `start` to before `stop`."""
        rows = (self.count.sum() + self.missing) / len(self.count)
        part = Moments(stop - start)
        for key in _ARRAYS:
            setattr(part, key, getattr(self, key)[start:stop])
        part.missing = int(rows * (stop - start) - part.count.sum())
        return part

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON, to send it from an executor to the driver. Floats keep their bits."""
        lists = {key: getattr(self, key).tolist() for key in _ARRAYS}
        return {**lists, "missing": self.missing}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Moments:
        """The inverse of `to_json`."""
        moments = cls(len(state["count"]))
        for key in _ARRAYS:
            setattr(moments, key, np.asarray(state[key], dtype=np.float64))
        moments.missing = state["missing"]
        return moments


def offset_and_scale(low: F64, high: F64, mean: F64, std: F64, scaling: str) -> tuple[F64, F64]:
    """Return (offset, scale) of x_model = (x - offset) * scale, for values with these statistics [features]. Each has
    one value if nothing is scaled.

    scaling: none; unit (minimum to 0, maximum to 1); standard (mean to 0, standard deviation to 1)

    A constant is only shifted to 0. It is never divided by its width or by a rounding error.
    """
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    offset, width = np.zeros(1), np.ones(1)
    if scaling == "unit":
        offset, width = low, high - low
    elif scaling == "standard":
        offset, width = mean, std
    return offset, 1.0 / np.where(width > 0, np.maximum(width, np.finfo(np.float64).tiny), 1.0)


def numbers(values: F64) -> float | list[float]:
    """Return the number, if there is only one, or a list of the numbers."""
    return float(values[0]) if len(values) == 1 else [float(value) for value in values]
