"""One contender of benchmarks/overhead.py that needs no cluster, in a process of its own.

    python benchmarks/peers.py loop|fit FOLDER --model mlp|cnn --batch B --seconds S

Trains on FOLDER/x.npy (uint8 [rows, 28, 28]) and FOLDER/y.npy (int64 [rows]), which it first turns into float32 in
memory, scaled to 0..1. Warms up, prints "ready", waits for a line on stdin, trains for about S seconds, and prints a
JSON line {"rows_per_second", "rows", "seconds"}. It uses the cores that its parent leaves it (sched_setaffinity).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = tuple("0123456789")
LEARNING_RATE = 0.1
WARM_UP_STEPS = 50
STEPS_BETWEEN_LOOKS = 16
"""How often the loop looks at the clock."""

Measure = Callable[[float], tuple[int, float]]
"""Seconds to train for, to (rows trained, seconds taken)."""


def main() -> None:
    """Warm up, wait for the starting signal, measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("loop", "fit"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=("cnn", "mlp"), required=True)
    parser.add_argument("--batch", type=int, required=True, help="rows of a mini-batch")
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    x = np.load(arguments.folder / "x.npy").astype(np.float32) / np.float32(255)
    y = np.load(arguments.folder / "y.npy")
    measure = {"loop": _loop, "fit": _fit}[arguments.kind](x, y, arguments.model, arguments.batch)
    print("ready", flush=True)
    sys.stdin.readline()
    rows, seconds = measure(arguments.seconds)
    print(json.dumps({"rows_per_second": rows / seconds, "rows": rows, "seconds": seconds}), flush=True)


def _loop(x: Any, y: Any, name: str, batch: int) -> Measure:
    """A bare loop: one compiled step a call, on one thread, with the node's determinism.

    The data is one tensor that the step slices at the index that it is given, and the step is called as a concrete
    function: of the plain ways to write it the fastest (MLP, rows/s on one core: 410,000; called as a tf.function
    330,000; with NumPy slices 350,000 and 250,000).
    """
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model, optimizer = _model(name, x), keras.optimizers.SGD(LEARNING_RATE)
    optimizer.build(model.trainable_variables)
    weights = [variable.value for variable in model.trainable_variables]
    images, labels = tf.constant(x), tf.constant(y)

    def step(start: Any) -> Any:
        inputs = tf.ensure_shape(images[start : start + batch], (batch, *x.shape[1:]))
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            targets = tf.ensure_shape(labels[start : start + batch], (batch,))
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(targets, outputs))
        optimizer.apply(tape.gradient(loss, weights), model.trainable_variables)
        return loss

    call = tf.function(step).get_concrete_function(tf.TensorSpec((), tf.int32))
    starts = [tf.constant(start) for start in range(0, len(x) - batch + 1, batch)]

    def measure(seconds: float) -> tuple[int, float]:
        done, begin, now = 0, time.perf_counter(), 0.0
        while now < seconds:
            for _ in range(STEPS_BETWEEN_LOOKS):
                loss = call(starts[done % len(starts)])
                done += 1
            loss.numpy()
            now = time.perf_counter() - begin
        return done * batch, now

    for number in range(WARM_UP_STEPS):
        call(starts[number % len(starts)])
    return measure


def _fit(x: Any, y: Any, name: str, batch: int) -> Measure:
    """Keras `fit` on arrays in memory, with Keras's and TensorFlow's own defaults."""
    import keras

    keras.utils.set_random_seed(1)
    model = _model(name, x)
    model.compile(keras.optimizers.SGD(LEARNING_RATE), "sparse_categorical_crossentropy")
    clock = _clock(keras)
    # The first calls trace and allocate; the second fit says how many rows the asked seconds need.
    model.fit(x[: WARM_UP_STEPS * batch], y[: WARM_UP_STEPS * batch], batch, verbose=0)
    model.fit(x[: 4 * WARM_UP_STEPS * batch], y[: 4 * WARM_UP_STEPS * batch], batch, verbose=0, callbacks=[clock])
    speed = min(len(x), 4 * WARM_UP_STEPS * batch) / clock.seconds

    def measure(seconds: float) -> tuple[int, float]:
        wanted = max(batch, int(speed * seconds))
        epochs = -(-wanted // len(x))
        rows = wanted // epochs // batch * batch
        clock.seconds = 0.0
        model.fit(x[:rows], y[:rows], batch, epochs=epochs, verbose=0, callbacks=[clock])
        return rows * epochs, clock.seconds

    return measure


def _clock(keras: Any) -> Any:
    """A callback whose `seconds` is the time inside epochs: without what `fit` does before and after them."""

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]
        seconds = 0.0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begin = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seconds += time.perf_counter() - self.begin

    return Clock()


def _model(name: str, x: Any) -> Any:
    """The product's own model, so that every contender has the same layers."""

    from sparksplit.model.builders import load_builder
    from sparksplit.model.description import DataDescription

    description = DataDescription({"x": x.shape[1:]}, CLASSES, (), len(x))
    return load_builder(name, None)(description)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
