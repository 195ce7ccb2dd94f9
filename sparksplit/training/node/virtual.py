"""Virtual nodes: what each of them sees of its cluster, and the process that plays all of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any

from sparksplit.cluster.member import Member, MemberWithin
from sparksplit.collectives.virtual import Stage, VirtualCollective
from sparksplit.rows.feed import RowSource
from sparksplit.rows.held import Held
from sparksplit.training.messages import NodeResult
from sparksplit.training.node.process import Process
from sparksplit.training.node.tally import Clock
from sparksplit.training.node.worker import Worker


class VirtualMember(MemberWithin):
    """A virtual node's `Member`: its own rank, and the process's connection to the driver.

    Steps and rows are reported as sums over the virtual nodes, because only one node works at a time. `reached` is the
    last step of a single virtual node.
    """

    def __init__(self, member: Member, rank: int, stage: Stage, counts: list[dict[str, int]]) -> None:
        super().__init__(member)
        self.rank, self.size = rank, stage.size
        self._stage, self._counts = stage, counts

    def state(self, **fields: Any) -> None:
        """Like Member.state. Only rank 0 reports the fields that are the same for all virtual nodes."""
        counts = self._counts[self.rank]
        counts.update((name, fields.pop(name)) for name in ("update", "rows") if name in fields)
        sums = {name: sum(other.get(name, 0) for other in self._counts) for name in counts}
        if "update" in counts:
            sums["reached"] = max(other.get("update", 0) for other in self._counts)
        if "steps" in fields:
            sums["steps"] = fields.pop("steps") * self.size
        self._member.state(**sums, **(fields if self.rank == 0 else {}))

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Like Member.phase, for rank 0. The other virtual nodes do the same between rank 0's exchanges."""
        return self._member.phase(name) if self.rank == 0 else nullcontext()

    def gather(self, name: str, value: Any, *, beside: bool = False) -> list[Any]:
        """Like Member.gather, in this node's turn."""
        return self._stage.exchange(self.rank, lambda values: [*(values or []), value])


def play(process: Process, clock: Clock) -> NodeResult:
    """Train the process's run on virtual nodes. Return rank 0's result, for the driver. clock: the process's clock."""
    stage = Stage(process.nodes)
    counts: list[dict[str, int]] = [{} for _ in range(process.nodes)]
    workers: list[Worker] = []
    with process.member.phase("start"):
        process.build()
        for rank in range(stage.size):
            member = VirtualMember(process.member, rank, stage, counts)
            like = workers[0].step if workers else None
            workers.append(Worker(process, member, VirtualCollective(rank, stage), like))
        stage.set(workers[0].step.variables())
        with clock.spent_on("handoff"):
            rows = process.await_rows()
        rows = _held(process, rows)
        # Read once for all virtual nodes.
        apart = {name: _held(process, process.data.split(name)) for name in process.held_out}

    clocks = [deepcopy(clock) for _ in workers]

    def node(rank: int) -> NodeResult:
        workers[rank].begin()
        return workers[rank].train(rows, apart, clocks[rank])

    return stage.play(node)[0]


def _held(process: Process, source: RowSource) -> RowSource:
    if source.at_hand() is not None:
        return source
    return Held(source, process.member.local_dir, process.config.cache_mb << 20)
