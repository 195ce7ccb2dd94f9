"""What Keras and TensorFlow write into a local folder, and what they say where it cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from hdfs_io.errors import errno_of, file_error, using


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Turn the errors of a disk (full, say) in a block that writes into `folder` into `file_error`'s."""
    problem = "cannot be written"
    try:
        with using(folder, problem):
            yield
    except tf.errors.OpError as error:
        if errno_of(error) is None:
            raise
        raise file_error(folder, problem, error) from None
