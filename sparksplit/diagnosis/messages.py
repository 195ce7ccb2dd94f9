"""What a diagnosis's nodes are given."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparksplit.diagnosis.measured import Measured
from sparksplit.training.messages import Payload


@dataclass(frozen=True)
class Effort:
    """How long nodes measure.

    block: seconds that one variant is measured at a time; reading: the same where rows are really read, in whole
    windows. rounds: at least, of all variants; most_rounds: at most. narrow: half the width of intervals, as a share of
    the whole step, at which there are no more; seconds: after which there are no more than `rounds`, nor these once it
    has been spent twice. readers: to be swept; sweep_rounds: of that, at least; most_sweep_rounds: at most, where the
    knee is not decided before; sweep_seconds: after which it may stay undecided. tried_rounds: of each setting. limit:
    seconds after which nothing more is tried that changes the weights.
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
    """The configuration to be measured, as for a run that leaves nothing, and how long. known: what other nodes have
    measured before one of them failed, with what that was; None where these are the first."""

    effort: Effort
    known: Measured | None = None
