"""What the nodes of a plan measure: steps on one node, the same steps beside another node, and exchanges. At the end,
one node trains with larger mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparksplit.base.memory import most_memory
from sparksplit.cluster.member import OneNode
from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.dataset.plan import window_for
from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Runner
from sparksplit.planning.branching import unbranched
from sparksplit.planning.deadline import Deadline
from sparksplit.planning.exchanges import NO_SYNC, Exchanges
from sparksplit.planning.measured import WINDOWS, Measured, StepTimes
from sparksplit.planning.messages import PlanPayload
from sparksplit.planning.steps import BESIDE, Steps
from sparksplit.strategies.syncs import LocalSync
from sparksplit.training.node.process import Process

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.training.node.compiled.step import Step

_BESIDE = 3
"""The numbers of rows that both nodes measure at the same time: the first ones of the list."""


class Measuring:
    """imports: the bytes of this module, and of all that only it imports."""

    def __init__(self, process: Process, member: Member, ring: Ring, payload: PlanPayload, imports: int) -> None:
        self._process, self._member, self._ring, self._payload = process, member, ring, payload
        self._imports = imports
        effort = Effort(block=payload.block)
        self._one = OneNode(member)
        self._alone, self._together = Runner(self._one, Alone(), effort), Runner(member, ring, effort)
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
            sizes: list[int] = member.gather("alone", steps.prepared)[0]
            memory = _memory(rig, self._imports)
            if member.rank == 0 and not rig.kept:
                reading, reading_steps = steps.reading()
            beside: list[StepTimes] = []
            if len({*hosts}) == 1 and not self._deadline.is_over(BESIDE):
                beside = steps.beside(member, sizes[:_BESIDE], self._together, self._deadline)
            exchanges = Exchanges(rig, self._ring, self._together, self._deadline, self._payload.rounds, min(sizes))
            of_kinds, sweep = exchanges.measured(), exchanges.sums()
            seconds = self._deadline.clock()
            measured = Measured(
                hosts=hosts,
                devices=[device.name for device in tf.config.list_logical_devices("GPU")] or ["CPU"],
                alone=alone,
                beside=beside,
                varying=varying,
                exchanges=of_kinds,
                sweep=sweep,
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
            )
            if member.rank == 0 and self._payload.branch_seconds:
                # Large mini-batches may take more memory than there is.
                member.announce(measured=replace(measured, branched=unbranched(rig.config)).to_json())
                per_update = float(np.median(alone[0].seconds))
                measured = replace(measured, branched=steps.branched(self._payload.branch_seconds, per_update))
            member.gather("branched", None)
        return measured

    @contextmanager
    def _rig(self) -> Iterator[Rig]:
        """Yield this node as if it were alone."""
        config = self._process.config.model_copy(update={"strategy": "single", "nodes": 1, "sync": NO_SYNC})
        rig = Rig(self._process, self._one, Alone(), config, self._process.await_rows(), self._alone)
        try:
            yield rig
        finally:
            rig.close()

    def _between(self) -> Step:
        """Return the step of a node that agrees with other nodes between steps. The step itself exchanges nothing."""
        return self._process.step(LocalSync(self._ring, NO_SYNC), self._ring)


def _memory(rig: Rig, imports: int) -> int:
    """Return the most bytes of this process so far, without the sample and `imports`.

    The rig's copies of weights and optimizer stay in: the first node of a run has as much for its checkpoints.
    """
    sample = 0 if rig.in_memory is None else rig.in_memory.own_bytes
    return max(0, most_memory() - sample - imports)
