"""Learning rates for the strategies that change them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class WarmedUp(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """`factor` times a learning rate, reached in equal steps from the rate itself over the first `updates` updates.

    The linear scaling rule with gradual warm-up of Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in
    1 Hour" (2017), sections 2.1 and 2.2; Horovod's recipe for Keras. rate: a number, or a schedule of updates.
    updates: a variable, set once it is known how many updates an epoch has.
    """

    def __init__(self, factor: int, rate: Any = None) -> None:
        super().__init__()
        self._factor, self.rate = factor, rate
        self.updates = tf.Variable(1, dtype=tf.int64, trainable=False)

    def __call__(self, step: Any) -> Any:
        dtype = keras.config.floatx()
        rate = tf.cast(self.rate(step), dtype) if callable(self.rate) else tf.constant(self.rate, dtype)
        part = tf.minimum(tf.cast(step, dtype) / tf.cast(self.updates, dtype), tf.ones((), dtype))
        return rate * (1 + (self._factor - 1) * part)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {"factor": self._factor, "rate": self.rate}
