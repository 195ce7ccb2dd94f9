"""The message from the driver to the nodes of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from sparksplit.training.messages import Payload

SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class PlanPayload(Payload):
    """The configuration to measure, as for a run that writes nothing.

    sizes: the rows of a step to measure, the most useful first. rounds: measurements of each. block: seconds of one
    measurement. seconds: of all measurements, if two sizes and two rounds take no longer. branch_seconds: for branches
    with larger mini-batches, after that; 0: none.
    """

    sizes: list[int]
    rounds: int = 5
    block: float = 0.15
    seconds: float = SECONDS
    branch_seconds: float = 0.0
