"""The cut into train, validation and test: which split each row falls to, by the way that the configuration names.

`Cut.splits` is arithmetic on arrays, which executors apply. What must be known of all rows first (boundaries in time
where shares are asked for, thresholds of every class) is fitted from the rows' keys. It is exact, not an estimate, so
that the same rows are cut the same way whatever files and tasks they come in.
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
    from sparksplit.prepare.config import PreprocessConfig

TRAIN, VALIDATION, TEST = (np.int32(place) for place in range(len(SPLITS)))
F64 = npt.NDArray[np.float64]


def outside(time: npt.NDArray[np.int64], stretches: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Which times are in none of the stretches, each from one up to another; see `Cut.left_out`."""
    found = np.ones(len(time), np.bool_)
    for start, stop in stretches:
        found &= (time < start) | (time >= stop)
    return found


@dataclass(frozen=True, eq=False)
class Strata:
    """For each class, the fractions up to which its rows are test, and up to which they are test or validation.

    labels: the classes, as Arrow holds raw labels [classes]. test, held: float64 [classes]; below 0: none
    """

    labels: pa.Array
    test: F64
    held: F64


@dataclass(frozen=True)
class Cut:
    """How training rows are dealt to the splits.

    validation, test: shares of the rows (by row), of the groups (features, key) or of the latest rows (time).
    validation_from, test_from: with by: time, the int64 from which on rows are validation, and test; fitted where
    shares are given. strata: fitted where `stratify` asks for them.
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
    """With by: time, how far back from its time a row knows what is to be predicted: the label of a window over time
    begins there."""

    @classmethod
    def of(cls, config: PreprocessConfig, brought: Sequence[str] = ()) -> Cut:
        """The cut that `config` asks for. brought: the splits that the source brings, which get no share."""
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
        """Whether `fitted` has to ask for something."""
        return self.validation + self.test > 0 and (self.by == "time" or self.stratify)

    @property
    def left_out(self) -> tuple[tuple[int, int], ...]:
        """The times, each from one up to another, whose rows fall to no split: what they know reaches into the labels
        of the split that begins there."""
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
        """The index in SPLITS of each row: int32 [rows].

        content: uint64 [rows, 2]. number: each row's number among equal rows of the whole source, from 0 [rows]. part:
        index in SPLITS of the part that the source puts the row in; only train is cut. cut: int64 [rows], what the cut
        goes by: a hash of the features or the key, a time, an index in SPLITS; anything by row. label: raw labels
        [rows] that Arrow can hold; only where it stratifies
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
