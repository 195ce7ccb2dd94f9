"""What a node does in benchmarks/checkpoints.py: train, in blocks with and without checkpoints, and time them."""

from __future__ import annotations

import time
from typing import Any

from sparksplit.training.node import main, worker
from sparksplit.training.node.looks import Looks, Seen


class Over(Exception):
    """All blocks have been measured."""


class Blocks(Looks):
    """The looks of a run that writes checkpoints in two of four blocks; rank 0's clock cuts the blocks, at looks.

    The first block is for warming up; then they come as with, without, without, with.
    """

    found: dict[str, Any]
    every: float
    """Seconds between checkpoints in a block that has some."""
    block: float
    """Seconds of a block."""
    blocks: int

    def __init__(self, collective: Any, saver: Any, seconds: Any, ending: Any, *rest: Any, **more: Any) -> None:
        super().__init__(collective, saver, 1.0, lambda: len(self.found["blocks"]) > self.blocks, *rest, **more)
        self._rank = collective.rank
        self._begun: tuple[float, int] | None = None
        self._written = 0
        self._longest = 0.0

    def look(self, step: int, ends_round: bool = False) -> Seen:
        now = time.monotonic()
        if self._rank == 0:
            self._longest = max(self._longest, self._saver.seconds)
            if self._begun is None:
                self._begun = now, step
            elif now - self._begun[0] >= self.block and not self._saver.seconds:
                begun, first = self._begun
                block = {"steps": step - first, "seconds": now - begun, "checkpoints": self._written}
                self.found["blocks"].append(block | {"longest_write": round(self._longest, 3)})
                self._begun, self._written, self._longest = (now, step), 0, 0.0
        seen = super().look(step, ends_round)
        if seen.ending:
            raise Over
        return seen

    def saved(self, ends_round: bool) -> None:
        super().saved(ends_round)
        self._written += 1

    def _due(self, now: float, ends_round: bool) -> bool:
        if self._begun is None or len(self.found["blocks"]) % 4 > 1 or self._saver.seconds:
            return False
        # None whose writing would reach into the next block.
        due = self._begun[0] + (self._written + 0.5) * self.every
        return now >= due and due < self._begun[0] + self.block


def work(member: Any) -> dict[str, Any]:
    """The blocks, as rank 0 has measured them. payload: every, block, blocks, and train's."""
    found: dict[str, Any] = {"blocks": []}
    Blocks.found, Blocks.every, Blocks.block, Blocks.blocks = (
        found,
        *(member.payload[name] for name in ("every", "block", "blocks")),
    )
    vars(worker)["Looks"] = Blocks
    member.payload = member.payload["train"]
    try:
        main.work(member)
    except Over:
        return found
    raise RuntimeError("the rows ended before the last block did")
