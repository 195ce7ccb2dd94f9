"""The blocks of a plan's measurements."""

from __future__ import annotations

from sparksplit.diagnosis.node.blocks import Extent
from sparksplit.diagnosis.node.runner import Block, Runner, Variant

SLOW = 0.3
"""Steps of more seconds are measured one by one."""


def calibrate(runner: Runner, variant: Variant) -> None:
    """Find the extent of a block of `variant`, and make all its graphs, so that no measured block does.

    A block of whole rounds has mini-batches that no block before it had: the last one has fewer rows.
    """
    if per_step(runner.calibrate(variant)) > SLOW:
        variant.extent = Extent(0, 1)
    elif variant.extent is not None and variant.extent.rounds:
        runner.measure(variant)


def per_step(block: Block) -> float:
    """Return the seconds of a step."""
    return block.seconds / max(1, block.steps)
