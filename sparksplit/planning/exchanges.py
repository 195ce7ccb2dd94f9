"""The exchanges of a plan, between two nodes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparksplit.collectives.ring import Ring
from sparksplit.comparison.comparison_record import SweepPoint
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Runner
from sparksplit.planning.blocks import calibrate, per_step
from sparksplit.planning.deadline import Deadline
from sparksplit.planning.measured import Exchanged
from sparksplit.planning.sweep import REPEATS, sweep_sizes, takes_long
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.samples import share_of
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync

if TYPE_CHECKING:
    from sparksplit.training.node.compiled.step import Step

NO_SYNC = SyncConfig()
_SYNCS = 3
"""The exchanges of weights in a round."""


class Exchanges:
    """Measure on both nodes. Both must call each method alike.

    An exchange is the time of steps with exchanges, without the time of the same steps alone. So it contains the wait
    for the other node, and the calls that an exchange adds. The difference may be below 0 in a round: cutting it off
    would raise the mean. Short steps leave less noise in it, so the steps have few rows.

    few: these rows.
    """

    def __init__(self, rig: Rig, ring: Ring, runner: Runner, deadline: Deadline, rounds: int, few: int) -> None:
        self._rig, self._ring, self._runner = rig, ring, runner
        self._deadline, self._rounds = deadline, rounds
        self._batch = rig.first()
        self._rows = int(self._batch.offsets[1])
        self._few = max(1, min(few, self._rows // 2))

    def measured(self) -> dict[str, Exchanged]:
        """Measure an exchange of each kind."""
        step = self._rig.process.step(StepSync(self._ring, NO_SYNC), self._ring)
        few, whole = self._share(self._few), _own(self._batch)
        found, (of_one, _) = {}, self._sent(lambda: step.train(whole))
        if of_one == self._sent(lambda: step.train(few))[0]:
            found["gradients"] = found["own gradients"] = self._gradients(step, few)
        else:  # of large embeddings, only used rows are exchanged
            found["gradients"] = self._gradients(step, self._share(max(1, self._rows // 2)))
            of_two = self._gradients(step, _own(self._rig.first(epoch=self._ring.rank)))
            found["own gradients"] = replace(of_two, further=max(0, of_two.sent - of_one))
        one = replace(few, rows=np.array([self._few]))
        found["weights"] = self._weights(one, NO_SYNC)
        found["weights, outer optimiser"] = self._weights(one, SyncConfig(outer="nesterov"))
        return found

    def sums(self) -> list[SweepPoint]:
        """Measure sums over both nodes, by bytes."""
        points: list[SweepPoint] = []
        for size in sweep_sizes(
            sum(variable.numpy().nbytes for variable in self._rig.process.model.trainable_variables)
        ):
            if takes_long(points, size):
                break
            values, seconds = np.zeros(size // 4, np.float32), []
            for _ in range(REPEATS):
                began = time.perf_counter()
                self._ring.sum([values])
                seconds.append(time.perf_counter() - began)
            # Without the first sum, which the nodes do not start at the same time.
            points.append(SweepPoint(self._ring.size, size, self._runner.most(float(np.median(seconds[1:])))))
        return points

    def _share(self, rows: int) -> Chunk:
        """Return so many rows of the mini-batch, other ones on each node if there are enough."""
        begin = min(self._ring.rank * rows, self._rows - rows)
        return replace(share_of(self._batch, begin, rows, 2 * rows), share=rows)

    def _gradients(self, step: Step, batch: Chunk) -> Exchanged:
        """Measure an exchange of gradients within a step on `batch`."""
        rig, runner = self._rig, self._runner
        own = rig.again(batch)
        rig.warm(step, batch)
        sent, sums = self._sent(lambda: step.train(batch))
        plain, whole = rig.variant(own, rig.step.train), rig.variant(own, step.train)
        for variant in (plain, whole):
            calibrate(runner, variant)
        seconds = []
        for _ in self._deadline.rounds(self._rounds):
            alone = per_step(runner.measure(plain))
            seconds.append(per_step(runner.measure(whole)) - alone)
        return Exchanged(sent, sums, seconds)

    def _weights(self, batch: Chunk, config: SyncConfig) -> Exchanged:
        """Measure an exchange of weights after a step on `batch`."""
        rig, runner, model = self._rig, self._runner, self._rig.process.model
        sync = LocalSync(self._ring, config)
        plain = rig.variant(rig.again(batch), rig.step.train)
        calibrate(runner, plain)
        sync.begin(model)
        sync.agree(model, 1)
        sent, sums = self._sent(lambda: sync.agree(model, 1))
        seconds = []
        for _ in self._deadline.rounds(self._rounds):
            alone, took = per_step(runner.measure(plain)), 0.0
            for _ in range(_SYNCS):
                runner.table(0.0)
                began = time.perf_counter()
                rig.step.train(batch)
                sync.agree(model, 1)
                took += runner.most(time.perf_counter() - began)
            seconds.append(took / _SYNCS - alone)
        return Exchanged(sent, sums, seconds)

    def _sent(self, exchange: Callable[[], object]) -> tuple[int, int]:
        """Return the bytes that this node sends in an exchange, and its sums."""
        sent, sums = self._ring.bytes_sent, self._ring.sums
        exchange()
        return self._ring.bytes_sent - sent, self._ring.sums - sums


def _own(batch: Chunk) -> Chunk:
    """Return the node's own mini-batch, one of two in an update."""
    rows = int(batch.offsets[1])
    return replace(share_of(batch, 0, rows, 2 * rows), share=rows)
