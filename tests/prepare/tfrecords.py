"""TFRecord files as TensorFlow writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf


def example(**features: Sequence[Any]) -> bytes:
    """A serialised tf.train.Example: floats, whole numbers or bytes by name."""
    return bytes(tf.train.Example(features=tf.train.Features(feature=dict(_features(features)))).SerializeToString())


def _features(features: dict[str, Sequence[Any]]) -> Iterable[tuple[str, Any]]:
    for name, values in features.items():
        kind = type(values[0]) if len(values) else None
        if kind is bytes:
            yield name, tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif kind is int:
            yield name, tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        else:
            yield name, tf.train.Feature(float_list=tf.train.FloatList(value=values))


def write(path: Path, records: Iterable[bytes], compression: str = "") -> Path:
    """Write `records`. compression: GZIP or none."""
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for record in records:
            writer.write(record)
    return path
