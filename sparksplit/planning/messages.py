"""The message from the driver to the nodes of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from sparksplit.training.messages import Payload


@dataclass(frozen=True, kw_only=True)
class PlanPayload(Payload):
    """The configuration to measure, as for a run that writes nothing.

    sizes: the rows of a step to measure, the most useful first. rounds: measurements of each. block: seconds of one
    measurement. seconds: after this time, no further sizes are begun. branch_seconds: for branches with larger
    mini-batches; 0: none.
    """

    sizes: list[int]
    rounds: int = 5
    block: float = 0.15
    seconds: float = 20.0
    branch_seconds: float = 0.0
