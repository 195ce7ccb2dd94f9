"""All steps of the analysis, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparksplit.comparison.analysis.differences import compared
from sparksplit.comparison.analysis.runs import (
    AnyRun,
    finished,
    grid,
    grouped,
    judged,
    main_place,
    range_of,
    target_of,
)
from sparksplit.comparison.analysis.table import row
from sparksplit.comparison.comparison_record import Place
from sparksplit.comparison.content import Deciding, Metric, Target
from sparksplit.comparison.content_table import Pair, Row, TimePair
from sparksplit.comparison.intervals import LEVEL


@dataclass(frozen=True)
class Analysis:
    """The results of the analysis, as in results.json. runs, references: a run counts as diverged if its metric was not
    finite at the end."""

    runs: list[AnyRun]
    references: list[AnyRun]
    metric: Metric
    target: Target | None
    grid: list[int]
    place: Place | None
    table: list[Row]
    pairs: list[Pair]
    times: list[TimePair]


def analyse(
    runs: Sequence[AnyRun],
    references: Sequence[AnyRun],
    deciding: Deciding,
    share: float,
    target: float | None = None,
    level: float = 1 - LEVEL,
) -> Analysis:
    """Analyse `runs`.

    references: runs for the range and the target, which nothing is compared with. share: the margin, as a share of the
    metric's range. target: the configured target. level: the chance that any verdict about real nodes is wrong.
    """
    runs, references = ([judged(run, deciding) for run in some] for some in (runs, references))
    groups, alone = grouped(runs), finished(references)
    metric = Metric.of(deciding, share, range_of(alone, groups, deciding))
    passes, place = grid(groups), main_place(runs)
    goal = target_of(target, groups, alone, metric, passes)
    table = [row(group, groups, metric, goal, passes, place) for group in groups]
    pairs, times = compared(groups, metric, goal, passes, place, level)
    return Analysis(runs, references, metric, goal, passes, place, table, pairs, times)
