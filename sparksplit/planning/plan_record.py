"""plan.json: the predicted time, cost, bytes and memory of each strategy and number of nodes, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sparksplit.base.records import JsonObject, Record
from sparksplit.planning.measured import Measured
from sparksplit.planning.predicted import Interval

PLAN = "plan.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class PlanRow(Record):
    """The prediction of a run."""

    name: str
    """The strategy, as reports call it. The run on one node is `single`."""
    nodes: int
    """The number of nodes, each with a host of its own."""
    seconds: Interval
    """Seconds of training, with waiting for rows. Start, validation and export are not included."""
    speed_up: float
    """How many times as fast as one node."""
    node_hours: float
    """The seconds of all nodes together, in hours."""
    sent_bytes: float
    """Bytes that each node sends."""
    memory_bytes: float
    """Memory of a node's process."""
    passes: int
    """Passes over all training rows. Strategies that share epochs may need more than the configured epochs."""
    extrapolated: bool
    """Whether the run has more nodes than were measured, another `batch_size`, or steps with more or fewer rows than
    were measured."""


@dataclass(frozen=True, kw_only=True)
class Worth:
    """The largest number of nodes that pays for a strategy: each further node saves less than 5 % of the time."""

    name: str
    nodes: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What to set. It is about strategies that learn the same on every number of nodes; others need a comparison."""

    decision: Literal["use", "stay"]
    """use: train on several nodes. stay: on one node."""
    choice: PlanRow
    """The recommended row."""
    others: list[PlanRow]
    """For each strategy that learns differently: its row on the largest number of nodes that pays, if that row is
    faster than the choice. The fastest comes first."""
    settings: JsonObject
    """The keys of `train` that make the choice."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """How much a model learns with a larger mini-batch, and a higher learning rate, from the same rows."""

    batch_size: int
    rate_factor: float
    """The learning rate, as a multiple of the configured one."""
    share: Interval | None
    """The progress, as a share of the progress with the configured mini-batch. None if the model learned too little to
    tell, or if a loss was not finite."""
    learns: Literal["as much", "less", "undecided"]
    """as much: the whole 95 % interval is at least 0.9. less: the whole interval is below 0.9, or a loss was not
    finite, or the loss rises."""


@dataclass(frozen=True, kw_only=True)
class Useful:
    """The useful mini-batch, by two methods."""

    batch_size: int | None
    """The largest mini-batch that learns as much, if no smaller one learns less. At least the configured one. None if
    it is not sure that the loss falls with the configured one."""
    branches: list[Branch]
    """By ascending mini-batch, without the configured one."""
    noise_scale: Interval | None
    """The gradient noise scale, in rows, with its 95 % interval. None if the gradients are too noisy to tell."""


@dataclass(frozen=True, kw_only=True)
class Plan(Record):
    """The whole of plan.json."""

    WHAT: ClassVar[str] = "what plan writes"
    REMEDY: ClassVar[str] = "plan again"

    format: int
    version: str
    made: str
    """When the plan was made, ISO 8601 in UTC."""
    seconds: float
    """How long planning took."""
    config: JsonObject
    """The configuration, with every key."""
    link: str
    """The network between the nodes, such as 1Gbit."""
    link_source: Literal["given", "measured", "assumed"]
    """Whether `link` was given, measured by sums between two hosts, or assumed."""
    answer: Answer
    worth: list[Worth]
    """For each strategy, how many nodes pay."""
    rows: list[PlanRow]
    useful: Useful | None
    """The useful mini-batch. None if `branch_seconds` is 0, or if branches were not possible (measured.branched)."""
    measured: Measured
