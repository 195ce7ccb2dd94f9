"""Differences between strategies, paired by seed: in the metric, and in time.

Each strategy is compared with `single`. A strategy on several real nodes is also compared with all strategies on one
node. The metric is also compared with `batch` on as many nodes. All verdicts about real nodes are decided together, and
so are all verdicts about virtual nodes.

A recommendation is decided apart from the verdicts, and by `enough` alone. It needs several differences of one row at
once, so a false one needs a difference that is wrong by chance where all others hold, too: each may spend the whole
chance of its row (Berger, "Multiparameter Hypothesis Testing and Acceptance Sampling", 1982). The rows share the 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sparksplit.comparison.analysis.estimates import Estimate, estimates
from sparksplit.comparison.analysis.runs import (
    BASE,
    Group,
    Groups,
    finished,
    on_one_node,
    reached,
    timed,
    training_seconds,
    value_of,
)
from sparksplit.comparison.analysis.sampling import RowsError, paired
from sparksplit.comparison.analysis.verdicts import BETTER, UNDECIDED, WORSE, Question, verdicts
from sparksplit.comparison.comparison_record import Place
from sparksplit.comparison.content import Metric, Target
from sparksplit.comparison.content_table import IN_ALL, TO_TARGET, Pair, TimePair
from sparksplit.comparison.intervals import LEVEL

_TIMES = {BETTER: "faster", WORSE: "slower"}
BySeed = Mapping[int, float]


@dataclass(frozen=True)
class _Versus:
    """A strategy and the strategy that it is compared with. by_seed: the differences.

    of: the number of seeds that both strategies were given. rows: the rows' part of the error of the mean difference;
    None if unknown.
    """

    group: Group
    other: Group
    by_seed: BySeed
    of: int
    rows: RowsError | None = None
    estimate: Estimate | None = None


def compared(
    groups: Groups,
    metric: Metric,
    target: Target | None,
    passes: Collection[int],
    place: Place | None,
    level: float = 1 - LEVEL,
) -> tuple[list[Pair], list[TimePair]]:
    """Return all pairs of results.json: in the metric, and in time.

    passes: the grid. place: where times must have been measured to count. level: the chance that any verdict about real
    nodes is wrong. The verdicts about virtual nodes have this chance again.
    """
    pairs: list[Pair] = []
    times: list[TimePair] = []
    for virtual in (False, True):
        some = {group: groups[group] for group in groups if group[2] == virtual or group == BASE}
        learnt = _learnt(some, metric)
        learnt = [one for one in learnt if one.group[2] == virtual]
        took = [] if virtual else _took(groups, metric, target, passes, place)
        sign = 1 if metric.higher_is_better else -1
        questions = [Question(_signed(one.estimate, sign), metric.margin) for one in learnt]
        # Less time is better.
        questions += [Question(_signed(one.estimate, -1)) for _, one in took]
        decided = verdicts(questions, level)
        chance = level / max(1, len(some) - 1)
        enough = [
            not virtual and _is_enough(one, question, chance)
            for one, question in zip([*learnt, *(one for _, one in took)], questions, strict=True)
        ]
        judged = list(zip(decided, enough, strict=True))
        pairs += [_pair(one, metric, *both) for one, both in zip(learnt, judged[: len(learnt)], strict=True)]
        times += [
            _time_pair(what, one, *both, chance) for (what, one), both in zip(took, judged[len(learnt) :], strict=True)
        ]
    return pairs, times


def _is_enough(one: _Versus, question: Question, chance: float) -> bool:
    """Whether the difference is decided well enough to recommend the row. chance: that the row is recommended wrongly.

    Against `single` the row must be faster, and must not learn worse by more than the margin. Against another row on
    one node it must be faster, or learn better by more than the margin. So each of the two has half of the chance.
    """
    if question.estimate is None or one.other[1] > 1:
        return False
    margin = question.margin or 0.0
    if one.other == BASE:
        return question.estimate.p_above(-margin) <= chance
    return question.estimate.p_above(margin) <= chance / 2


def _signed(estimate: Estimate | None, sign: int) -> Estimate | None:
    return estimate if estimate is None or sign > 0 else estimate.turned()


def _estimated(versus: Sequence[_Versus], resolution: float | None = None) -> list[_Versus]:
    """Add the estimates. Strategies that are compared with one strategy may share their standard deviation."""
    made: list[_Versus] = []
    for other in dict.fromkeys(one.other for one in versus):
        some = {one.group: one for one in versus if one.other == other}
        rows = {group: one.rows for group, one in some.items()}
        known = estimates({group: one.by_seed for group, one in some.items()}, resolution, rows)
        made += [replace(one, estimate=known[group]) for group, one in some.items()]
    places = {(one.group, one.other): place for place, one in enumerate(versus)}
    return sorted(made, key=lambda one: places[one.group, one.other])


def _versus(
    values: Mapping[Group, BySeed], given: Mapping[Group, Collection[int]], others: Mapping[Group, Sequence[Group]]
) -> list[_Versus]:
    """Each strategy against `others`, over the seeds for which both have a value."""
    versus = []
    for group, against in others.items():
        for other in against:
            seeds = sorted(values[group].keys() & values[other].keys())
            differences = {seed: values[group][seed] - values[other][seed] for seed in seeds}
            versus.append(_Versus(group, other, differences, len(set(given[group]) & set(given[other]))))
    return versus


def _learnt(groups: Groups, metric: Metric) -> list[_Versus]:
    """Return the differences of the metric for all pairs, over the seeds with which both strategies finished."""
    runs = {group: {run.seed: run for run in finished(members)} for group, members in groups.items()}
    values = {group: {seed: value_of(run, metric) for seed, run in by_seed.items()} for group, by_seed in runs.items()}
    given = {group: [member.seed for member in members] for group, members in groups.items()}
    others = {
        group: [
            other
            for other in dict.fromkeys((BASE, *on_one_node(group, groups), ("batch", group[1], group[2])))
            if other in groups and other != group
        ]
        for group in groups
    }
    versus = [one for one in _versus(values, given, others) if one.by_seed]
    versus = [
        replace(one, rows=paired(runs[one.group], runs[one.other], metric.name, list(one.by_seed))) for one in versus
    ]
    return _estimated(versus, metric.resolution)


def _took(
    groups: Groups,
    metric: Metric,
    target: Target | None,
    passes: Collection[int],
    place: Place | None,
) -> list[tuple[str, _Versus]]:
    """Return (kind of time, difference in the logarithm of the seconds) for all pairs on real nodes.

    The time to the target counts only if all runs of both strategies reached the target. A difference between surviving
    runs alone means nothing.
    """
    real = {group: members for group, members in groups.items() if not group[2]}
    if BASE not in real:
        return []
    given = {group: [member.seed for member in members] for group, members in real.items()}
    others = {group: [BASE, *on_one_node(group, real)] for group in real if group != BASE}
    here = {group: timed(members, place) for group, members in real.items()}
    kinds = {IN_ALL: {group: {run.seed: training_seconds(run) for run in runs} for group, runs in here.items()}}
    if target is not None:
        kinds[TO_TARGET] = {}
        for group, runs in here.items():
            hits = {run.seed: reached(run, target, metric.higher_is_better, passes) for run in finished(real[group])}
            every = len(hits) == len(real[group]) and None not in hits.values()
            found_at = {run.seed: hit[1] for run in runs if (hit := hits[run.seed]) is not None}
            kinds[TO_TARGET][group] = found_at if every else {}
    versus: list[tuple[str, _Versus]] = []
    for what in (TO_TARGET, IN_ALL):
        seconds = kinds.get(what, {})
        logs = {
            group: {seed: math.log(value) for seed, value in by_seed.items() if value > 0}
            for group, by_seed in seconds.items()
        }
        some = [one for one in _versus(logs, given, others) if one.by_seed] if logs else []
        versus += [(what, one) for one in _estimated(some)]
    return versus


def _pair(one: _Versus, metric: Metric, verdict: str, enough: bool) -> Pair:
    low, high = (None, None) if one.estimate is None else one.estimate.interval()
    return Pair(
        name=one.group[0],
        nodes=one.group[1],
        virtual=one.group[2],
        against=one.other[0],
        against_nodes=one.other[1],
        quantity=metric.name,
        seeds=len(one.by_seed),
        of=one.of,
        mean=math.fsum(one.by_seed.values()) / len(one.by_seed),
        low=low,
        high=high,
        pooled=one.estimate is not None and one.estimate.pooled,
        verdict=verdict,
        error=None if one.estimate is None else one.estimate.whole_error,
        rows_error=None if one.estimate is None or one.estimate.rows is None else one.estimate.rows.error,
        enough=enough,
    )


def _time_pair(what: str, one: _Versus, verdict: str, enough: bool, chance: float) -> TimePair:
    """Make a TimePair. chance: that the bound `at_least` is too high, as that the row is recommended wrongly."""
    low, high, least = None, None, None
    if one.estimate is not None:
        faster = one.estimate.turned()
        low, high = map(math.exp, faster.interval())
        # Only one side of this interval counts.
        least = math.exp(faster.interval(1 - 2 * chance)[0]) if enough and one.other == BASE else None
    return TimePair(
        name=one.group[0],
        nodes=one.group[1],
        against=one.other[0],
        against_nodes=one.other[1],
        what=what,
        seeds=len(one.by_seed),
        of=one.of,
        times=math.exp(-math.fsum(one.by_seed.values()) / len(one.by_seed)),
        low=low,
        high=high,
        at_least=least,
        pooled=one.estimate is not None and one.estimate.pooled,
        verdict=_TIMES.get(verdict, UNDECIDED),
        error=None if one.estimate is None else one.estimate.whole_error,
        enough=enough,
    )
