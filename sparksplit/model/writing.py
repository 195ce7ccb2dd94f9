"""Errors of Keras and TensorFlow when they cannot write into a local folder of the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from hdfs_io.errors import errno_of, own_error, using_own


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Turn disk errors of the block, such as a full disk, into Passing.

    The block writes into `folder`, which sparksplit made itself.
    """
    try:
        with using_own(folder):
            yield
    except tf.errors.OpError as error:
        # TensorFlow gives neither number nor known words for a folder that is gone.
        is_gone = isinstance(error, tf.errors.NotFoundError) and folder in str(error)
        if errno_of(error) is None and not is_gone:
            raise
        raise own_error(folder, "cannot be written", error) from None
