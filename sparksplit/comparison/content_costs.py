"""What results.json holds of the cost model, as types."""

from __future__ import annotations

from dataclasses import dataclass

from sparksplit.comparison.record import SweepPoint


@dataclass(frozen=True)
class Check:
    """A prediction beside the measurement, in seconds; error: as a fraction of the measurement. left_out: whether the
    model was fitted to other numbers of nodes only; if not, to these runs too. reading, reading_predicted: the part of
    both that is waiting for rows."""

    way: str
    nodes: int
    measured: float
    predicted: float
    error: float
    left_out: bool
    reading: float
    reading_predicted: float


@dataclass(frozen=True)
class HandOffCheck:
    """The same for Spark's hand-off to a cluster of so many nodes. rows: that all of them together were sent. first:
    whether it was the first of its application. predicted, error: None where no hand-off tells what it takes."""

    nodes: int
    rows: int
    first: bool
    measured: float
    predicted: float | None
    error: float | None
    left_out: bool


@dataclass(frozen=True)
class Prediction:
    """Seconds to the target at a network's rate; passes and seconds are None if not every run reached it. gbit_per_s:
    None for the network at hand, where it was measured."""

    way: str
    nodes: int
    passes: float | None
    reached: int
    of: int
    gbit_per_s: float | None
    seconds: float | None
    measured: bool


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Seconds by what they depend on, where they come from, and what they predict. seconds_to_begin,
    seconds_per_row_read: of waiting for rows; seconds_per_row, _per_step, _per_exchange_in_graph, _per_exchange_between
    (calls of the graph): of computing; contention: the share by which each other node that computes on a host makes one
    slower. latency_seconds (of a message), seconds_per_byte: of sums; seconds_per_meeting, uneven (a share of the
    computing): of waiting for all nodes to come to one. seconds_to_begin_first_handoff (of an application),
    seconds_to_begin_handoff (after that), seconds_per_row_handed: of Spark's hand-off, which is no part of training;
    None where nodes read the rows themselves, or the hand-offs do not tell it."""

    seconds_to_begin: float
    seconds_per_row_read: float
    seconds_per_row: float
    seconds_per_step: float
    seconds_per_exchange_in_graph: float
    seconds_per_exchange_between: float
    contention: float
    sweep: list[SweepPoint]
    latency_seconds: float
    seconds_per_byte: float
    seconds_per_meeting: float
    uneven: float
    seconds_to_begin_handoff: float | None = None
    seconds_per_row_handed: float | None = None
    seconds_to_begin_first_handoff: float | None = None
    text: str
    checks: list[Check]
    handoffs: list[HandOffCheck]
    predictions: list[Prediction]
