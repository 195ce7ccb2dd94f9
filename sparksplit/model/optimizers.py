"""Functions for Keras optimizers, with or without loss scaling around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def averages(optimizer: Any, trainable: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return (variable, its moving average) of the model's variables `trainable`. Empty without Keras's `use_ema`.

    The optimizer must be built for `trainable`. At the end of training, the averages become the weights.
    """
    own = inner(optimizer)
    if not getattr(own, "use_ema", False):
        return []
    kept = zip(trainable, own._model_variables_moving_average, strict=True)
    return [(variable, average) for variable, average in kept if average is not None]


def built(optimizer: Any, trainable: Sequence[Any]) -> None:
    """Build the optimizer for the model's variables `trainable`, and start the averages with the variables' values.

    Keras starts averages with 0, and overwrites the 0 in the first update. With a scaled loss, this update may be
    skipped.
    """
    optimizer.build(trainable)
    for variable, average in averages(optimizer, trainable):
        average.assign(variable)


def calls(optimizer: Any) -> int:
    """Return the number of updates that the optimizer has made. Updates that overflowed are not among them."""
    return int(inner(optimizer).iterations.numpy())


def inner(optimizer: Any) -> Any:
    """Return the optimizer inside a LossScaleOptimizer. Return any other optimizer unchanged."""
    return getattr(optimizer, "inner_optimizer", optimizer)
