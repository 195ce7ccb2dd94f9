"""The cut: assigns each row to train, validation or test, by the rule in the configuration.

`Cut.splits` is arithmetic on arrays, and runs in executors. Boundaries in time (from fractions) and thresholds of every
class are first fitted on the rows' keys. The fit is exact, not an estimate. So the cut of a row does not depend on
files and tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.dataset import row_ids
from sparksplit.dataset.labels import places
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.cut_config import By, moment

if TYPE_CHECKING:
    from sparksplit.prepare.preprocess_config import PreprocessConfig

TRAIN, VALIDATION, TEST = (np.int32(place) for place in range(len(SPLITS)))
F64 = npt.NDArray[np.float64]


def outside(time: npt.NDArray[np.int64], stretches: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Return which times are outside all `stretches` [start, stop): bool [rows]. See `Cut.left_out`."""
    mask = np.ones(len(time), np.bool_)
    for start, stop in stretches:
        mask &= (time < start) | (time >= stop)
    return mask


@dataclass(frozen=True, eq=False)
class Strata:
    """The thresholds of each class. Rows with a fraction up to `test` are test. Rows up to `held` are test or
    validation.

    labels: the classes, as Arrow holds raw labels [classes]. test, held: float64 [classes]. Below 0: no rows.
    """

    labels: pa.Array
    test: F64
    held: F64


@dataclass(frozen=True)
class Cut:
    """Assigns training rows to the splits.

    validation, test: fractions of the rows (by row), of the groups (features, key) or of the latest rows (time).
    validation_from, test_from: for by: time, the first int64 time of the split. Fitted if fractions are given.
    strata: fitted if `stratify` is set.
    """

    seed: int = 0
    validation: float = 0.0
    test: float = 0.0
    by: By = "row"
    stratify: bool = False
    validation_from: int | None = None
    test_from: int | None = None
    strata: Strata | None = None
    reach: int = 0
    """For by: time, how far a label reaches back from the row's time. The label of a window over time begins there."""

    @classmethod
    def of(cls, config: PreprocessConfig, brought: Sequence[str] = ()) -> Cut:
        """Return the cut of `config`. brought: the splits that the source brings, which get no fraction"""
        cut = config.cut
        shares = {name: getattr(config, name) for name in SPLITS[1:]}
        if cut.boundaries or cut.by == "column":
            shares = dict.fromkeys(shares, 0.0)
        shares |= dict.fromkeys((name for name in shares if name in brought), 0.0)
        validation_from, test_from = (
            None if value is None else moment(value) for value in (cut.validation_from, cut.test_from)
        )
        return cls(
            seed=config.seed,
            validation=shares["validation"],
            test=shares["test"],
            by=cut.by,
            stratify=cut.stratify,
            validation_from=validation_from,
            test_from=test_from,
        )

    @property
    def fits(self) -> bool:
        """Whether the cut must be fitted on all rows (cut_fit.py)."""
        return self.validation + self.test > 0 and (self.by == "time" or self.stratify)

    @property
    def left_out(self) -> tuple[tuple[int, int], ...]:
        """Ranges of times [start, stop) whose rows belong to no split. Their labels overlap labels of the split that
        starts at stop."""
        starts = [start for start in (self.validation_from, self.test_from) if start is not None]
        return tuple((start - self.reach, start) for start in starts) if self.reach else ()

    def splits(
        self,
        content: row_ids.U64,
        number: npt.NDArray[np.int64],
        part: npt.NDArray[np.int32],
        cut: npt.NDArray[np.int64] | None = None,
        label: Any = None,
    ) -> npt.NDArray[np.int32]:
        """Return the index in SPLITS of each row: int32 [rows].

        content: uint64 [rows, 2].
        number: each row's number among equal rows of the whole source, from 0 [rows].
        part: index in SPLITS of the part that the source puts the row in. Only the part train is cut.
        cut: int64 [rows]: a hash of the features or the key, a time, or an index in SPLITS. By row, any value.
        label: raw labels [rows] that Arrow can hold. Needed only for `stratify`.
        """
        if self.by == "row":
            fraction = row_ids.split_fraction(content, number, self.seed)
            dealt = self._by_class(fraction, label) if self.strata is not None else self._by_share(fraction)
        elif cut is None:
            raise ValueError(f"cut.by: {self.by} needs the column that rows are cut by")
        elif self.by == "time":
            dealt = self._by_time(cut)
        elif self.by == "column":
            dealt = cut.astype(np.int32)
        else:
            dealt = self._by_share(row_ids.group_fraction(cut, self.seed))
        return np.where(part == TRAIN, dealt, part).astype(np.int32, copy=False)

    def _by_share(self, fraction: F64) -> npt.NDArray[np.int32]:
        return np.select(
            [fraction < self.test, fraction < self.test + self.validation], [TEST, VALIDATION], default=TRAIN
        )

    def _by_class(self, fraction: F64, label: Any) -> npt.NDArray[np.int32]:
        assert self.strata is not None
        place = places(label, self.strata.labels)
        test, held = (np.where(place >= 0, bounds[place], -1.0) for bounds in (self.strata.test, self.strata.held))
        return np.select([fraction <= test, fraction <= held], [TEST, VALIDATION], default=TRAIN)

    def _by_time(self, time: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        def since(start: int | None) -> npt.NDArray[np.bool_]:
            return np.zeros(len(time), np.bool_) if start is None else time >= start

        return np.select([since(self.test_from), since(self.validation_from)], [TEST, VALIDATION], default=TRAIN)
