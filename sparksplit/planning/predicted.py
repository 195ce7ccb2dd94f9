"""The time, the bytes and the memory of a run, predicted from measurements of one node's steps.

A step takes the time that was measured for as many rows. Between two measured numbers of rows, the time is linear. No
term is fitted to runs. A sum over N nodes takes 2 (N - 1) messages and 2 (N - 1) / N times its bytes on the link, as a
ring does (Patarasuk and Yuan 2009). The part of a measured exchange that the link does not explain is added: copies,
and calls into the collective. Each node has a host of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from sparksplit.comparison.calibration import fit_network
from sparksplit.comparison.costs import Network
from sparksplit.comparison.intervals import interval
from sparksplit.planning.measured import WINDOWS, Exchanged, Measured, StepTimes
from sparksplit.planning.workload import Kind, Stage, Workload

_REMEMBERED: dict[Kind, int] = {"gradients": 0, "own gradients": 0, "weights": 1, "weights, outer optimiser": 2}
"""As many times the weights are remembered between exchanges."""


@dataclass(frozen=True)
class Interval:
    """A prediction with its 95 % interval over the rounds of the measurement. low, high: None with one round."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Predicted:
    """A run. seconds: of training alone, with waiting for rows. sent: bytes that each node sends. memory: bytes of a
    node's process."""

    seconds: Interval
    sent: float
    memory: float


class Predictor:
    """Predict runs from `measured`.

    link: the network between the nodes; None for the network that was measured. crowded: whether all nodes share the
    host that was measured, as both nodes of the measurement did.
    """

    def __init__(self, measured: Measured, link: Network | None = None, crowded: bool = False) -> None:
        self._measured = measured
        self._measured_link = fit_network(measured.sweep)
        self._link = link
        self._steps = _merged(measured.beside if crowded and measured.beside else measured.alone)
        self._alone, self._varying = _merged(measured.alone), _merged(measured.varying)
        times: list[StepTimes | Exchanged] = [*self._steps, *self._alone, *self._varying, *measured.exchanges.values()]
        by_round = [each.seconds for each in times]
        if measured.reading is not None and measured.reading_steps is not None:
            by_round += [measured.reading, measured.reading_steps.seconds]
        self._rounds = min(map(len, by_round))

    def predicted(self, work: Workload, cache_bytes: int) -> Predicted:
        """Return the prediction of a run. cache_bytes: the memory that a node may use for rows."""
        measured = self._measured
        held, held_out = work.pass_rows * measured.row_bytes, measured.held_out_bytes // work.nodes
        is_kept = held + held_out <= cache_bytes
        share = work.pass_rows / max(1, measured.rows)
        totals = [
            (self._kept_seconds(work, held, share, number) if is_kept else 0.0)
            + sum(self._stage_seconds(stage, work.nodes, number, is_kept) for stage in work.stages)
            for number in range(self._rounds)
        ]
        rows = held if is_kept else min(held, round(share * measured.window_bytes))
        memory = measured.memory_bytes + rows + min(held_out, cache_bytes) + self._exchanging(work)
        return Predicted(Interval(*interval(totals)), self._sent(work), memory)

    def _exchanging(self, work: Workload) -> int:
        """Return the bytes of memory for exchanges: two buffers of a sum, and the weights that are remembered.

        Between two exchanges of weights, a node keeps the weights of the last one, and an outer optimiser its
        velocities. While nodes agree, changes of weights take the memory that a step has for gradients.
        """
        if work.nodes == 1:
            return 0
        return max(2 + _REMEMBERED[stage.kind] for stage in work.stages) * self._measured.model_bytes

    def is_measured(self, work: Workload) -> bool:
        """Whether a run has no more nodes than were measured, and no larger or smaller steps than were measured."""
        low, high = self._steps[0].rows, self._steps[-1].rows
        steps_are = all(0.9 * low <= stage.step_rows <= 1.1 * high for stage in work.stages)
        return work.nodes <= len(self._measured.hosts) and steps_are

    def step_seconds(self, rows: float, number: int) -> float:
        """Return the seconds of a step of `rows` rows in the round `number` of the measurement."""
        return _seconds_at(self._steps, rows, number)

    def exchange_seconds(self, exchanged: Exchanged, nodes: int, number: int) -> float:
        """Return the seconds of one exchange between `nodes` nodes in the round `number` of the measurement.

        The measured exchange between two nodes contains copies and calls. Between processes of one host, it contains no
        network, so all of it is added to the time on the link. Between two hosts, the measured network's part is
        replaced. It contains copies and sums too, which no link makes faster, and nobody knows how much of it is wire.
        So a link never takes less time than the measured network.
        """
        sent, here, sums = self._sent_by(nodes, exchanged), self._measured_link, exchanged.sums
        on_link, seconds = here.seconds(2, sums, exchanged.sent), exchanged.seconds[: self._rounds]
        if self._link is None:
            return _raised(seconds)[number] + here.seconds(nodes, sums, sent) - on_link
        if len({*self._measured.hosts}) > 1:
            beside = _raised([each - on_link for each in seconds])[number]
            return beside + max(self._link.seconds(nodes, sums, sent), here.seconds(nodes, sums, sent))
        # Each further message is a call, and each further byte is copied and added, too.
        further = 2 * (nodes - 2) * sums * here.latency + (sent - exchanged.sent) * here.per_byte
        return _raised(seconds)[number] + further + self._link.seconds(nodes, sums, sent)

    def _kept_seconds(self, work: Workload, held: int, share: float, number: int) -> float:
        """Return the seconds until kept rows are in memory, and until each further pass over them begins.

        held: the bytes of these rows. share: these rows, as a share of all training rows.
        """
        measured = self._measured
        if measured.first_reading is not None:
            seconds = measured.begin_reading + share * (measured.first_reading - measured.begin_reading)
        elif measured.reading is not None:  # the rows of one node did not fit
            seconds = work.pass_rows * measured.reading[number]
        else:
            seconds = 0.0
        in_window = min(held, share * measured.window_bytes / WINDOWS) / max(1, measured.row_bytes)
        return seconds + (sum(stage.rounds for stage in work.stages) - 1) * in_window * measured.begin_pass

    def _stage_seconds(self, stage: Stage, nodes: int, number: int, is_kept: bool) -> float:
        step = self.step_seconds(stage.step_rows, number)
        step *= stage.even + (1 - stage.even) * self._slower(stage.step_rows, number)
        if not is_kept:
            step = self._with_reading(stage.step_rows, step, number)
        exchange = self.exchange_seconds(self._measured.exchanges[stage.kind], nodes, number)
        return stage.steps * step + stage.exchanges * exchange

    def _slower(self, rows: float, number: int) -> float:
        """Return how much longer a step takes if its rows could vary."""
        known = [each.rows for each in self._varying]
        ratios = [each.seconds[number] / _seconds_at(self._alone, each.rows, number) for each in self._varying]
        return float(np.interp(rows, known, ratios)) if known else 1.0

    def _with_reading(self, rows: float, step: float, number: int) -> float:
        """Return the seconds of a step whose rows are read meanwhile, by threads that take cores from the step."""
        reading, both = self._measured.reading, self._measured.reading_steps
        if reading is None or both is None:
            return step
        beyond = [
            both.seconds[each] - max(_seconds_at(self._alone, both.rows, each), both.rows * reading[each])
            for each in range(self._rounds)
        ]
        return max(step, rows * reading[number]) + rows * _raised(beyond)[number] / both.rows

    def _sent(self, work: Workload) -> float:
        exchanges = self._measured.exchanges
        return sum(stage.exchanges * self._sent_by(work.nodes, exchanges[stage.kind]) for stage in work.stages)

    def _sent_by(self, nodes: int, exchanged: Exchanged) -> float:
        """Return the bytes that each of `nodes` nodes sends in one exchange. Two nodes send half of all bytes twice.

        Each further node adds no more bytes than the second one did, because it uses some of the same rows. All nodes
        together use all rows at most.
        """
        most = max(exchanged.sent, self._measured.model_bytes)
        return min(most, exchanged.sent + (nodes - 2) * exchanged.further) * 2 * (nodes - 1) / nodes


def _seconds_at(times: Sequence[StepTimes], rows: float, number: int) -> float:
    """Return the seconds of a step of `rows` rows in a round.

    Beyond the measured numbers of rows, the time goes on as between the two nearest ones.
    """
    known = [each.rows for each in times]
    seconds = [each.seconds[number] for each in times]
    if len(known) == 1:
        return seconds[0] * rows / known[0]
    if known[0] <= rows <= known[-1]:
        return float(np.interp(rows, known, seconds))
    near, far = (0, 1) if rows < known[0] else (-1, -2)
    slope = max(0.0, (seconds[near] - seconds[far]) / (known[near] - known[far]))
    return max(seconds[near] + slope * (rows - known[near]), 0.0 if rows > known[-1] else seconds[0] * rows / known[0])


def _merged(times: Sequence[StepTimes]) -> list[StepTimes]:
    """Return the times by ascending rows. Of sizes with equally many rows, the first one counts."""
    by_rows = {each.rows: each for each in reversed(times)}
    return [by_rows[rows] for rows in sorted(by_rows)]


def _raised(seconds: Sequence[float]) -> list[float]:
    """Return differences of measurements, by round, raised by as much as their mean is below 0.

    To cut off each of them at 0 would raise the mean of noise.
    """
    lack = max(0.0, -fmean(seconds))
    return [each + lack for each in seconds]
