"""The types of the cost model in results.json."""

from __future__ import annotations

from dataclasses import dataclass

from sparksplit.comparison.comparison_record import SweepPoint


@dataclass(frozen=True)
class Check:
    """The cost model's prediction of training beside the measurement."""

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The number of nodes."""
    measured: float
    """The measured seconds of training, with waiting for rows."""
    predicted: float
    """The predicted seconds."""
    error: float
    """The prediction's error, as a fraction of the measurement."""
    left_out: bool
    """Whether the model was fitted without this number of nodes. If not, the model was fitted to these runs too."""
    reading: float
    """The part of `measured` that was waiting for rows, in seconds."""
    reading_predicted: float
    """The part of `predicted` that is waiting for rows, in seconds."""


@dataclass(frozen=True)
class HandOffCheck:
    """The cost model's prediction of Spark's hand-off to a cluster, beside the measurement."""

    nodes: int
    """The number of the cluster's nodes."""
    rows: int
    """The rows that all nodes together were sent."""
    first: bool
    """Whether the hand-off was the first of its Spark application."""
    measured: float
    """The measured seconds."""
    predicted: float | None
    """The predicted seconds; None where the hand-offs are too few for a prediction."""
    error: float | None
    """The prediction's error, as a fraction of the measurement; None without a prediction."""
    left_out: bool
    """Whether the model was fitted without this number of nodes. If not, the model was fitted to this hand-off too."""


@dataclass(frozen=True)
class Prediction:
    """The time to the target at a network's bandwidth."""

    name: str
    """The strategy, as reports call it."""
    nodes: int
    """The number of nodes."""
    passes: float | None
    """The median number of passes to the target; None if a run missed the target."""
    reached: int
    """The number of runs that reached the target."""
    of: int
    """The number of all runs."""
    gbit_per_s: float | None
    """The network's bandwidth in Gbit/s; None for the network at hand, on which the time was measured."""
    seconds: float | None
    """Seconds to the target; None if a run missed the target."""
    measured: bool
    """Whether the seconds were measured; if not, they are predicted."""


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """The cost model: the terms of the training time, and the predictions."""

    seconds_to_begin: float
    """Seconds of waiting for the first rows."""
    seconds_per_row_read: float
    """Seconds of waiting for each row."""
    seconds_per_row: float
    """Seconds of computing for each row."""
    seconds_per_step: float
    """Seconds of computing for each step."""
    seconds_per_exchange_in_graph: float
    """Seconds of computing for each exchange within a call of the graph."""
    seconds_per_exchange_between: float
    """Seconds of computing for each exchange between two calls of the graph."""
    contention: float
    """The share by which each other node that computes on the same host slows a node down."""
    sweep: list[SweepPoint]
    """The measured sums over the nodes, by bytes."""
    latency_seconds: float
    """Seconds for each message of a sum."""
    seconds_per_byte: float
    """Seconds for each byte of a sum."""
    seconds_per_meeting: float
    """Seconds that nodes wait at each exchange until all nodes have arrived."""
    uneven: float
    """Waiting for slower nodes, as a share of a node's computing."""
    seconds_to_begin_handoff: float | None = None
    """Seconds to begin a hand-off, except the first of a Spark application.

    The fields of the hand-off are None where nodes read the rows themselves, or the hand-offs are too few. Training
    does not include the hand-off.
    """
    seconds_per_row_handed: float | None = None
    """Seconds of the hand-off for each row that Spark sends to a node."""
    seconds_to_begin_first_handoff: float | None = None
    """Seconds to begin the first hand-off of a Spark application, whose executors must load their libraries first."""
    text: str
    """The model and its errors, in words."""
    checks: list[Check]
    """The predictions of training beside the measurements."""
    handoffs: list[HandOffCheck]
    """The predictions of hand-offs beside the measurements."""
    predictions: list[Prediction]
    """The time to the target at each bandwidth."""
