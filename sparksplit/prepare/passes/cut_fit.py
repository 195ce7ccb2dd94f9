"""What a cut has to know of all rows: boundaries in time, thresholds of every class.

Both are order statistics, asked for in two steps that Spark does well: first about where they are, then every value
close to them. So they are exact, though neither the driver nor a task sorts or holds more than a few of the values.
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
"""Of Spark's percentile_approx: ranks are off by at most this part of the rows."""
_SIGMAS = 8.0
"""Far enough from the mean for the odds of a miss to be 1e-15; it costs a second look."""


@described("count")
def fitted(cut: Cut, keys: DataFrame, identify: Identify) -> Cut:
    """`cut` with what all rows must be asked for; itself where there is nothing to ask.

    keys: the good rows' content hash, part, label and `cut`; read up to four times. identify: numbers them

    Raises InputError where there are too few different times for the splits, or too many different labels.
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
    """Rows of one time, or of all times of a stretch (not `exact`) of which the first is known."""

    first: int
    rows: int
    exact: bool = True


def boundaries(keys: DataFrame, validation: float, test: float) -> tuple[int | None, int | None]:
    """(the first time that is validation, the first that is test); None for a share of 0.

    Raises InputError where the rows have too few different times.
    """
    from pyspark.sql import functions as sql

    rows = _cut(keys)
    for slack in (3 / _ACCURACY, 100 / _ACCURACY):
        shares = [share for share in (test, test + validation) if share > 0]
        ends = [min(1.0, max(0.0, 1 - share + side * slack)) for share in shares for side in (-1, 1)]
        around = rows.agg(sql.percentile_approx(CUT, ends, _ACCURACY)).collect()[0][0] or [0] * len(ends)
        found = pick(_times(rows, list(zip(around[::2], around[1::2], strict=True))), validation, test)
        if found is not None:
            return found
    found = pick(_times(rows, [(-(2**63), 2**63 - 1)]), validation, test)
    assert found is not None  # since all times are known
    return found


def _cut(keys: DataFrame) -> DataFrame:
    """The rows of `keys` that are cut: training rows."""
    from pyspark.sql import functions as sql

    return keys.where(sql.col(PART) == TRAIN)


def _times(rows: DataFrame, around: Sequence[tuple[int, int]]) -> list[Times]:
    """The rows by time within the stretches `around`, and of each gap between these together; in order."""
    from pyspark.sql import functions as sql

    within, gap = sql.lit(False), sql.lit(0)
    for low, high in around:
        within = within | sql.col(CUT).between(low, high)
        gap = gap + (sql.col(CUT) > high).cast("int")
    value = sql.when(within, sql.col(CUT))
    found = rows.groupBy(gap.alias("gap"), value.alias("time")).agg(sql.min(CUT).alias("first"), sql.count("*"))
    times = (Times(first, count, time is not None) for _, time, first, count in found.collect())
    return sorted(times, key=lambda each: each.first)


def pick(times: Sequence[Times], validation: float, test: float) -> tuple[int | None, int | None] | None:
    """(the first time that is validation, the first that is test), None for a share of 0, where the rows have these
    `times`, in order; None where a stretch of times would have to be known better.

    A split gets its share of the latest rows, to the nearest whole time, and at least one time; so do those before it.

    Raises InputError where there are too few different times.
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
    """(where the last times before `end` begin that have `wanted` rows, as nearly as whole times allow, but at least
    one time; whether that is known for sure)"""
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
    """(how many rows of each class are test, and how many test or validation), where it has `rows`: each share to the
    nearest row, and a row left to train on; int64 [classes]."""
    held = np.minimum(np.floor(rows * (validation + test) + 0.5), rows - 1).astype(np.int64)
    return np.minimum(np.floor(rows * test + 0.5).astype(np.int64), held), held


def around(rank: I64, rows: I64, sigmas: float = _SIGMAS) -> tuple[F64, F64]:
    """Between which of `rows` uniform random numbers the one of this rank, from 1, lies: float64 [classes] each."""
    center = rank / rows
    slack = sigmas * (np.sqrt(center * (1 - center) / rows) + 1 / rows)
    return center - slack, center + slack


def strata(keys: DataFrame, identify: Identify, seed: int, validation: float, test: float) -> Strata:
    """The thresholds of every class of the training rows. identify: numbers the rows of `keys`

    Raises InputError where there are more labels than a model may have classes.
    """
    found = _cut(keys).groupBy(LABEL).count().limit(MAX_CLASSES + 1).collect()
    check_number_of_labels(len(found), "input.label")
    found.sort(key=lambda row: row[LABEL])
    kind = pa.string() if keys.schema[LABEL].dataType.simpleString() == "string" else pa.int64()
    labels = pa.array([row[LABEL] for row in found], type=kind)
    counts = np.array([row["count"] for row in found], dtype=np.int64)
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
    """(bound, class, the fraction that is looked for) of those that lie within the limits of `bounds`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    def near(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for found in identify(batches):
            train = found.part == TRAIN
            fraction = row_ids.split_fraction(found.content[train], found.number[train], seed)
            yield from _near(fraction, places(found.rows.column(LABEL), labels)[train], bounds)

    schema = "bound int, class int, fraction double, rows bigint, wanted bigint"
    close = keys.mapInArrow(near, schema)
    window = Window.partitionBy("bound", "class").orderBy("fraction").rowsBetween(Window.unboundedPreceding, 0)
    ranked = close.withColumn("rank", sql.sum("rows").over(window)).where("rank = wanted and fraction >= 0")
    return [tuple(row) for row in ranked.select("bound", "class", "fraction").collect()]


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is looked for, by bound (test; test or validation) and class: arrays [2, classes]. wanted: a rank from 1, or
    0 where nothing is. low, high: between which it lies."""

    wanted: I64
    low: F64
    high: F64


def _near(fraction: F64, place: I64, bounds: Bounds) -> Iterator[pa.RecordBatch]:
    """For each bound, rows of (bound, class, fraction, rows, wanted): one for each fraction within the bound's limits,
    and for each class one, of fraction -1, for all those that are lower."""
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
