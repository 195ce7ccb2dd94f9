"""The model's state beside its weights, and what syncs do with it."""

from __future__ import annotations

from typing import Any


def counters(model: Any) -> list[Any]:
    """The model's non-trainable integers: those of rank 0 at syncs. Random states are each node's own."""
    return [
        variable
        for variable in model.non_trainable_variables
        if "int" in variable.dtype and variable.name != "seed_generator_state"
    ]


def averaged_state(model: Any) -> list[Any]:
    """The model's non-trainable floats, such as BatchNorm statistics: averaged by rows at syncs."""
    return [variable for variable in model.non_trainable_variables if variable.dtype.startswith("float")]
