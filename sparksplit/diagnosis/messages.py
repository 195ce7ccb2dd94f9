"""The message from the driver to the nodes of a diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparksplit.diagnosis.measured import Measured
from sparksplit.training.messages import Payload


@dataclass(frozen=True)
class Effort:
    """How long nodes measure.

    block: seconds of one measurement of a variant. reading: `block` if rows are really read, in whole windows. rounds,
    most_rounds: the least and the most rounds of all variants. narrow: if half the width of all intervals is at most
    this share of the whole step, no further rounds follow. seconds: after this time, no rounds beyond `rounds` follow.
    After twice this time, fewer rounds are enough.

    readers: the numbers of readers to sweep. sweep_rounds, most_sweep_rounds: the least and the most rounds of the
    sweep. The sweep ends earlier if the knee is decided. sweep_seconds: after this time, the knee may stay undecided.
    tried_rounds: rounds of each setting. limit: after this many seconds, no further settings are tried that change the
    weights.
    """

    block: float = 0.3
    reading: float = 1.0
    rounds: int = 6
    most_rounds: int = 15
    narrow: float = 0.03
    seconds: float = 40.0
    readers: list[int] = field(default_factory=lambda: [0, 1, 2, 4, 6, 8])
    sweep_rounds: int = 3
    most_sweep_rounds: int = 9
    sweep_seconds: float = 20.0
    tried_rounds: int = 8
    limit: float = 120.0


@dataclass(frozen=True, kw_only=True)
class DiagnosisPayload(Payload):
    """The configuration to measure, as for a run that writes nothing, and the effort.

    known: the measurements of earlier nodes, with the settings that made one of them fail; None for the first nodes.
    """

    effort: Effort
    known: Measured | None = None
