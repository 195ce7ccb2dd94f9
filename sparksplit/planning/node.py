"""The nodes' part of a plan: measure steps on one node, the same steps beside another node, and exchanges. At the end,
one node trains with larger mini-batches."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparksplit.base.records import JsonObject
from sparksplit.cluster.member import OneNode
from sparksplit.collectives import Alone, Collective
from sparksplit.comparison.comparison_record import SweepPoint
from sparksplit.dataset.plan import window_for
from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Runner
from sparksplit.planning.blocks import calibrate, per_step
from sparksplit.planning.deadline import LEAST, Deadline
from sparksplit.planning.measured import WINDOWS, Exchanged, Measured, StepTimes
from sparksplit.planning.messages import PlanPayload
from sparksplit.planning.steps import BESIDE, Steps
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.samples import share_of
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training.node.kernels import naming_keys
from sparksplit.training.node.main import configure, connect
from sparksplit.training.node.process import Process

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.training.node.compiled.step import Step

_NO_SYNC = SyncConfig()
_BESIDE = 3
"""The numbers of rows that both nodes measure at the same time: the first ones of the list."""
_SYNCS = 3
"""The exchanges of weights in a round."""
_SUMS = 5
_SUM_SECONDS = 5.0


def work(member: Member) -> JsonObject:
    """Measure the configuration of the PlanPayload on one of two nodes. Return the Measured on the first node."""
    with member.phase("start"):
        payload = PlanPayload.from_json(member.payload, "what the driver gave")
        config = payload.train_config()
        configure(config, payload.threads)
        collective = connect(member, config, payload.sources)
        process = Process(member, payload, config)
    try:
        with member.phase("start"), naming_keys(config):
            process.build()
        with member.phase("measuring"):
            measured = _Planning(process, member, collective, payload).measured()
        return measured.to_json() if member.rank == 0 else {}
    finally:
        process.close()
        collective.close()


class _Planning:
    def __init__(self, process: Process, member: Member, collective: Collective, payload: PlanPayload) -> None:
        self._process, self._member, self._collective, self._payload = process, member, collective, payload
        effort = Effort(block=payload.block)
        self._one = OneNode(member)
        self._alone, self._together = Runner(self._one, Alone(), effort), Runner(member, collective, effort)
        self._deadline = Deadline(payload.seconds, self._together.clock)

    def measured(self) -> Measured:
        """Measure. Both nodes must call this."""
        import tensorflow as tf

        member, manifest = self._member, self._process.data.manifest
        window = self._process.config.window or window_for(manifest.lanes, manifest.block_bytes)
        if member.rank:
            member.gather("first", None)  # one after the other: reading on one host would be slower
        with self._rig() as rig:
            if not member.rank:
                member.gather("first", None)
            own_deadline = Deadline(self._payload.seconds, self._alone.clock)
            steps = Steps(rig, self._payload, self._alone, own_deadline, self._between())
            hosts = member.gather("hosts", member.host)  # both nodes are ready: the other node now waits
            alone: list[StepTimes] = []
            varying: list[StepTimes] = []
            reading = reading_steps = None
            begin_pass = 0.0
            if member.rank == 0:
                alone, varying = steps.alone()
                begin_pass = steps.begin_pass(window)
            sizes: list[int] = member.gather("alone", steps.prepared)[0][:_BESIDE]
            memory = _memory(rig)
            if member.rank == 0 and not rig.kept:
                reading, reading_steps = steps.reading()
            beside: list[StepTimes] = []
            if len({*hosts}) == 1 and not self._deadline.is_over(BESIDE):
                beside = steps.beside(member, sizes, self._together, self._deadline)
            exchanges = self._exchanges(rig)
            sums = self._sums(rig)
            seconds = self._deadline.clock()
            found = None
            if member.rank == 0 and self._payload.branch_seconds:
                found = steps.branched(self._payload.branch_seconds, float(np.median(alone[0].seconds)))
            member.gather("branched", None)
        return Measured(
            hosts=hosts,
            devices=[device.name for device in tf.config.list_logical_devices("GPU")] or ["CPU"],
            alone=alone,
            beside=beside,
            varying=varying,
            exchanges=exchanges,
            sweep=sums,
            reading=reading,
            reading_steps=reading_steps,
            first_reading=rig.first_reading,
            begin_reading=rig.begin_reading,
            begin_pass=begin_pass,
            rows=manifest.splits["train"].rows,
            row_bytes=rig.row_bytes,
            window_bytes=WINDOWS * window * manifest.block_bytes * manifest.lanes,
            held_out_bytes=rig.held_out_bytes,
            memory_bytes=memory,
            model_bytes=sum(variable.numpy().nbytes for variable in self._process.model.variables),
            seconds=seconds,
            branched=found,
        )

    @contextmanager
    def _rig(self) -> Iterator[Rig]:
        """Yield this node as if it were alone."""
        config = self._process.config.model_copy(update={"strategy": "single", "nodes": 1, "sync": _NO_SYNC})
        rig = Rig(self._process, self._one, Alone(), config, self._process.await_rows(), self._alone)
        try:
            yield rig
        finally:
            rig.close()

    def _between(self) -> Step:
        """Return the step of a node that agrees with other nodes between steps. The step itself exchanges nothing."""
        return self._process.step(LocalSync(self._collective, _NO_SYNC), self._collective)

    def _exchanges(self, rig: Rig) -> dict[str, Exchanged]:
        """Measure the exchanges between both nodes.

        Each is the time of steps with exchanges, without the time of the same steps alone. So it contains the wait for
        the other node, and the calls that an exchange adds.
        """
        batch = rig.first()
        rows = int(batch.offsets[1])
        half = max(1, rows // 2)
        step = self._process.step(StepSync(self._collective, _NO_SYNC), self._collective)
        begin = min(self._member.rank * half, rows - half)
        shared = self._gradients(rig, step, replace(share_of(batch, begin, half, 2 * half), share=half))
        found: dict[str, Exchanged] = {"gradients": shared, "own gradients": shared}
        whole = replace(share_of(batch, 0, rows, 2 * rows), share=rows)
        if self._sent(lambda: step.train(whole)) != shared.sent:  # of large embeddings, only used rows are exchanged
            found["own gradients"] = self._gradients(rig, step, whole)
        one = replace(share_of(batch, begin, half, half), share=half)
        found["weights"] = self._weights(rig, one, _NO_SYNC)
        found["weights, outer optimiser"] = self._weights(rig, one, SyncConfig(outer="nesterov"))
        return found

    def _gradients(self, rig: Rig, step: Step, batch: Chunk) -> Exchanged:
        """Measure an exchange of gradients within a step on `batch`."""
        own = rig.again(batch)
        chunk = next(own.epoch(0))
        rig.warm(step, chunk)
        sent = self._sent(lambda: step.train(chunk)) // chunk.updates
        plain, whole = rig.variant(own, rig.step.train), rig.variant(own, step.train)
        for variant in (plain, whole):
            calibrate(self._together, variant)
        seconds = []
        for _ in self._deadline.rounds(self._payload.rounds):
            alone = per_step(self._together.measure(plain))
            seconds.append(max(0.0, per_step(self._together.measure(whole)) - alone))
        return Exchanged(sent, seconds)

    def _weights(self, rig: Rig, batch: Chunk, config: SyncConfig) -> Exchanged:
        """Measure an exchange of weights after a step on `batch`. Training fills the caches before."""
        sync, process = LocalSync(self._collective, config), self._process
        plain = rig.variant(rig.again(batch), rig.step.train)
        calibrate(self._together, plain)
        sync.begin(process.model)
        sync.agree(process.model, 1)
        sent = self._sent(lambda: sync.agree(process.model, 1))
        seconds = []
        for _ in self._deadline.rounds(self._payload.rounds):
            alone, took = per_step(self._together.measure(plain)), 0.0
            for _ in range(_SYNCS):
                self._together.table(0.0)
                began = time.perf_counter()
                rig.step.train(batch)
                sync.agree(process.model, 1)
                took += self._together.most(time.perf_counter() - began)
            seconds.append(max(0.0, took / _SYNCS - alone))
        return Exchanged(sent, seconds)

    def _sent(self, exchange: Callable[[], object]) -> int:
        """Return the bytes that this node sends in an exchange."""
        before = self._collective.bytes_sent
        exchange()
        return self._collective.bytes_sent - before

    def _sums(self, rig: Rig) -> list[SweepPoint]:
        """Measure sums over both nodes, of up to four times the bytes of the weights, for about five seconds."""
        whole = sum(variable.numpy().nbytes for variable in rig.process.model.trainable_variables)
        points, began = [], self._together.clock()
        for size in sorted({1 << 10, 1 << 16, max(1 << 12, whole // 2), max(1 << 13, whole), max(1 << 14, 4 * whole)}):
            values, seconds = np.zeros(size // 4, np.float32), []
            for _ in range(_SUMS + 1):
                began_sum = time.perf_counter()
                self._collective.sum([values])
                seconds.append(time.perf_counter() - began_sum)
            # Without the first sum, which the nodes do not start at the same time.
            points.append(SweepPoint(self._collective.size, size, float(np.median(seconds[1:]))))
            if self._together.clock() - began > _SUM_SECONDS and len(points) >= LEAST:
                break
        return points


def _memory(rig: Rig) -> int:
    """Return the most bytes of this process so far, without the sample and the copies of the measurement."""
    most: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    sample = 0 if rig.in_memory is None else rig.in_memory.own_bytes
    copies: int = sum(variable.numpy().nbytes for variable in rig.step.variables())
    return max(0, most - sample - copies)
