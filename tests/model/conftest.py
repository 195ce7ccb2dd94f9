"""What tests of models share."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest


@pytest.fixture
def float64() -> Iterator[None]:
    """Keras's floats have 64 bits. The policy of layers is Keras's own global too, made from these at its first use."""
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
