"""Fits a cut on all rows: boundaries in time, or thresholds of every class.

Both are order statistics, found in two steps. The first step finds roughly where they are, the second reads every value
close to them. So they are exact, but neither the driver nor a task sorts or holds more than a few values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.dataset import row_ids
from sparksplit.dataset.labels import MAX_CLASSES, check_number_of_labels, places
from sparksplit.dataset.lane_files import LABEL
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.passes.cut import Cut, Strata
from sparksplit.prepare.passes.parse import CUT, PART
from sparksplit.spark.job_names import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparksplit.prepare.passes.identify import Identify

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
TRAIN = SPLITS.index("train")
_ACCURACY = 100_000
"""Accuracy of Spark's percentile_approx: a rank is wrong by at most 1 / 100,000 of the rows."""
_SIGMAS = 8.0
"""Standard deviations from the mean within which to search. A miss has probability 1e-15, and costs a second search."""


@described("count")
def fitted(cut: Cut, keys: DataFrame, identify: Identify) -> Cut:
    """Return `cut`, fitted on all rows. If there is nothing to fit, return `cut` unchanged.

    keys: content hash, part, label and `cut` of the good rows. They are read up to five times.
    identify: numbers the rows of `keys`.

    Raise InputError if there are too few different times for the splits, or too many different labels.
    """
    if not cut.fits:
        return cut
    if cut.by == "time":
        validation_from, test_from = boundaries(keys, cut.validation, cut.test)
        return replace(cut, validation_from=validation_from, test_from=test_from)
    return replace(cut, strata=strata(keys, identify, cut.seed, cut.validation, cut.test))


# Time.


@dataclass(frozen=True)
class Times:
    """Rows of one time (`exact`), or of all times in a range, whose first time is known."""

    first: int
    rows: int
    exact: bool = True


def boundaries(keys: DataFrame, validation: float, test: float) -> tuple[int | None, int | None]:
    """Return (first time of validation, first time of test). A time is None if the split's fraction is 0.

    Raise InputError if the rows have too few different times.
    """
    from pyspark.sql import functions as sql

    rows = _cut(keys)
    for slack in (3 / _ACCURACY, 100 / _ACCURACY):
        shares = [share for share in (test, test + validation) if share > 0]
        ends = [min(1.0, max(0.0, 1 - share + side * slack)) for share in shares for side in (-1, 1)]
        around = rows.agg(sql.percentile_approx(CUT, ends, _ACCURACY)).collect()[0][0] or [0] * len(ends)
        picked = pick(_times(rows, list(zip(around[::2], around[1::2], strict=True))), validation, test)
        if picked is not None:
            return picked
    picked = pick(_times(rows, [(-(2**63), 2**63 - 1)]), validation, test)
    assert picked is not None  # because all times are known
    return picked


def _cut(keys: DataFrame) -> DataFrame:
    """Return the rows of `keys` that are cut: training rows."""
    from pyspark.sql import functions as sql

    return keys.where(sql.col(PART) == TRAIN)


def _times(rows: DataFrame, around: Sequence[tuple[int, int]]) -> list[Times]:
    """Return the rows by time within the ranges `around`, and the rows of each gap between ranges together. Sorted by
    time."""
    from pyspark.sql import functions as sql

    within, gap = sql.lit(False), sql.lit(0)
    for low, high in around:
        within = within | sql.col(CUT).between(low, high)
        gap = gap + (sql.col(CUT) > high).cast("int")
    value = sql.when(within, sql.col(CUT))
    groups = rows.groupBy(gap.alias("gap"), value.alias("time")).agg(sql.min(CUT).alias("first"), sql.count("*"))
    times = (Times(first, count, time is not None) for _, time, first, count in groups.collect())
    return sorted(times, key=lambda each: each.first)


def pick(times: Sequence[Times], validation: float, test: float) -> tuple[int | None, int | None] | None:
    """Return (first time of validation, first time of test) for rows with these sorted `times`.

    A time is None if the split's fraction is 0. Return None if the result depends on single times within a range.

    A split gets its fraction of the latest rows, to the nearest whole time, and at least one time. At least one time
    also stays for each split before it.

    Raise InputError if there are too few different times.
    """
    total, end = sum(each.rows for each in times), len(times)
    starts: dict[str, int | None] = {}
    asked = [(name, share) for name, share in (("test", test), ("validation", validation)) if share > 0]
    for place, (name, share) in enumerate(asked):
        start, exact = _start(times, end, max(1, round(share * total)))
        left = len(asked) - place  # splits that come before this one
        if start < left:
            start, exact = left, all(each.exact for each in times[:left])
        if not exact:
            return None
        if start >= end:
            raise InputError(
                f"cut.column: the training rows have {len(times)} different times, too few for the splits"
                if total
                else "has no rows to train on"
            )
        starts[name], end = times[start].first, start
    return starts.get("validation"), starts.get("test")


def _start(times: Sequence[Times], end: int, wanted: int) -> tuple[int, bool]:
    """Return (place of a split's first time, whether this is certain).

    The split has the last times before `end`, with about `wanted` rows. It has whole times only, and at least one time.
    """
    rows = without = 0
    place = end
    while place > 0 and rows < wanted:
        place -= 1
        without, rows = rows, rows + times[place].rows
    exact = place == end or times[place].exact
    nearer = place + 1 < end and wanted - without <= rows - wanted
    return (place + 1 if nearer else place), exact


# Classes.


def ranks(rows: I64, validation: float, test: float) -> tuple[I64, I64]:
    """Return (test rows of each class, test and validation rows of each class): int64 [classes] each.

    rows: rows of each class. Fractions are rounded to the nearest row. One row of each class stays for training.
    """
    held = np.minimum(np.floor(rows * (validation + test) + 0.5), rows - 1).astype(np.int64)
    return np.minimum(np.floor(rows * test + 0.5).astype(np.int64), held), held


def around(rank: I64, rows: I64, sigmas: float = _SIGMAS) -> tuple[F64, F64]:
    """Return (low, high): limits of the random number with this rank, from 1, among `rows` uniform random numbers.

    Both are float64 [classes].
    """
    center = rank / rows
    slack = sigmas * (np.sqrt(center * (1 - center) / rows) + 1 / rows)
    return center - slack, center + slack


def strata(keys: DataFrame, identify: Identify, seed: int, validation: float, test: float) -> Strata:
    """Return the thresholds of every class of the training rows. identify: numbers the rows of `keys`

    Raise InputError if there are more labels than a model may have classes.
    """
    classes = _cut(keys).groupBy(LABEL).count().limit(MAX_CLASSES + 1).collect()
    check_number_of_labels(len(classes), "input.label")
    classes.sort(key=lambda row: row[LABEL])
    kind = pa.string() if keys.schema[LABEL].dataType.simpleString() == "string" else pa.int64()
    labels = pa.array([row[LABEL] for row in classes], type=kind)
    counts = np.array([row["count"] for row in classes], dtype=np.int64)
    wanted = np.stack(ranks(counts, validation, test))
    thresholds = np.full(wanted.shape, -1.0)
    for sigmas in (_SIGMAS, np.inf):
        open_ = (wanted > 0) & (thresholds < 0)
        if open_.any():
            low, high = around(wanted, counts, sigmas)
            for bound, place, value in _ranked(
                keys, identify, seed, labels, Bounds(np.where(open_, wanted, 0), low, high)
            ):
                thresholds[bound, place] = value
    return Strata(labels, *thresholds)


def _ranked(
    keys: DataFrame, identify: Identify, seed: int, labels: pa.Array, bounds: Bounds
) -> list[tuple[int, int, float]]:
    """Return (bound, class, threshold) of each wanted threshold that lies within the limits of `bounds`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    def near(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in identify(batches):
            train = batch.part == TRAIN
            fraction = row_ids.split_fraction(batch.content[train], batch.number[train], seed)
            yield from _near(fraction, places(batch.rows.column(LABEL), labels)[train], bounds)

    schema = "bound int, class int, fraction double, rows bigint, wanted bigint"
    close = keys.mapInArrow(near, schema)
    window = Window.partitionBy("bound", "class").orderBy("fraction").rowsBetween(Window.unboundedPreceding, 0)
    ranked = close.withColumn("rank", sql.sum("rows").over(window)).where("rank = wanted and fraction >= 0")
    return [tuple(row) for row in ranked.select("bound", "class", "fraction").collect()]


@dataclass(frozen=True, eq=False)
class Bounds:
    """The wanted thresholds, by bound (test; test or validation) and class: arrays [2, classes].

    wanted: rank of the threshold, from 1. 0: no threshold is wanted. low, high: limits between which to search.
    """

    wanted: I64
    low: F64
    high: F64


def _near(fraction: F64, place: I64, bounds: Bounds) -> Iterator[pa.RecordBatch]:
    """Yield, for each bound, rows of (bound, class, fraction, rows, wanted), one for each fraction within the limits.

    One more row for each class, with the fraction -1, counts all lower fractions.
    """
    for bound in range(len(bounds.wanted)):
        wanted, low, high = (array[bound] for array in (bounds.wanted, bounds.low, bounds.high))
        looked_for = wanted[place] > 0
        lower = np.bincount(place[looked_for & (fraction < low[place])], minlength=len(wanted))
        within = looked_for & (fraction >= low[place]) & (fraction <= high[place])
        some = np.flatnonzero(lower)
        classes = np.concatenate([some, place[within]])
        columns = {
            "bound": np.full(len(classes), bound, np.int32),
            "class": classes.astype(np.int32),
            "fraction": np.concatenate([np.full(len(some), -1.0), fraction[within]]),
            "rows": np.concatenate([lower[some], np.ones(int(within.sum()), np.int64)]),
            "wanted": wanted[classes],
        }
        yield pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})
