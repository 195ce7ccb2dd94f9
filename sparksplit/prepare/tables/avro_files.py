"""Reads Avro files with the columns of all files. By default, Spark takes the columns of any one file.

Each file begins with its schema, in JSON. Spark reads one file of each schema's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.listing import Found
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.prepare.formats import avro_package
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables.each_file import each_file
from sparksplit.prepare.tables.folders import EVERY_FOLDER
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.readers import METADATA, as_written, for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

_MAGIC, _SCHEMA = b"Obj\x01", b"avro.schema"
_LONGEST = 1 << 26
"""Bytes. Longer names and values in a file's beginning are damage."""


def rows(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read files with their types. A column that a file lacks is null there.

    Raise ConfigError if Spark lacks its package for Avro. Raise InputError if a column has different types.
    """
    if not _has_class(spark, "org.apache.spark.sql.v2.avro.AvroDataSourceV2"):
        error: ConfigError = config.error(
            "format",
            f"avro needs a package that this Spark does not have; add --packages {avro_package(spark.version)}",
        )
        raise error
    reader = spark.read.format("avro").options(**EVERY_FOLDER, **as_written(spark, "avro"))
    samples = _one_of_each(spark, [path for path, _ in found.files])
    if len(samples) > 1:
        reader = reader.schema(joined({path: reader.load(for_spark(path)).schema for path in samples}))
    return RawFrame(reader.load(found.roots), METADATA)


def _has_class(spark: SparkSession, name: str) -> bool:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


def _one_of_each(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """Return the first file of each schema, in the order of `paths`."""
    schemas = each_file(spark, [path for path in paths if filesystem.is_known(path)], schema_of)
    first: dict[bytes, str] = {}
    for path, schema in schemas:
        if schema is not None:
            first.setdefault(schema, path)
    return list(first.values())


def joined(files: Mapping[str, StructType]) -> StructType:
    """Return all columns of the files' schemas. Raise InputError if a column has different types.

    Names that differ in case only are one column, as for Spark.
    """
    from pyspark.sql.types import StructField, StructType

    columns: dict[str, StructField] = {}
    origin: dict[str, str] = {}
    for path, schema in files.items():
        for one in schema.fields:
            kind = _nullable(one.dataType)
            known = columns.setdefault(one.name.lower(), StructField(one.name, kind))
            first = origin.setdefault(one.name.lower(), path)
            if known.dataType != kind:
                kinds = known.dataType.simpleString(), one.dataType.simpleString()
                raise InputError(f"{path}: column {one.name!r} is {kinds[1]} in this file, but {kinds[0]} in {first}")
    return StructType(list(columns.values()))


def _nullable(kind: DataType) -> DataType:
    """Return a type of Spark with nulls allowed at any depth. Files may differ in where they allow them."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(one.name, _nullable(one.dataType)) for one in kind.fields])
    return kind


def schema_of(path: str) -> bytes | None:
    """Return the schema of an Avro file, in JSON; None if the file does not begin as an Avro file does.

    The file's beginning is specified in "Object Container Files" of the Avro specification.
    """
    with filesystem.open_input(path) as file:
        try:
            if bytes(file.read(len(_MAGIC))) != _MAGIC:
                return None
            return dict(_metadata(file)).get(_SCHEMA)
        except (EOFError, ValueError):
            return None


def _metadata(file: Any) -> Iterator[tuple[bytes, bytes]]:
    while count := _long(file):
        if count < 0:  # then the size of the block in bytes follows
            count = -count
            _long(file)
        for _ in range(count):
            name = _read(file, _long(file))
            yield name, _read(file, _long(file))


def _long(file: Any) -> int:
    """Return Avro's long: seven bits a byte, the lowest first, in zigzag order."""
    value = 0
    for shift in range(0, 70, 7):
        byte = _read(file, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("a number of more than 64 bits")


def _read(file: Any, size: int) -> bytes:
    if not 0 <= size <= _LONGEST:
        raise ValueError(f"a length of {size} bytes")
    content = bytes(file.read(size))
    if len(content) < size:
        raise EOFError
    return content
