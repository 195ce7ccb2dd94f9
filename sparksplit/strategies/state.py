"""The model's state besides its weights, and what syncs do with it."""

from __future__ import annotations

from typing import Any


def counters(model: Any) -> list[Any]:
    """The model's non-trainable integers: syncs take rank 0's. Random states stay each node's own."""
    return [
        variable
        for variable in model.non_trainable_variables
        if "int" in variable.dtype and variable.name != "seed_generator_state"
    ]


def averaged_state(model: Any) -> list[Any]:
    """The model's non-trainable floats, such as BatchNorm statistics: syncs average them by rows."""
    return [variable for variable in model.non_trainable_variables if variable.dtype.startswith("float")]
