"""The nodes' part of a plan: measure steps on one node, the same steps beside another node, and exchanges. At the end,
one node trains with larger mini-batches."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Iterator, Sequence
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
from sparksplit.diagnosis.node.blocks import rotated
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Block, Runner, Variant
from sparksplit.planning.branching import branched
from sparksplit.planning.measured import Branched, Exchanged, Measured, StepTimes
from sparksplit.planning.messages import PlanPayload
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.order import updates_per_epoch
from sparksplit.rows.samples import share_of
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training.node.kernels import naming_keys
from sparksplit.training.node.main import configure, connect
from sparksplit.training.node.process import Process

if TYPE_CHECKING:
    from sparksplit.cluster import Member

_NO_SYNC = SyncConfig()
_LEAST = 2
"""The fewest sizes and rounds, however long they take."""
_BESIDE = 3
"""The numbers of rows that both nodes measure at the same time: the first ones of the list."""
_SUMS = 5
_SUM_SECONDS = 5.0
_WINDOWS = 3
"""The windows of blocks that a node without room for all rows has in memory."""


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
        self._effort = Effort(block=payload.block)
        self._together = Runner(member, collective, self._effort)

    def measured(self) -> Measured:
        """Measure. Both nodes must call this."""
        import tensorflow as tf

        member, manifest = self._member, self._process.data.manifest
        if member.rank:
            member.gather("first", None)  # one after the other: reading on one host would be slower
        with self._rig() as rig:
            if not member.rank:
                member.gather("first", None)
            steps = _Steps(rig, self._payload, Runner(rig.member, Alone(), self._effort))
            hosts = member.gather("hosts", member.host)  # both nodes are ready: the other node now waits
            alone: list[StepTimes] = []
            reading = None
            if member.rank == 0:
                alone = steps.measured(steps.prepare(self._payload.sizes))
                reading = None if rig.kept else steps.reading()
            sizes: list[int] = member.gather("alone", steps.prepared)[0][:_BESIDE]
            memory = _memory(rig)
            beside: list[StepTimes] = []
            if len({*hosts}) == 1:
                steps.prepare(sizes, limited=False)
                beside = steps.measured(sizes, self._together)
            gradients, weights = self._exchanges(rig, steps)
            sums = self._sums(rig)
            found = None
            if member.rank == 0 and self._payload.branch_seconds:
                found = steps.branched(self._payload.branch_seconds, float(np.median(alone[0].seconds)))
            member.gather("branched", None)
        window = self._process.config.window or window_for(manifest.lanes, manifest.block_bytes)
        return Measured(
            hosts=hosts,
            devices=[device.name for device in tf.config.list_logical_devices("GPU")] or ["CPU"],
            alone=alone,
            beside=beside,
            gradients=gradients,
            weights=weights,
            sweep=sums,
            reading=reading,
            first_reading=rig.first_reading,
            rows=manifest.splits["train"].rows,
            row_bytes=rig.row_bytes,
            window_bytes=_WINDOWS * window * manifest.block_bytes * manifest.lanes,
            held_out_bytes=rig.held_out_bytes,
            memory_bytes=memory,
            model_bytes=sum(variable.numpy().nbytes for variable in self._process.model.variables),
            branched=found,
        )

    @contextmanager
    def _rig(self) -> Iterator[Rig]:
        """Yield this node as if it were alone."""
        one, alone = OneNode(self._member), Alone()
        config = self._process.config.model_copy(update={"strategy": "single", "nodes": 1, "sync": _NO_SYNC})
        rig = Rig(self._process, one, alone, config, self._process.await_rows(), Runner(one, alone, self._effort))
        try:
            yield rig
        finally:
            rig.close()

    def _exchanges(self, rig: Rig, steps: _Steps) -> tuple[Exchanged, Exchanged]:
        """Measure the exchange of gradients, and the exchange of weights, between both nodes.

        Each is the time of steps with exchanges, without the time of the same steps alone. So it contains the wait for
        the other node, and the calls that an exchange adds.
        """
        collective, config, process = self._collective, self._process.config, self._process
        batch = rig.first()
        half = max(1, int(batch.offsets[1]) // 2)
        begin = min(self._member.rank * half, int(batch.offsets[1]) - half)
        own = rig.again(replace(share_of(batch, begin, half, 2 * half), share=half))
        step = process.step(StepSync(collective, config.sync), collective)
        chunk = next(own.epoch(0))
        rig.warm(step, chunk)
        before = collective.bytes_sent
        step.train(chunk)
        sent = (collective.bytes_sent - before) // chunk.updates
        plain, whole = rig.variant(own, rig.step.train), rig.variant(own, step.train)
        for variant in (plain, whole):
            self._together.calibrate(variant)
        sync = LocalSync(collective, config.sync)
        sync.begin(process.model)
        sync.agree(process.model, 1)
        before = collective.bytes_sent
        sync.agree(process.model, 1)
        sent_weights = collective.bytes_sent - before
        one = next(own.epoch(0, 0, 1))
        gradients, weights = [], []
        for _ in range(self._payload.rounds):
            alone = _per_step(self._together.measure(plain))
            gradients.append(max(0.0, _per_step(self._together.measure(whole)) - alone))
            self._together.table(0.0)
            began = time.perf_counter()
            rig.step.train(one)
            sync.agree(process.model, 1)
            weights.append(max(0.0, self._together.most(time.perf_counter() - began) - alone))
        return Exchanged(sent, gradients), Exchanged(sent_weights, weights)

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
            if self._together.clock() - began > _SUM_SECONDS and len(points) >= _LEAST:
                break
        return points


class _Steps:
    """Steps of several sizes on one node, each as `train` runs it without exchanges.

    prepared: the sizes whose graphs are made, in the order of `prepare`.
    """

    def __init__(self, rig: Rig, payload: PlanPayload, runner: Runner) -> None:
        self._rig, self._payload, self._runner = rig, payload, runner
        memory = rig.in_memory
        is_at_hand = memory is not None and memory.at_hand is not None
        self._rows = rig.sample.held(memory.at_hand) if is_at_hand else rig.sample  # type: ignore[union-attr, arg-type]
        """Rows in memory: reading is measured by itself."""
        self._variants: dict[int, Variant] = {}

    @property
    def prepared(self) -> list[int]:
        return [*self._variants]

    def prepare(self, sizes: Sequence[int], limited: bool = True) -> list[int]:
        """Make the graphs of steps with these rows, in this order. Return the prepared sizes.

        limited: stop after half of the payload's seconds, if two sizes are prepared by then.
        """
        began = time.perf_counter()
        for rows in sizes:
            is_late = time.perf_counter() - began > self._payload.seconds / 2
            if limited and is_late and len(self._variants) >= _LEAST:
                break
            if rows not in self._variants:
                self._variants[rows] = self._variant(rows)
        return self.prepared

    def measured(self, sizes: Sequence[int], runner: Runner | None = None) -> list[StepTimes]:
        """Measure steps with these rows in interleaved rounds. After the payload's seconds, two rounds are enough.

        sizes: prepared ones. runner: measures both nodes at the same time, instead of this node.
        """
        measuring = runner or self._runner
        blocks: dict[int, list[Block]] = {rows: [] for rows in sizes}
        gc.collect()
        began = measuring.clock()
        for number in range(self._payload.rounds):
            for name in rotated([*map(str, sizes)], number):
                blocks[int(name)].append(measuring.measure(self._variants[int(name)]))
            if number + 1 >= _LEAST and measuring.clock() - began > self._payload.seconds:
                break
        of_node = 1 if runner is None else 2
        return [
            StepTimes(of_size[0].rows / of_size[0].steps / of_node, [_per_step(block) for block in of_size])
            for of_size in blocks.values()
        ]

    def reading(self) -> list[float]:
        """Measure the seconds of reading a row."""
        feed = self._rig.feed()
        variant = self._rig.variant(feed, lambda _: None, resets=False)
        self._runner.calibrate(variant)
        return [self._runner.measure(variant).per_row for _ in range(self._payload.rounds)]

    def branched(self, seconds: float, per_update: float) -> Branched:
        """Train with larger mini-batches, as in `branching`."""
        return branched(self._rig, self._rows, self._runner, seconds, per_update)

    def _variant(self, rows: int) -> Variant:
        rig = self._rig
        feed = rig.feed(source=self._rows, batch_size=rows)
        steps = max(1, updates_per_epoch(sum(self._rows.lane_rows), rows))
        made = replace(rig.variant(feed, lambda chunk: rig.step.train(_even(chunk, rows))), steps=steps)
        self._runner.calibrate(made)
        return made


def _even(chunk: Chunk, rows: int) -> Chunk:
    """Return the chunk, marked as one of equal shares if it has them. A sample may lack lanes, so its feed cannot tell.

    Equal shares have a faster graph.
    """
    is_even = chunk.share is None and bool((np.diff(chunk.offsets) == rows).all())
    return replace(chunk, share=rows) if is_even else chunk


def _per_step(block: Block) -> float:
    return block.seconds / max(1, block.steps)


def _memory(rig: Rig) -> int:
    """Return the most bytes of this process so far, without the sample and the copies of the measurement."""
    most: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    sample = 0 if rig.in_memory is None else rig.in_memory.own_bytes
    copies: int = sum(variable.numpy().nbytes for variable in rig.step.variables())
    return max(0, most - sample - copies)
