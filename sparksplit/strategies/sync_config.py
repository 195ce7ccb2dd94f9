"""The configuration of a sync."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from sparksplit.base.config import Config


class SyncConfig(Config):
    """When and how nodes with `strategy: local` average their weights."""

    every: pydantic.PositiveInt = 32
    """Steps of a node between two syncs with `strategy: local` (H). The nodes also sync at the end of each epoch."""
    outer: Literal["none", "momentum", "nesterov"] = "none"
    """Outer optimiser: how `strategy: local` applies the averaged change of the weights. none: local SGD. momentum:
    SlowMo. nesterov: DiLoCo."""
    outer_learning_rate: pydantic.PositiveFloat | None = None
    """Learning rate of the outer optimiser. null: 1 for momentum, 0.7 for nesterov."""
    outer_momentum: Annotated[float, pydantic.Field(ge=0, lt=1)] | None = None
    """Momentum of the outer optimiser. null: 0.7 for momentum, 0.9 for nesterov."""
    after: pydantic.NonNegativeInt = 0
    """Post-local SGD: begin as `strategy: batch` for at least this many updates. The run changes to `strategy: local`
    at the end of the epoch that contains the last of them. 0: local from the start."""

    @pydantic.model_validator(mode="after")
    def _outer_is_used(self) -> SyncConfig:
        for key in ("outer_learning_rate", "outer_momentum"):
            if self.outer == "none" and getattr(self, key) is not None:
                raise ValueError(f"{key} needs outer: momentum or nesterov (is none)")
        return self
