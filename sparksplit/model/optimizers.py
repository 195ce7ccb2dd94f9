"""What is asked of a Keras optimizer beside its updates, whether or not the loss is scaled around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def averages(optimizer: Any, trainable: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(variable, its moving average) of the model's variables `trainable`, which the optimizer was built for; none
    unless it keeps them (Keras's `use_ema`). They are what training ends with."""
    inner = _inner(optimizer)
    if not getattr(inner, "use_ema", False):
        return []
    kept = zip(trainable, inner._model_variables_moving_average, strict=True)
    return [(variable, average) for variable, average in kept if average is not None]


def built(optimizer: Any, trainable: Sequence[Any]) -> None:
    """Build it for the model's variables `trainable`. Averages begin as these are: Keras begins with 0, and overwrites
    that in the first update, which may be left out where the loss is scaled."""
    optimizer.build(trainable)
    for variable, average in averages(optimizer, trainable):
        average.assign(variable)


def calls(optimizer: Any) -> int:
    """How many mini-batches it has been given, each of which may be an update (its `iterations`) or a part of one."""
    return int(_inner(optimizer)._iterations.numpy())


def _inner(optimizer: Any) -> Any:
    """What a LossScaleOptimizer is around."""
    return getattr(optimizer, "inner_optimizer", optimizer)
