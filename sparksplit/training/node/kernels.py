"""Errors of TensorFlow that come from a configuration key, as errors that name the key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sparksplit.training.train_config import TrainConfig

_LONGEST = 300
_REASONS = (
    (
        "deterministic",
        re.compile(r"determinis", re.IGNORECASE),
        "is true, but an operation has no deterministic kernel. With false, a repeated run may differ in its bits",
    ),
    (
        "jit_compile",
        re.compile(r"XLA|unsupported operations.*compil", re.IGNORECASE),
        "is true, but XLA cannot compile an operation of the model; set it to false",
    ),
)
"""(key, pattern in TensorFlow's text, what to say)"""


@contextmanager
def naming_keys(config: TrainConfig) -> Iterator[None]:
    """Raise ConfigError if TensorFlow refuses something in the block because one of these keys is true.

    The error quotes TensorFlow's text, which names the operation.
    """
    try:
        yield
    except Exception as error:
        refusal = _found(error)
        for key, pattern, what in _REASONS:
            if refusal is not None and getattr(config, key) and pattern.search(refusal):
                raise config.error(key, f"{what} (TensorFlow: {refusal[:_LONGEST]})") from error
        raise


def _found(error: BaseException | None) -> str | None:
    """Return the text of TensorFlow's refusal, which may be the cause of `error`; None if there is none."""
    import tensorflow as tf

    known = tf.errors
    refusals = known.FailedPreconditionError, known.InvalidArgumentError, known.NotFoundError, known.UnimplementedError
    while error is not None:
        if isinstance(error, refusals):
            return " ".join(error.message.split())
        error = error.__cause__
    return None
