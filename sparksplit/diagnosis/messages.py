"""What a diagnosis's nodes are given."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparksplit.training.messages import Payload


@dataclass(frozen=True)
class Effort:
    """How long nodes measure.

    block: seconds that one variant is measured at a time; reading: the same where rows are really read, in whole
    windows. rounds: at least, of all variants; most_rounds: at most. narrow: half the width of intervals, as a share of
    the whole step, at which there are no more; seconds: after which there are no more than `rounds`, nor these once it
    has been spent twice. sweep_rounds: of the readers in `readers`. limit: seconds after which no more settings are
    tried.
    """

    block: float = 0.3
    reading: float = 1.0
    rounds: int = 8
    most_rounds: int = 15
    narrow: float = 0.03
    seconds: float = 40.0
    sweep_rounds: int = 5
    readers: list[int] = field(default_factory=lambda: [0, 1, 2, 4, 6, 8])
    limit: float = 200.0


@dataclass(frozen=True, kw_only=True)
class DiagnosisPayload(Payload):
    """The configuration to be measured, as for a run that leaves nothing, and how long."""

    effort: Effort
