"""TFRecord files of tf.train.Example, read without TensorFlow.

Our own tasks read them: tensorflow-hadoop, the other way into Spark, reads no gzip, wants a jar from a repository, and
was slower where measured (docs/preprocess.md). Spark finds the files and gives them to tasks; a task opens those on
HDFS and local disks itself, a piece at a time. What only Spark's Hadoop configuration reaches comes whole, through its
reader of binary files.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from typing import Any

import google_crc32c

from hdfs_io.sources.base import BATCH_BYTES, GZIP_ERRORS, GZIP_MAGIC, gzip_problem

_MASK = 0xA282EAD8
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")


class DamagedFile(Exception):
    """A file that is truncated, or no TFRecord file, or whose checksums do not fit; the text says so."""


def records(file: Any) -> Iterator[list[bytes]]:
    """The records of an open TFRecord file, plain or gzip, in batches of about BATCH_BYTES; checksums are compared.

    file: binary, seekable. Raises DamagedFile.
    """
    start = file.read(_HEADER.size)
    file.seek(0)
    # A record may begin with gzip's two bytes, but then its checksum fits.
    compressed = start[:2] == GZIP_MAGIC and not _fits(start[:8], start, 8)
    stream = gzip.GzipFile(fileobj=file) if compressed else file
    try:
        yield from _split(stream)
    except GZIP_ERRORS as error:
        raise DamagedFile(gzip_problem(error)) from None


def _split(stream: Any) -> Iterator[list[bytes]]:
    data, number, start = b"", 0, 0
    while True:
        found, used, wanted = _whole(data, number, start)
        if found:
            yield found
        number, start = number + len(found), start + used
        rest = data[used:]
        more = stream.read(max(BATCH_BYTES, wanted - len(rest)))
        if not more:
            break
        data = rest + more
    if rest:
        raise DamagedFile(f"is truncated: it ends within record {number + 1}, which begins at byte {start:,}")


def _whole(data: bytes, number: int, start: int) -> tuple[list[bytes], int, int]:
    """(the whole records in `data`, their bytes, the bytes of the one that follows as far as that is known).

    number, start: the records and the bytes before them. Raises DamagedFile.
    """
    found: list[bytes] = []
    at, end = 0, len(data)
    while at + _HEADER.size <= end:
        length, _ = _HEADER.unpack_from(data, at)
        if not _fits(data[at : at + 8], data, at + 8):
            if number + len(found) == 0:
                raise DamagedFile("is no TFRecord file: the checksum at its beginning is wrong")
            raise DamagedFile(_damaged(number + len(found) + 1, start + at))
        body, after = at + _HEADER.size, at + _HEADER.size + length
        if after + _FOOTER.size > end:
            return found, at, _HEADER.size + length + _FOOTER.size
        record = data[body:after]
        if not _fits(record, data, after):
            raise DamagedFile(_damaged(number + len(found) + 1, start + at))
        found.append(record)
        at = after + _FOOTER.size
    return found, at, _HEADER.size


def _fits(content: bytes, data: bytes, at: int) -> bool:
    """Whether the masked CRC-32C of `content` stands in `data`, at byte `at`."""
    if at + _FOOTER.size > len(data):
        return False
    crc = google_crc32c.value(content)
    return bool((((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF == _FOOTER.unpack_from(data, at)[0])


def _damaged(number: int, start: int) -> str:
    return f"is damaged: the checksum of record {number}, which begins at byte {start:,}, is wrong"
