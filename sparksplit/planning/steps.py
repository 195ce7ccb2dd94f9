"""The node's steps of a plan: of several sizes, each as `train` runs it without exchanges."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparksplit.diagnosis.node.blocks import Extent, common_extent, rotated
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Block, Runner, Variant
from sparksplit.planning.blocks import calibrate, per_step
from sparksplit.planning.branching import branched
from sparksplit.planning.deadline import LEAST, Deadline
from sparksplit.planning.measured import Branched, StepTimes
from sparksplit.planning.messages import PlanPayload
from sparksplit.planning.workload import sampled_sizes
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.order import updates_per_epoch

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.training.node.compiled.step import Step

_VARYING = 2
"""The numbers of rows that are also measured as if they varied: the first ones of the list."""
_SIZES, _ALONE, _READING, BESIDE = 0.5, 0.7, 0.8, 0.9
"""The share of a plan's seconds until which graphs of further sizes are made, and until which each part is measured.
Exchanges come last."""


class Steps:
    """between: the step of a node that agrees with other nodes between steps.

    prepared: the sizes whose graphs are made, in the order of `prepare`.
    """

    def __init__(self, rig: Rig, payload: PlanPayload, runner: Runner, deadline: Deadline, between: Step) -> None:
        self._rig, self._payload, self._runner, self._between = rig, payload, runner, between
        self._deadline = deadline
        memory = rig.in_memory
        is_at_hand = memory is not None and memory.at_hand is not None
        self._rows = rig.sample.held(memory.at_hand) if is_at_hand else rig.sample  # type: ignore[union-attr, arg-type]
        """Rows in memory: reading is measured by itself."""
        self._variants: dict[str, Variant] = {}
        self.prepared: list[int] = []

    def alone(self) -> tuple[list[StepTimes], list[StepTimes]]:
        """Measure steps with the payload's sizes: with always as many rows, and with rows that could vary."""
        sizes = sampled_sizes(self._payload.sizes, sum(self._rows.lane_rows))
        names = [*map(str, self.prepare(sizes))]
        between = self._between
        for rows in self.prepared[:_VARYING]:
            if self._deadline.is_over(_ALONE):
                break
            name = f"{rows}, varying"
            self._variants[name] = self._variant(rows, lambda chunk: between.train(replace(chunk, share=None)))
            names.append(name)
        times = self._measured(names, self._runner, self._deadline, _ALONE)
        return times[: len(self.prepared)], times[len(self.prepared) :]

    def prepare(self, sizes: Sequence[int], limited: bool = True) -> list[int]:
        """Make the graphs of steps with these rows, in this order. Return the prepared sizes.

        limited: stop where the deadline is near, if two sizes are prepared by then.
        """
        for rows in sizes:
            if limited and len(self.prepared) >= LEAST and self._deadline.is_over(_SIZES):
                break
            if rows not in self.prepared:
                self._variants[str(rows)] = self._even_variant(rows)
                self.prepared.append(rows)
        return self.prepared

    def beside(self, member: Member, sizes: Sequence[int], runner: Runner, deadline: Deadline) -> list[StepTimes]:
        """Measure steps of these sizes on both nodes at the same time. Each node must call this. runner, deadline: of
        both nodes."""
        self.prepare(sizes, limited=False)
        names = [*map(str, sizes)]
        self._align(member, names)
        return self._measured(names, runner, deadline, BESIDE, 2)

    def _align(self, member: Member, names: Sequence[str]) -> None:
        """Give the blocks of both nodes as many steps."""
        own = [self._variants[name] for name in names]
        extents = [each.extent or Extent(1) for each in own]
        blocks = [(each.steps, of.rounds, of.updates, each.per_call) for each, of in zip(own, extents, strict=True)]
        for variant, of_nodes in zip(own, zip(*member.gather("blocks", blocks), strict=True), strict=True):
            variant.extent = common_extent([Extent(*each[1:3]) for each in of_nodes], [each[0] for each in of_nodes])
            variant.per_call = of_nodes[0][3]

    def _measured(
        self, names: Sequence[str], runner: Runner, deadline: Deadline, share: float, nodes: int = 1
    ) -> list[StepTimes]:
        """Measure prepared steps in interleaved rounds, on so many nodes."""
        blocks: dict[str, list[Block]] = {name: [] for name in names}
        gc.collect()
        for number in deadline.rounds(self._payload.rounds, share):
            for name in rotated(names, number):
                blocks[name].append(runner.measure(self._variants[name]))
        return [
            StepTimes(of_size[0].rows / of_size[0].steps / nodes, [per_step(block) for block in of_size])
            for of_size in blocks.values()
        ]

    def begin_pass(self, window: int) -> float:
        """Measure the seconds until a further pass has its first mini-batch, for each row of its first window.

        window: blocks of a window.
        """
        feed, seconds = self._rig.feed(source=self._rows), []
        for number in self._deadline.rounds(self._payload.rounds, _ALONE):
            began = time.perf_counter()
            chunks = feed.epoch(number)
            next(chunks)
            seconds.append(time.perf_counter() - began)
            chunks.close()  # type: ignore[attr-defined]  # a generator
            feed.rest()
        self._rig.end(feed)
        most = window * self._rows.block_rows
        return float(np.median(seconds)) / max(1, sum(min(rows, most) for rows in self._rows.lane_rows))

    def reading(self) -> tuple[list[float], StepTimes]:
        """Measure the seconds of reading a row, and steps whose rows are read meanwhile.

        A run that reads its rows in every pass hardly finds them in the page cache, where the sample's rows are.
        """
        rig, blocks = self._rig, {}
        rows = rig.unread()
        steps_of_rows = max(1, updates_per_epoch(sum(rows.lane_rows), rig.config.batch_size))
        for name, train in (("reading", lambda _: None), ("steps", rig.trained)):
            feed = rig.feed(source=rows)
            variant = replace(rig.variant(feed, train, resets=train == rig.trained), steps=steps_of_rows)
            self._runner.calibrate(variant)
            rounds = self._deadline.rounds(self._payload.rounds, _READING)
            blocks[name] = [self._runner.measure(variant) for _ in rounds]
            rig.end(feed)
        steps = blocks["steps"]
        return (
            [block.per_row for block in blocks["reading"]],
            StepTimes(steps[0].rows / steps[0].steps, [per_step(block) for block in steps]),
        )

    def branched(self, seconds: float, per_update: float) -> Branched:
        """Train with larger mini-batches, as in `branching`."""
        return branched(self._rig, self._rows, self._runner, seconds, per_update)

    def _even_variant(self, rows: int) -> Variant:
        return self._variant(rows, lambda chunk: self._rig.step.train(_even(chunk, rows)))

    def _variant(self, rows: int, train: Callable[[Chunk], object]) -> Variant:
        feed = self._rig.feed(source=self._rows, batch_size=rows)
        steps = max(1, updates_per_epoch(sum(self._rows.lane_rows), rows))
        made = replace(self._rig.variant(feed, train), steps=steps)
        calibrate(self._runner, made)
        return made


def _even(chunk: Chunk, rows: int) -> Chunk:
    """Return the chunk, marked as one of equal shares if it has them. A sample may lack lanes, so its feed cannot tell.

    Equal shares have a faster graph.
    """
    is_even = chunk.share is None and bool((np.diff(chunk.offsets) == rows).all())
    return replace(chunk, share=rows) if is_even else chunk
