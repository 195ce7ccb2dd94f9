"""Checks files in Hadoop's snappy format before Spark reads them, because Spark's readers accept any end of a file.

Of a truncated file, Spark gives the rows up to its end, without an error. Of a file in another snappy framing, Spark
gives no rows, without an error.
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
"""Largest size of a chunk in bytes. Hadoop's chunks have 256 KiB by default."""


def check(spark: SparkSession, files: Sequence[str]) -> None:
    """Raise InputError for the first file with the ending .snappy that is not whole. Executors read the files."""
    packed = [path for path in files if path.endswith(".snappy") and filesystem.is_known(path)]
    if packed:
        looked = spark.sparkContext.parallelize(packed, min(len(packed), 1000)).filter(lambda path: not is_whole(path))
        if damaged := looked.take(1):
            raise InputError(f"{damaged[0]}: is truncated, or is not in Hadoop's snappy format; unpack it")


def is_whole(path: str) -> bool:
    """Return whether a file consists of whole blocks to its end.

    A block is its unpacked size, then chunks with this many unpacked bytes together. A chunk is its packed size, then
    its packed bytes. Sizes are big-endian numbers of 4 bytes.
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
    """Return the bytes of a chunk after unpacking: its first number, 7 bits to a byte, the lowest bits first."""
    size = 0
    for place, byte in enumerate(chunk[:5]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            break
    return size
