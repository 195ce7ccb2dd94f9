"""The configuration of a sync."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from sparksplit.base.config import Config


class SyncConfig(Config):
    """When nodes with `strategy: local` agree, and how."""

    every: pydantic.PositiveInt = 32
    """A node's own steps between two syncs (H); the end of an epoch is one too."""
    outer: Literal["none", "momentum", "nesterov"] = "none"
    """What applies the averaged change of the weights: none (local SGD), momentum (SlowMo), nesterov (DiLoCo)."""
    outer_learning_rate: pydantic.PositiveFloat | None = None
    """The outer optimiser's; null: 1 for momentum, 0.7 for nesterov."""
    outer_momentum: Annotated[float, pydantic.Field(ge=0, lt=1)] | None = None
    """The outer optimiser's; null: 0.7 for momentum, 0.9 for nesterov."""
    after: pydantic.NonNegativeInt = 0
    """Updates made with strategy: batch before the local ones begin (post-local SGD), up to the end of the epoch that
    the last of them is in."""

    @pydantic.model_validator(mode="after")
    def _outer_is_used(self) -> SyncConfig:
        for key in ("outer_learning_rate", "outer_momentum"):
            if self.outer == "none" and getattr(self, key) is not None:
                raise ValueError(f"{key} needs outer: momentum or nesterov (is none)")
        return self
