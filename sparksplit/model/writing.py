"""Errors of Keras and TensorFlow when they cannot write into a local folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from hdfs_io.errors import errno_of, file_error, using


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Turn disk errors of the block, such as a full disk, into errors of `file_error`.

    The block writes into `folder`.
    """
    problem = "cannot be written"
    try:
        with using(folder, problem):
            yield
    except tf.errors.OpError as error:
        if errno_of(error) is None:
            raise
        raise file_error(folder, problem, error) from None
