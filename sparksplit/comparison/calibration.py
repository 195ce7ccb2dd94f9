"""Fit the cost model to the measured runs and to the sweep of sums, and check its predictions.

Each term is fitted to its own measured seconds: computing, exchanges, or waiting for rows. The fit counts each error as
a share of its run's whole training. The checks predict runs that the model was not fitted to, if there are enough runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy import optimize

from sparksplit.comparison.comparison_record import ComparedRun, HandOff, SweepPoint
from sparksplit.comparison.content_costs import Check, CostModel, HandOffCheck, Prediction
from sparksplit.comparison.content_table import Row
from sparksplit.comparison.costs import (
    ALONE,
    ETHERNET_LATENCY,
    Compute,
    Costs,
    Crowd,
    HandingOver,
    Meeting,
    Network,
    Reading,
    Work,
    crowd_of,
    ethernet,
    work_of,
)
from sparksplit.comparison.numbers import count, duration, percent

GBITS = (1.0, 10.0, 100.0)
_CONTENTIONS = np.linspace(0, 2, 201)
_NEAR = 16
"""A point of the sweep is used if its bytes are within this factor of the bytes of the runs' sums."""
AIM = 0.15
"""Largest acceptable error of a prediction that the model was not fitted to, as a share of the measurement."""
_APART = 1.2
"""Hand-offs show the seconds per row if their rows differ by at least this factor. Smaller differences may come from
rows that a task of Spark has sent again."""
_LEAST = 2
"""The fewest numbers of nodes for a fit that leaves one number of nodes out."""


def fitted(records: Sequence[ComparedRun], sweep: Sequence[SweepPoint]) -> Costs:
    """Fit all terms of the cost model. records: at least one run on real nodes."""
    works = [work_of(record) for record in records]
    totals = np.array([max(1e-9, total(record)) for record in records])
    compute = _compute(works, np.array([computing(record) for record in records]), totals)
    crowds = {record.nodes: crowd_of(record) for record in records}
    network = fit_network(_near([point for point in sweep if point.nodes in crowds], works), crowds)
    meeting = _meeting(works, records, totals, compute, network)
    feeds = np.array([record.seconds.feed for record in records])
    rounds = _rounds(works)
    begin, per_row = _nnls([rounds, rounds * [work.rows for work in works]], feeds, totals)
    return Costs(Reading(begin, per_row), compute, network, meeting)


def total(record: ComparedRun) -> float:
    """Seconds of training, with waiting for rows."""
    return record.seconds.feed + record.seconds.train


def computing(record: ComparedRun) -> float:
    """Seconds of training without exchanges and waiting for rows: updates, and copying rows to the device."""
    return record.seconds.train - record.seconds.sync


def _nnls(terms: Sequence[Any], seconds: Any, totals: Any) -> list[float]:
    """Return the factors of the terms that fit the seconds best, by non-negative least squares.

    Each term has a number for each run. Errors count as shares of `totals`.
    """
    factors, _ = _nnls_with_error(terms, seconds, totals)
    return factors


def _nnls_with_error(terms: Sequence[Any], seconds: Any, totals: Any) -> tuple[list[float], float]:
    columns = np.stack([np.asarray(term, float) for term in terms], axis=1) / totals[:, None]
    sizes = columns.max(axis=0)
    sizes[sizes == 0] = 1.0  # avoids 0 / 0: no run has this term, and its factor is 0
    factors, error = optimize.nnls(columns / sizes, seconds / totals)
    return [float(factor) for factor in np.where(columns.any(axis=0), factors / sizes, 0.0)], float(error)


def _rounds(works: Sequence[Work]) -> Any:
    return np.array([work.crowd.rounds for work in works])


def _compute(works: Sequence[Work], seconds: Any, totals: Any) -> Compute:
    # Nodes that take turns count the wait for a core as computing or as an exchange. So the fit uses only runs without
    # turns, if there are any.
    tell = np.flatnonzero(_rounds(works) == 1).tolist() or list(range(len(works)))
    works, seconds, totals = [works[place] for place in tell], seconds[tell], totals[tell]
    terms = [np.array([getattr(work, name) for work in works]) for name in ("rows", "steps", "inside", "between")]
    beside = any(work.crowd.at_once > 1 for work in works)
    best, compute = np.inf, Compute(0.0, 0.0)
    for contention in map(float, _CONTENTIONS if beside else [0.0]):
        slower = [Compute(0.0, 0.0, contention=contention).slower(work.crowd) for work in works]
        factors, error = _nnls_with_error([term * slower for term in terms], seconds, totals)
        if error < best:
            per_row, per_step, per_inside, per_between = factors
            best, compute = error, Compute(per_row, per_step, per_inside, per_between, contention)
    return compute


def fit_network(sweep: Sequence[SweepPoint], crowds: Mapping[int, Crowd] | None = None) -> Network:
    """Fit the network to the sums of the sweep, by relative errors.

    crowds: how crowded the fullest host is, by number of nodes. Without an entry, each node has a host of its own.
    """
    if not sweep:
        return Network(0.0, 0.0)
    by_point = [(crowds or {}).get(point.nodes, ALONE) for point in sweep]
    nodes = np.array([point.nodes for point in sweep], float)
    sent = 2 * (nodes - 1) / nodes * [point.bytes for point in sweep] * [crowd.nodes for crowd in by_point]
    seconds = np.array([point.seconds for point in sweep], float)
    rounds = np.array([crowd.rounds for crowd in by_point])
    return Network(*_nnls([rounds * 2 * (nodes - 1), rounds * sent], seconds, seconds))


def _near(sweep: Sequence[SweepPoint], works: Sequence[Work]) -> Sequence[SweepPoint]:
    """Return the points of the sweep with about as many bytes as the runs' sums; all points if none is near."""
    sizes = [work.sent / work.syncs * work.nodes / (2 * (work.nodes - 1)) for work in works if work.syncs]
    if not sizes:
        return sweep
    near = [point for point in sweep if min(sizes) / _NEAR <= point.bytes <= max(sizes) * _NEAR]
    return near or sweep


def _meeting(
    works: Sequence[Work], records: Sequence[ComparedRun], totals: Any, compute: Compute, network: Network
) -> Meeting:
    """Fit the seconds of exchanges in training beyond the sums that the network predicts.

    Where nodes take turns, the seconds of exchanges are all seconds of training beyond the predicted computing.
    """
    sums = np.array([network.seconds(work.nodes, work.syncs, work.sent, work.crowd) for work in works])
    computed = np.array([compute.seconds(work) if work.nodes > 1 else 0.0 for work in works])
    rounds = _rounds(works)
    trained, syncs = (np.array([getattr(record.seconds, name) for record in records]) for name in ("train", "sync"))
    taken = np.where(rounds > 1, trained - computed, syncs) - sums
    terms = [rounds * [work.syncs for work in works], computed]
    return Meeting(*_nnls(terms, np.maximum(0.0, taken), totals))


def fit_handoff(records: Sequence[ComparedRun]) -> HandingOver | None:
    """Fit Spark's hand-off to all clusters; None without a hand-off. The terms are None if the hand-offs have about
    equally many rows."""
    handoffs = _handoffs(records)
    if not handoffs:
        return None
    rows, first, seconds = (
        np.array(values, float)
        for values in zip(*((sum(one.rows), one.first, one.seconds) for one in handoffs), strict=True)
    )
    kinds = [rows[first == kind] for kind in (0, 1)]
    if not any(len(of_kind) and of_kind.max() >= _APART * of_kind.min() for of_kind in kinds):
        return HandingOver(None, None)
    per_row, *begins = _nnls([rows, 1 - first, first], seconds, np.maximum(1e-9, seconds))
    begin, begin_first = (one if len(of_kind) else None for one, of_kind in zip(begins, kinds, strict=True))
    return HandingOver(begin, per_row, begin_first)


def _handoffs(records: Sequence[ComparedRun]) -> list[HandOff]:
    """Return the hand-off of each cluster once."""
    return list(dict.fromkeys(record.handoff for record in records if record.handoff is not None))


# The errors of the model.


def _fits(records: Sequence[ComparedRun], nodes: int) -> bool:
    """Whether enough numbers of nodes remain for a fit without `nodes`."""
    return len({record.nodes for record in records} - {nodes}) >= _LEAST


def checks(rows: Sequence[Row], records: Sequence[ComparedRun], sweep: Sequence[SweepPoint]) -> list[Check]:
    """Return the prediction of training beside the measurement, for each line of the table with a run.

    The model is fitted to all other numbers of nodes. If these are too few, it is fitted to all runs. It is also fitted
    to all runs for the fewest nodes, because these runs show the cost of computing.
    """
    fewest = min((record.nodes for record in records), default=0)
    models: dict[int, Costs] = {}
    checked = []
    for row in rows:
        of_row = [record for record in records if (record.name, record.nodes) == (row.name, row.nodes)]
        if not of_row:
            continue
        is_left_out = row.nodes > fewest and _fits(records, row.nodes)
        left_out = row.nodes if is_left_out else 0
        if left_out not in models:
            models[left_out] = fitted(
                [record for record in records if record.nodes != left_out],
                [point for point in sweep if point.nodes != left_out],
            )
        measured = fmean(map(total, of_row))
        work = work_of(of_row[0])
        guess = models[left_out].seconds(work)
        error = guess / measured - 1 if measured else 0.0
        waited = fmean(record.seconds.feed for record in of_row)
        waits = models[left_out].reading.seconds(work)
        checked.append(Check(row.name, row.nodes, measured, guess, error, is_left_out, waited, waits))
    return checked


def handoff_checks(records: Sequence[ComparedRun]) -> list[HandOffCheck]:
    """Return the prediction of each cluster's hand-off beside the measured seconds, in the order of the nodes.

    The model is fitted without the hand-offs to this number of nodes. If the other hand-offs are too few for a
    prediction, the model is fitted to all hand-offs.
    """
    checked, whole = [], fit_handoff(records)
    for nodes in sorted({record.nodes for record in records}):
        unseen = fit_handoff([record for record in records if record.nodes != nodes])
        for one in _handoffs([record for record in records if record.nodes == nodes]):
            guess = unseen.seconds(one) if unseen else None
            is_left_out = guess is not None
            if guess is None and whole is not None:
                guess = whole.seconds(one)
            error = None if guess is None else guess / one.seconds - 1 if one.seconds else 0.0
            checked.append(HandOffCheck(nodes, sum(one.rows), one.first, one.seconds, guess, error, is_left_out))
    return checked


def cost_model(
    table: Sequence[Row], real: Sequence[ComparedRun], virtual: Sequence[ComparedRun], sweep: Sequence[SweepPoint]
) -> CostModel | None:
    """Return the `cost_model` of results.json; None if `real` is empty. sweep: sums over the nodes where `real` ran."""
    if not real:
        return None
    costs = fitted(real, sweep)
    checked = checks([row for row in table if row.timed], real, sweep)
    handoff, handed = fit_handoff(real), handoff_checks(real)
    return CostModel(
        seconds_to_begin=costs.reading.begin,
        seconds_per_row_read=costs.reading.per_row,
        seconds_per_row=costs.compute.per_row,
        seconds_per_step=costs.compute.per_step,
        seconds_per_exchange_in_graph=costs.compute.per_inside,
        seconds_per_exchange_between=costs.compute.per_between,
        contention=costs.compute.contention,
        sweep=list(sweep),
        latency_seconds=costs.network.latency,
        seconds_per_byte=costs.network.per_byte,
        seconds_per_meeting=costs.meeting.per_sync,
        uneven=costs.meeting.uneven,
        seconds_to_begin_handoff=handoff.begin if handoff else None,
        seconds_per_row_handed=handoff.per_row if handoff else None,
        seconds_to_begin_first_handoff=handoff.begin_first if handoff else None,
        text=" ".join([_text(costs, checked), *_handoff_text(handoff, handed)]),
        checks=checked,
        handoffs=handed,
        predictions=_predictions(table, [*real, *virtual], costs),
    )


def _text(costs: Costs, checked: Sequence[Check]) -> str:
    unseen = [check for check in checked if check.left_out]
    left_out = [abs(check.error) for check in unseen]
    of_reading = [abs(check.reading_predicted - check.reading) / (check.measured or 1.0) for check in unseen]
    if left_out:
        error = (
            f"Fitted without the number of nodes that it is asked about, it is off by {percent(median(left_out))} in "
            f"the median, and by {percent(max(left_out))} at most, where {percent(AIM)} are aimed at: "
            f"{sum(error <= AIM for error in left_out)} of {len(left_out)} are within; in waiting for rows alone by "
            f"{percent(median(of_reading), 1)} of a run's training in the median, and {percent(max(of_reading), 1)} at "
            "most."
        )
    else:
        error = (
            "How far it is off where it was not fitted cannot be told: that takes three numbers of nodes, of which one "
            f"is left out, and there at most {percent(AIM)} are aimed at. The errors below are those of the runs that "
            "it was fitted to."
        )
    beside = ""
    if costs.compute.contention:
        beside = f" Each other node on a host makes one slower by {percent(costs.compute.contention)}."
    return (
        "Computing is linear in a node's rows, steps and exchanges, fitted to the seconds of computing; nodes with "
        "more threads than their host has cores take turns, which need not be fitted. An exchange "
        "costs 2 (N - 1) messages and 2 (N - 1) / N times its bytes, fitted to sums alone, and the wait until all "
        f"nodes have come to it, fitted to the runs. Waiting for rows is linear in these.{beside} {error} Beyond the "
        f"nodes at hand a message is assumed to take {ETHERNET_LATENCY * 1e6:.0f} microseconds, and each node to have "
        "a host of its own."
    )


def _handoff_text(handoff: HandingOver | None, checked: Sequence[HandOffCheck]) -> Iterator[str]:
    if handoff is None:
        return
    kinds = {first: [check for check in checked if check.first == first] for first in (True, False)}
    yield (
        "Spark's hand-off comes before training, and was paid here once for all runs of a cluster; a node of a "
        "strategy that shares epochs is sent all rows."
    )
    if handoff.per_row is None:
        names = {True: "the first of an application took", False: "one after the first of an application took"}
        took = " and ".join(f"{names[first]} {_took(of_kind)}" for first, of_kind in kinds.items() if of_kind)
        yield (
            f"{took[0].upper()}{took[1:]}. How much of that is for beginning and how much for rows cannot be told: "
            "that takes hand-offs of different numbers of rows."
        )
    else:
        begins = {"as the first of an application": handoff.begin_first, "after that": handoff.begin}
        if handoff.begin_first is None:
            begins = {"after the first of an application": handoff.begin}
        takes = " and ".join(f"{_time(one)} {when}" for when, one in begins.items() if one is not None)
        yield f"To begin it takes {takes}; and {_time(1e6 * handoff.per_row)} for each million rows sent to nodes."
    unknown = "" if kinds[True] else ", which was not measured here"
    yield f"Each run of `train` is an application of its own, and pays what a first one takes{unknown}."
    left_out = [abs(check.error) for check in checked if check.left_out and check.error is not None]
    if left_out:
        yield f"Fitted without that number of nodes, it is off by {percent(median(left_out))} in the median."


def _time(seconds: float) -> str:
    return duration(seconds) if seconds else "no time"


def _took(checked: Sequence[HandOffCheck]) -> str:
    """Return the mean seconds and the mean rows of hand-offs, in words."""
    rows = round(fmean(check.rows for check in checked))
    return f"{duration(fmean(check.measured for check in checked))} for {count(rows)} rows"


def _predictions(table: Sequence[Row], records: Sequence[ComparedRun], costs: Costs) -> list[Prediction]:
    """Predict the time to the target at each bandwidth, from the passes that each strategy needed to reach the target.

    The time is None if a run missed the target: a strategy that often fails has no time. The measured times on real
    nodes are added.
    """
    guesses: list[Prediction] = []
    first = {(record.name, record.nodes, record.virtual): record for record in records}
    for row in table:
        to = row.to_target
        record = first.get((row.name, row.nodes, row.virtual))
        if to is None or record is None:
            continue
        every = to.reached == to.of
        passes = to.passes if every else None
        for gbit in GBITS:
            whole = costs.seconds(work_of(record, apart=True), ethernet(gbit))
            seconds = None if passes is None else whole * passes / record.passes
            guesses.append(Prediction(row.name, row.nodes, passes, to.reached, to.of, gbit, seconds, measured=False))
        if not row.virtual and every and to.seconds is not None:
            guesses.append(Prediction(row.name, row.nodes, passes, to.reached, to.of, None, to.seconds, measured=True))
    return guesses
