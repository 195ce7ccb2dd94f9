"""Reads TFRecord files of tf.train.Example without TensorFlow.

Our own tasks read the files. The alternative, tensorflow-hadoop, reads no gzip, needs a jar from a repository, and was
slower in measurements (docs/preprocess.md). Spark finds the files and gives them to tasks. A task opens files on HDFS
and local disks itself, and reads them in pieces. Files that only Spark's Hadoop configuration reaches arrive whole,
from Spark's reader of binary files.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import google_crc32c
import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.listing import Found
from sparksplit.base.errors import InputError
from sparksplit.prepare.passes.parse import spark_schema
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import BATCH_BYTES, GZIP_ERRORS, GZIP_MAGIC, gzip_problem
from sparksplit.prepare.sources.examples import Feature, columns, features_of
from sparksplit.prepare.tables.folders import EVERY_FOLDER
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.readers import hadoop_path
from sparksplit.spark.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SNIFFED, _SNIFFED_FILES = 1000, 10
"""Number of records that decide which features exist, and largest number of files to open to find some."""
_HIDDEN = _PATH, _ROW, _BAD = ("the file", "the record", "what is bad")
_BAD_TYPE = pa.struct([("reason", pa.string()), ("text", pa.string()), ("fatal", pa.bool_())])

_MASK = 0xA282EAD8
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")


def read(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Return a column for each feature. It is a number or a text if the first records have one value of it, otherwise a
    list.

    Raise InputError if the first files have no Examples.
    """
    features = _features(spark, config, found)
    files = _files(spark, found.roots, found)
    fields = [(feature.name, feature.type) for feature in features]
    schema = pa.schema([*fields, (_PATH, pa.string()), (_ROW, pa.int64()), (_BAD, _BAD_TYPE)])

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                yield from _read_file(batch.slice(row, 1), features, schema)

    frame = files.mapInArrow(run, spark_schema(schema))
    path, row, bad = (f"`{name}`" for name in _HIDDEN)
    return RawFrame(frame, path, row, bad, _HIDDEN)


def _files(spark: SparkSession, roots: Sequence[str], found: Found) -> DataFrame:
    """Return the files at `roots`: their paths, and their content if only Spark can open files.

    found: the listing that `roots` belong to
    """
    reader = spark.read.format("binaryFile").options(**EVERY_FOLDER)
    ours = all(filesystem.is_known(path) for path, _ in found.files)
    return reader.load(list(roots)).drop("modificationTime", "length", *(["content"] if ours else []))


def _features(spark: SparkSession, config: InputConfig, found: Found) -> list[Feature]:
    """Return the features of the first file that has Examples."""
    for path, _ in found.files[:_SNIFFED_FILES]:
        files = _files(spark, [filesystem.for_spark(path)], found)
        if features := facts_of(files, _sniff, Feature):
            return features
    raise InputError(f"{config.place}: the first records are not tf.train.Examples with features")


def _sniff(batches: Iterable[pa.RecordBatch]) -> Iterator[Feature]:
    """Yield the features of the first records of a file. Damage is reported later, when the file is read."""
    first: list[bytes] = []
    for batch in batches:
        for row in range(batch.num_rows):
            with _opened(batch.slice(row, 1)) as file, suppress(DamagedFile):
                first += islice(chain.from_iterable(records(file)), _SNIFFED)
    yield from features_of(first)


def _read_file(file: pa.RecordBatch, features: Sequence[Feature], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file. file: a single row that describes the file"""
    address = quote(file.column("path")[0].as_py(), safe="/:")
    number = 1

    def batch(made: Sequence[pa.Array], wrong: Mapping[int, str], count: int, fatal: bool = False) -> pa.RecordBatch:
        by_row = {row: {"reason": reason, "text": "", "fatal": fatal} for row, reason in wrong.items()}
        bad = pa.array(map(by_row.get, range(count)), _BAD_TYPE) if wrong else pa.nulls(count, _BAD_TYPE)
        rows = pa.array(range(number, number + count), pa.int64())
        return pa.RecordBatch.from_arrays([*made, pa.repeat(address, count), rows, bad], schema=schema)

    try:
        with _opened(file) as stream:
            for group in records(stream):
                yield batch(*columns(group, features), len(group))
                number += len(group)
    except DamagedFile as error:
        yield batch([pa.nulls(1, feature.type) for feature in features], {0: str(error)}, 1, fatal=True)


def _opened(file: pa.RecordBatch) -> Any:
    """Open the file that `file`, a single row, describes. Return a readable, seekable stream, which the caller
    closes."""
    if "content" in file.schema.names:
        return io.BytesIO(file.column("content")[0].as_buffer())
    return filesystem.open_input(hadoop_path(file.column("path")[0].as_py()))


class DamagedFile(Exception):
    """A file is truncated, is no TFRecord file, or has wrong checksums. The text says which."""


def records(file: Any) -> Iterator[list[bytes]]:
    """Yield the records of an open TFRecord file, plain or gzip, in batches of about BATCH_BYTES. Checksums are
    compared.

    file: binary, seekable. Raise DamagedFile if the file is damaged.
    """
    start = file.read(_HEADER.size)
    file.seek(0)
    # A plain record may begin with gzip's two bytes, but then its checksum is right.
    compressed = start[:2] == GZIP_MAGIC and not _fits(start[:8], start, 8)
    stream = gzip.GzipFile(fileobj=file) if compressed else file
    try:
        yield from _split(stream)
    except GZIP_ERRORS as error:
        raise DamagedFile(gzip_problem(error)) from None


def _split(stream: Any) -> Iterator[list[bytes]]:
    data, number, start = b"", 0, 0
    while True:
        whole, used, wanted = _whole(data, number, start)
        if whole:
            yield whole
        number, start = number + len(whole), start + used
        rest = data[used:]
        more = stream.read(max(BATCH_BYTES, wanted - len(rest)))
        if not more:
            break
        data = rest + more
    if rest:
        raise DamagedFile(f"is truncated: it ends within record {number + 1}, which begins at byte {start:,}")


def _whole(data: bytes, number: int, start: int) -> tuple[list[bytes], int, int]:
    """Return (the whole records in `data`, their bytes, the bytes of the next record as far as known).

    number, start: the records and the bytes before `data`. Raise DamagedFile if a checksum is wrong.
    """
    whole: list[bytes] = []
    at, end = 0, len(data)
    while at + _HEADER.size <= end:
        length, _ = _HEADER.unpack_from(data, at)
        if not _fits(data[at : at + 8], data, at + 8):
            if number + len(whole) == 0:
                raise DamagedFile("is not a TFRecord file: the checksum at its start is wrong")
            raise DamagedFile(_damaged(number + len(whole) + 1, start + at))
        body, after = at + _HEADER.size, at + _HEADER.size + length
        if after + _FOOTER.size > end:
            return whole, at, _HEADER.size + length + _FOOTER.size
        record = data[body:after]
        if not _fits(record, data, after):
            raise DamagedFile(_damaged(number + len(whole) + 1, start + at))
        whole.append(record)
        at = after + _FOOTER.size
    return whole, at, _HEADER.size


def _fits(content: bytes, data: bytes, at: int) -> bool:
    """Return whether the masked CRC-32C of `content` is in `data` at byte `at`."""
    if at + _FOOTER.size > len(data):
        return False
    crc = google_crc32c.value(content)
    return bool((((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF == _FOOTER.unpack_from(data, at)[0])


def _damaged(number: int, start: int) -> str:
    return f"is damaged: the checksum of record {number}, which begins at byte {start:,}, is wrong"
