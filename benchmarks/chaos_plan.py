"""The pure part of benchmarks/chaos.py: which faults a run meets with, what each of them cost, and the summary."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STRATEGIES = ("batch", "epoch", "epoch-delayed", "local", "single")
MODES = ("tensorflow", "spark")
NODES = 2
"""Of every strategy but `single`."""


# What is to happen.


@dataclass(frozen=True)
class Fault:
    """target: node, worker (the Python worker that holds a node), executor, feeder (an executor without a node),
    driver, jvm (the driver's) or datanode. action: kill or stop. rank: of the node, or the DataNode's number.

    at: start (so many seconds after the command was begun), feeding (so many after feeding has), update (once this
    share of the updates is done), validation or checkpoint (the next one after that share), export (so many seconds
    after it has begun), end (when run.json appears), restart (so many seconds after the fault before).
    """

    target: str
    action: str
    rank: int
    at: str
    value: float

    def __str__(self) -> str:
        value = f"{self.value:.0%}" if self.at in SHARES else f"+{self.value:.2f} s" if self.at != "end" else ""
        return f"{self.action} {self.target} {self.rank} at {self.at} {value}".rstrip()

    @property
    def kind(self) -> str:
        """What it is counted as: kill, stop, datanode, or driver, which somebody has to call again."""
        return "driver" if self.target in DRIVERS else "datanode" if self.target == "datanode" else self.action


DRIVERS = ("driver", "jvm")
SHARES = ("update", "validation", "checkpoint")
_ORDER = ("start", "feeding", *SHARES, "export", "end")


@dataclass(frozen=True)
class Plan:
    """One run. number: from 0."""

    number: int
    strategy: str
    mode: str
    faults: tuple[Fault, ...]

    @property
    def nodes(self) -> int:
        return 1 if self.strategy == "single" else NODES


def plan(seed: int, number: int, datanodes: int = 0) -> Plan:
    """Run `number` of `seed`, whatever the other runs are. datanodes: how many there are."""
    strategy, mode = STRATEGIES[number % len(STRATEGIES)], MODES[number % len(MODES)]
    drawn = random.Random(f"{seed} {number} {datanodes}")
    nodes = 1 if strategy == "single" else NODES
    faults = [_fault(drawn, nodes, mode, datanodes)]
    if drawn.random() < 0.6:
        faults.append(_fault(drawn, nodes, mode, datanodes))
        at = "restart" if drawn.random() < 0.4 else None
        if at is not None:
            faults[1] = _fault(drawn, nodes, mode, datanodes, at)
        while [fault.target for fault in faults] == ["datanode"] * 2:  # of two replicas of a block, one must be left
            faults[1] = _fault(drawn, nodes, mode, datanodes, at)
        if at is None:
            faults.sort(key=_when)
    return Plan(number, strategy, mode, tuple(faults))


def _when(fault: Fault) -> tuple[float, float]:
    return (2 if fault.at in SHARES else _ORDER.index(fault.at)), fault.value


def _fault(drawn: random.Random, nodes: int, mode: str, datanodes: int, at: str | None = None) -> Fault:
    moments = {"start": 1, "feeding": 2, "update": 3, "validation": 1, "checkpoint": 3, "export": 1, "end": 1}
    if mode != "spark":
        del moments["feeding"]
    at = at or drawn.choices(list(moments), list(moments.values()))[0]
    targets = {"node": 4, "worker": 2, "executor": 3, "feeder": 2, "driver": 2, "jvm": 1, "datanode": 3}
    if mode != "spark" or at not in ("start", "feeding", "restart"):
        del targets["feeder"]  # it has nothing to do
    if not datanodes:
        del targets["datanode"]
    if at == "end":
        targets = {"driver": 2, "executor": 1}  # there are no nodes any more
    target = drawn.choices(list(targets), list(targets.values()))[0]
    action = "kill" if target in (*DRIVERS, "datanode") or drawn.random() < 0.6 else "stop"
    rank = drawn.randrange(datanodes if target == "datanode" else nodes)
    if at in SHARES:
        value = drawn.uniform(0.05, 0.9)
    else:
        value = drawn.uniform(0, {"start": 10, "feeding": 0.5, "export": 0.5, "restart": 8, "end": 0}[at])
    return Fault(target, action, 0 if target in (*DRIVERS, "feeder") else rank, at, round(value, 3))


# What has happened.


@dataclass(frozen=True)
class Event:
    """What a node noted: its process, and what it told its beat. time: time.time()."""

    time: float
    rank: int
    pid: int
    what: str
    value: str

    @property
    def progress(self) -> tuple[int, float] | None:
        """How far it was, in an order; None where this does not tell."""
        if self.what == "phase":
            return {"build": (0, 0.0), "export": (3, 0.0)}.get(self.value)
        return (1 if self.what == "fed" else 2), float(self.value)


def event(line: str, pid: int) -> Event:
    """A line of a node's file."""
    time, rank, what, value = line.split()
    return Event(float(time), int(rank), pid, what, value)


@dataclass(frozen=True)
class Timeline:
    """began, ended: the first command and the last one, in time.time(). faults: when each happened. nodes: how many."""

    began: float
    ended: float
    events: Sequence[Event]
    nodes: int
    faults: Sequence[tuple[float, Fault]] = ()

    @property
    def start(self) -> float:
        """Seconds until all nodes built their models for the first time."""
        return self.begun_after(self.began) - self.began

    def begun_after(self, moment: float) -> float:
        """When all nodes have begun after `moment`."""
        firsts = [self._first(rank, moment, (0, 0.0), set()) for rank in range(self.nodes)]
        return max(firsts)

    def lost(self, moment: float, like: Timeline) -> float:
        """Seconds from the fault at `moment` until every node was as far as before it. like: an undisturbed run.

        Before any node has begun: how much later than undisturbed they did. Where none had to come back: how much
        later than undisturbed the run ended.
        """
        before = [each for each in self.events if each.time <= moment]
        if len({each.rank for each in before}) < self.nodes:
            return max(0.0, self.begun_after(moment) - self.began - like.start)
        reached, far, any_came_back = [], [], False
        for rank in range(self.nodes):
            own = [each for each in before if each.rank == rank]
            pid = own[-1].pid
            far.append(max((each.progress or (0, 0.0)) for each in own if each.pid == pid))
            came_back = any(each.rank == rank and each.pid != pid and each.time > moment for each in self.events)
            any_came_back |= came_back
            reached.append(self._first(rank, moment, far[rank], {pid} if came_back else set()))
        if any_came_back and max(reached) < self.ended:
            return max(reached) - moment
        there = max(like._first(rank, like.began, far[rank], set()) for rank in range(self.nodes))
        return max(0.0, (self.ended - moment) - (like.ended - there))

    def _first(self, rank: int, moment: float, far: tuple[int, float], without: Iterable[int]) -> float:
        """When node `rank` told after `moment` that it was that far; the run's end if it never did."""
        times = (
            each.time
            for each in self.events
            if each.rank == rank
            and each.time > moment
            and each.pid not in without
            and (each.progress or (-1, 0)) >= far
        )
        return min(times, default=self.ended)

    def costs(self, like: Timeline) -> list[tuple[str, float]]:
        """(kind, seconds lost) of each fault; two of which the second came before the run was back are one, `together`,
        from the first one on."""
        if len(self.faults) == 2:
            (first, one), (second, _) = self.faults
            seconds = self.lost(first, like)
            if second - first < seconds and seconds > _NOTICEABLE:
                return [("together", seconds)]
            return [(one.kind, seconds), (self.faults[1][1].kind, self.lost(second, like))]
        return [(fault.kind, self.lost(moment, like)) for moment, fault in self.faults]


_NOTICEABLE = 1.0
"""Seconds that a run may take to note its next update anyway."""


@dataclass
class Outcome:
    """What came of a run. problem: why it counts as not finished; None if it has. difference: the largest of its
    weights from the undisturbed run's; None where there are none."""

    plan: Plan
    problem: str | None = None
    exact: bool = False
    difference: float | None = None
    costs: list[tuple[str, float]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        costs = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in self.costs) or "no fault"
        parts = [self.problem or "finished", f"ledger {'exact' if self.exact else 'NOT exact'}", f"lost {costs}"]
        parts.append(f"difference {self.difference}")
        return "; ".join(parts + ([f"LEFT {self.left}"] if self.left else []))


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The last line."""
    costs: dict[str, list[float]] = {}
    for kind, seconds in (cost for outcome in outcomes for cost in outcome.costs):
        costs.setdefault(kind, []).append(seconds)
    differences = [outcome.difference for outcome in outcomes if outcome.difference is not None]
    return {
        "runs": len(outcomes),
        "finished": sum(outcome.problem is None for outcome in outcomes),
        "exact_ledgers": sum(outcome.exact for outcome in outcomes),
        "largest_weight_difference": max(differences, default=None),
        "faults": {kind: len(seconds) for kind, seconds in sorted(costs.items())},
        "median_seconds_lost": _rounded({kind: statistics.median(seconds) for kind, seconds in costs.items()}),
        "largest_seconds_lost": _rounded({kind: max(seconds) for kind, seconds in costs.items()}),
        "left_behind": sorted({name for outcome in outcomes for name in outcome.left}),
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {kind: round(seconds, 1) for kind, seconds in sorted(values.items())}
