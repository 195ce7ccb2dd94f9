"""Files of Hadoop's snappy, of which Spark's readers take any end for the right one: they are looked through first.

Of a truncated file they give the rows up to there, of one in another framing of snappy none, and no error.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST = 256 * 2**20
"""Bytes of a chunk at most; Hadoop's have 256 KiB unless it is told otherwise."""


def check(spark: SparkSession, files: Sequence[str]) -> None:
    """Raise InputError for the first of these files that is called .snappy and is not whole; executors read them."""
    packed = [path for path in files if path.endswith(".snappy") and filesystem.is_known(path)]
    if packed:
        looked = spark.sparkContext.parallelize(packed, min(len(packed), 1000)).filter(lambda path: not is_whole(path))
        if damaged := looked.take(1):
            raise InputError(f"{damaged[0]}: is truncated, or is not in Hadoop's snappy format; unpack it")


def is_whole(path: str) -> bool:
    """Whether a file is blocks to its end, each the number of its bytes and chunks with so many bytes together.

    A chunk is the number of its compressed bytes and these; numbers are big-endian, of 4 bytes.
    """
    with filesystem.open_input(path) as file:
        stream = io.BufferedReader(file, buffer_size=2**20)
        while head := stream.read(4):
            left = int.from_bytes(head, "big")
            while left > 0:
                length = int.from_bytes(stream.read(4), "big")
                chunk = stream.read(length) if length <= _LONGEST else b""
                if not chunk or len(chunk) < length:
                    return False
                left -= _unpacked(chunk)
            if left < 0 or len(head) < 4:
                return False
    return True


def _unpacked(chunk: bytes) -> int:
    """How many bytes a chunk has when it is unpacked: its first number, 7 bits to a byte, the lowest first."""
    size = 0
    for place, byte in enumerate(chunk[:5]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            break
    return size
