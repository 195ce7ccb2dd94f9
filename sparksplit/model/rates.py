"""Learning rates for strategies that change the learning rate."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from sparksplit.model.optimizers import inner


class WarmedUp(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """A learning rate that rises from `rate` to `factor` x `rate`, in equal steps over the first `updates` updates.

    The linear scaling rule with gradual warm-up of Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1
    Hour" (2017), sections 2.1 and 2.2; Horovod's recipe for Keras.

    rate: a number, a Keras variable, or a schedule over updates.
    updates: a variable, set once the number of updates per epoch is known.
    """

    def __init__(self, factor: int, rate: Any = None) -> None:
        super().__init__()
        self._factor, self.rate = factor, rate
        self.updates = tf.Variable(1, dtype=tf.int64, trainable=False)

    def __call__(self, step: Any) -> Any:
        dtype = keras.config.floatx()
        rate = tf.cast(self.rate(step), dtype) if callable(self.rate) else keras.ops.convert_to_tensor(self.rate, dtype)
        part = tf.minimum(tf.cast(step, dtype) / tf.cast(self.updates, dtype), tf.ones((), dtype))
        return rate * (1 + (self._factor - 1) * part)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"factor": self._factor, "rate": self.rate}


def settable(optimizer: Any, warmed_up: WarmedUp | None) -> Any | None:
    """Return the Keras variable that holds the learning rate; None if the learning rate is a schedule.

    warmed_up: the schedule of `optimizer`, if its strategy changes the learning rate. The variable is then the learning
    rate that the schedule multiplies. Call this before graphs are made.
    """
    if warmed_up is None:
        rate = inner(optimizer).learning_rate
        return rate if isinstance(rate, keras.Variable) else None
    if callable(warmed_up.rate):
        return None
    if not isinstance(warmed_up.rate, keras.Variable):
        warmed_up.rate = keras.Variable(warmed_up.rate, trainable=False, dtype=keras.config.floatx())
    return warmed_up.rate
