"""The nodes' part of a plan: measure steps on one node, the same steps beside another node, and exchanges."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparksplit.base.records import JsonObject
from sparksplit.cluster.member import MemberWithin
from sparksplit.collectives import Alone, Collective
from sparksplit.comparison.comparison_record import SweepPoint
from sparksplit.comparison.node import sweep
from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.blocks import rotated
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Block, Runner, Variant
from sparksplit.diagnosis.node.samples import Again
from sparksplit.diagnosis.node.variants import Exchange, sent_arrays
from sparksplit.planning.measured import Exchanged, Measured, StepTimes
from sparksplit.planning.messages import PlanPayload
from sparksplit.rows.order import updates_per_epoch
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training.node.kernels import naming_keys
from sparksplit.training.node.main import configure, connect
from sparksplit.training.node.process import Process

if TYPE_CHECKING:
    from sparksplit.cluster import Member

_NO_SYNC = SyncConfig()
_LEAST = 2
_UPDATES = 4
_BESIDE = 3
"""The numbers of rows that both nodes measure at the same time: the first ones of the list."""


class _OneNode(MemberWithin):
    """A node that trains as if there were no other node."""

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self.rank, self.size = 0, 1


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

    def measured(self) -> Measured:
        """Measure. Both nodes must call this."""
        import tensorflow as tf

        member = self._member
        with self._rig() as rig:
            steps = _Steps(rig, self._payload)
            hosts = member.gather("hosts", member.host)  # both nodes are ready: the other node now waits
            prepared = steps.prepare(self._payload.sizes) if member.rank == 0 else []
            alone = steps.measured(prepared)
            sizes: list[int] = member.gather("alone", prepared)[0][:_BESIDE]
            beside: list[StepTimes] = []
            if len({*hosts}) == 1:
                steps.prepare(sizes)
                member.gather("beside", None)
                beside = steps.measured(sizes)
            reading = None if rig.kept else steps.reading()
            gradients, weights, sums = self._exchanges(rig)
            held = 0 if rig.in_memory is None else rig.in_memory.own_bytes
        return Measured(
            hosts=hosts,
            devices=[device.name for device in tf.config.list_logical_devices("GPU")] or ["CPU"],
            alone=alone,
            beside=beside,
            gradients=gradients,
            weights=weights,
            sweep=sums,
            reading=reading,
            row_bytes=rig.row_bytes,
            memory_bytes=max(0, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - held),
            model_bytes=sum(variable.numpy().nbytes for variable in self._process.model.variables),
        )

    @contextmanager
    def _rig(self) -> Iterator[Rig]:
        """Yield this node as if it were alone."""
        one, alone = _OneNode(self._member), Alone()
        config = self._process.config.model_copy(update={"strategy": "single", "nodes": 1, "sync": _NO_SYNC})
        runner = Runner(one, alone, Effort(block=self._payload.block))
        rig = Rig(self._process, one, alone, config, self._process.await_rows(), runner)
        try:
            yield rig
        finally:
            rig.close()

    def _exchanges(self, rig: Rig) -> tuple[Exchanged, Exchanged, list[SweepPoint]]:
        """Measure exchanges of gradients, exchanges of weights, and sums of many sizes, between two nodes."""
        collective, config, process = self._collective, self._process.config, self._process
        runner = Runner(self._member, collective, Effort(block=self._payload.block))
        again = rig.again(rig.first(max(1, config.batch_size // 2)))
        sent = self._sent(again)
        exchange = Exchange(collective, sent_arrays(process.model), each_step=True)
        exchange.scale(sent)
        variant = rig.variant(again, exchange.train, resets=False)
        runner.calibrate(variant)
        blocks = [runner.measure(variant) for _ in range(self._payload.rounds)]
        gradients = Exchanged(sent, [block.seconds / block.steps for block in blocks])
        sync = LocalSync(collective, config.sync)
        sync.begin(process.model)
        sync.agree(process.model, 1)
        before = collective.bytes_sent
        seconds = [runner.most(_timed(lambda: sync.agree(process.model, 1))) for _ in range(self._payload.rounds)]
        weights = Exchanged((collective.bytes_sent - before) // len(seconds), seconds)
        return gradients, weights, sweep(collective)

    def _sent(self, again: Again) -> int:
        """Return the bytes that this node sends in a step of `batch`: of large embeddings, only the rows in use."""
        collective = self._collective
        step = self._process.step(StepSync(collective, self._process.config.sync), collective)
        before = collective.bytes_sent
        step.train(next(again.epoch(0, 0, _UPDATES)))
        return (collective.bytes_sent - before) // _UPDATES


class _Steps:
    """Steps of several sizes on one node, each as `train` runs it without exchanges."""

    def __init__(self, rig: Rig, payload: PlanPayload) -> None:
        self._rig, self._payload = rig, payload
        self._runner = Runner(rig.member, Alone(), Effort(block=payload.block))
        memory = rig.in_memory
        self._rows = rig.sample if memory is None or memory.at_hand is None else rig.sample.held(memory.at_hand)
        """Rows in memory: reading is measured by itself."""
        self._variants: dict[int, Variant] = {}

    def prepare(self, sizes: Sequence[int]) -> list[int]:
        """Make the graphs of steps with these rows, in this order, for at most the payload's seconds. Return the
        prepared sizes: at least two, if there are two."""
        began = time.perf_counter()
        for place, rows in enumerate(sizes):
            if place >= _LEAST and time.perf_counter() - began > self._payload.seconds / 2:
                break
            if rows not in self._variants:
                self._variants[rows] = self._variant(rows)
        return [rows for rows in sizes if rows in self._variants]

    def measured(self, prepared: Sequence[int]) -> list[StepTimes]:
        """Measure steps with these rows in interleaved rounds. prepared: from `prepare`."""
        blocks: dict[int, list[Block]] = {rows: [] for rows in prepared}
        gc.collect()
        for number in range(self._payload.rounds if prepared else 0):
            for name in rotated([*map(str, prepared)], number):
                blocks[int(name)].append(self._runner.measure(self._variants[int(name)]))
        return [
            StepTimes(of_size[0].rows / of_size[0].steps, [block.seconds / block.steps for block in of_size])
            for of_size in blocks.values()
        ]

    def reading(self) -> list[float]:
        """Measure the seconds of reading a row."""
        feed = self._rig.feed()
        variant = self._rig.variant(feed, lambda _: None, resets=False)
        self._runner.calibrate(variant)
        return [self._runner.measure(variant).per_row for _ in range(self._payload.rounds)]

    def _variant(self, rows: int) -> Variant:
        rig = self._rig
        feed = rig.feed(source=self._rows, batch_size=rows)
        made = replace(rig.variant(feed, rig.trained), steps=max(1, updates_per_epoch(sum(self._rows.lane_rows), rows)))
        self._runner.calibrate(made)
        return made


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
