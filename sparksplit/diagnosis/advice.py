"""Which settings are worth trying, by what was measured. Pure functions: all nodes find the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparksplit.base.records import Json

if TYPE_CHECKING:
    from sparksplit.diagnosis.measured import Measured
    from sparksplit.training.config import TrainConfig


@dataclass(frozen=True)
class Candidate:
    """Settings to be measured together. settings: keys with dots, and their values. why: in a few words, for people."""

    settings: dict[str, Json]
    why: str


def recommended(config: TrainConfig, measured: Measured) -> Candidate | None:
    """All that may help and leaves the trained weights the same, together; None if nothing of that kind may."""
    return None


def proposed(config: TrainConfig, measured: Measured) -> list[Candidate]:
    """What may help, but changes the trained weights: what it brings first; at most three."""
    return []
