"""CSV and Hive's text files: every column as text, and the whole text of a record that does not fit.

The driver reads the first records of one file, to find the number or names of the columns, and the look of the labels.
Every other file's header is compared with these names when the file is read. Spark's reader does this, or csv_lines.py,
which splits lines in the task that parses them and takes less time.
"""

from __future__ import annotations

import codecs
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hdfs_io.listing import Found
from sparksplit.base.errors import InputError
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables.cells import Cells, split
from sparksplit.prepare.tables.csv_lines import LINE
from sparksplit.prepare.tables.folders import EVERY_FOLDER
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.readers import METADATA, for_spark
from sparksplit.spark.batches import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PROBE_ROWS = 200
_BROKEN, _FILE = "sparksplit: the record", "sparksplit: the file"
"""Our columns for a record that does not fit, and for its file. No user's column has these names."""
_BAD = (
    f"CASE WHEN `{_BROKEN}` IS NOT NULL THEN named_struct('r', CAST(NULL AS STRING), 't', `{_BROKEN}`, 'f', false) END"
)
_MAX_COLUMNS = 1_000_000
_HIVE: Mapping[str, object] = {"header": False, "delimiter": "\x01", "quote": None, "nulls": ["\\N", ""]}
"""Defaults for Hive's text files, if the configuration does not set these keys."""


def hive_text(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read the files of a Hive table that is stored as text."""
    preset = {key: value for key, value in _HIVE.items() if key not in config.model_fields_set}
    return rows(spark, config.model_copy(update=preset), found)


def rows(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read files of delimited text."""
    from pyspark.sql import functions as sql

    file, records = _first_records(spark, config, found)
    names = _names(config, file, records[0])
    cells = Cells(
        file=file,
        names=tuple(names),
        named=config.header or bool(config.columns),
        header=config.header,
        delimiter=config.delimiter,
        quote=config.quote,
        nulls=tuple(config.nulls),
        encoding=config.encoding,
        multiline=config.multiline,
        sample=tuple(_sample(records[int(config.header) :], config, len(names))),
        record_bytes=_record_bytes(file, records),
    )
    reader = spark.read.options(**_options(config, len(names)), header=config.header, enforceSchema=False)
    lines = _lines(spark, found)
    # Names that differ only in case are two columns.
    with settings(spark, {"spark.sql.caseSensitive": "true"}):
        frame = reader.options(**EVERY_FOLDER).schema(_schema(names)).csv(found.roots)
        frame = frame.select("*", sql.expr(METADATA).alias(_FILE))
        if config.delimiter <= " " and len(names) > 1 and not config.multiline:
            frame = frame.unionAll(_of_empty_cells(lines, names, config.delimiter))
    # The columns of folders come after a file's own columns. Then the user must name the label.
    label = None if found.columns else names[-1]
    return RawFrame(
        frame, f"`{_FILE}`", bad=_BAD, hidden=(_BROKEN, _FILE), label=label, cells=cells,
        lines=lines if _is_plain(config, names) else None,
        row_bytes=round(len("\n".join(records).encode()) / len(records)),
    )  # fmt: skip


def _is_plain(config: InputConfig, names: Sequence[str]) -> bool:
    """Return whether csv_lines.py can split the lines: UTF-8, one record a line, no comments, no own escape, several
    columns."""
    try:
        encoding = codecs.lookup(config.encoding).name
    except LookupError:
        return False
    special = config.multiline or config.comment or (config.escape or config.quote) != config.quote
    return encoding == "utf-8" and not special and len(names) > 1 and config.delimiter != config.quote


def _lines(spark: SparkSession, found: Found) -> DataFrame:
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField(LINE, StringType())])
    return spark.read.options(**EVERY_FOLDER).schema(schema).text(found.roots)


def _of_empty_cells(lines: DataFrame, names: Sequence[str], delimiter: str) -> DataFrame:
    """Return the rows of lines that Spark's reader skips as blank, because their delimiters are white space.

    A line with another number of cells is a bad row.
    """
    from pyspark.sql import functions as sql

    line = sql.col(f"`{LINE}`")
    cells = sql.split(line, f"\\x{ord(delimiter):02x}")
    rows = lines.where(line.rlike(r"\A[\x00-\x20]+\z") & (sql.size(cells) > 1))
    fits = sql.size(cells) == len(names)
    columns = [sql.when(fits, sql.nullif(sql.get(cells, sql.lit(place)), sql.lit(""))) for place in range(len(names))]
    return rows.select(*columns, sql.when(~fits, line), sql.expr(METADATA))


def _options(config: InputConfig, columns: int) -> dict[str, str | bool | int]:
    """Return Spark's options for files as `config` describes them."""
    options: dict[str, str | bool | int] = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _BROKEN,
        "sep": config.delimiter,
        "quote": config.quote or "",
        "escape": config.escape or config.quote or "\0",
        "encoding": config.encoding,
        "multiLine": config.multiline,
        "maxColumns": max(20_480, 2 * columns),
    }
    return options | ({"comment": config.comment} if config.comment else {})


def _schema(names: Sequence[str]) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in (*names, _BROKEN)])


def _first_records(spark: SparkSession, config: InputConfig, found: Found) -> tuple[str, list[str]]:
    """Return (the first file that has rows, the text of its first records).

    After a file with only a header, as Spark writes for an empty partition, the largest files come first. If no file
    has rows, return the header. Raise InputError if all files are empty.
    """
    header: tuple[str, list[str]] | None = None
    left = deque(file for file, _ in found.files)
    while left:
        file = left.popleft()
        records = _records(spark, config, file)
        if len(records) > int(config.header):
            return file, records
        if records and header is None:
            header = file, records
            sizes = {path: facts.bytes for path, facts in found.files}
            left = deque(sorted(left, key=lambda path: -sizes[path]))
    if header is None:
        raise InputError(f"{found.files[0][0]}: is empty")
    return header


def _records(spark: SparkSession, config: InputConfig, file: str) -> list[str]:
    # With a schema of one column, a record with more columns arrives as its whole text.
    reader = spark.read.options(**_options(config, _MAX_COLUMNS // 2), header=False).schema(_schema(["one"]))
    return [row[1] if row[1] is not None else row[0] or "" for row in _head(reader.csv(for_spark(file)))]


def _head(frame: DataFrame) -> list[tuple[str | None, str | None]]:
    return [(row[0], row[1]) for row in frame.head(_PROBE_ROWS + 1)]


def _record_bytes(file: str, records: Sequence[str]) -> float:
    """Estimate the bytes that a record takes in the file, from the first records."""
    text = "\n".join([*records, ""]).encode()
    packed = file.endswith((".gz", ".bz2", ".zst", ".snappy", ".deflate", ".xz"))
    return (len(zlib.compress(text)) if packed else len(text)) / len(records)


def _sample(records: Sequence[str], config: InputConfig, columns: int) -> Iterator[list[str]]:
    """Yield the fields of the records that have the right number of columns. They show what labels and features look
    like."""
    for record in records:
        with suppress(InputError):
            fields = split(record, config.delimiter, config.quote)
            if len(fields) == columns:
                yield fields


def _names(config: InputConfig, file: str, record: str) -> list[str]:
    """Return the names of the columns. Raise InputError or ConfigError if they cannot be names, or their number is
    wrong."""
    try:
        fields = split(record.removeprefix("\ufeff"), config.delimiter, config.quote)
    except InputError as error:
        raise InputError(f"{file}: row 1: {error}") from None
    if not config.header:
        if config.columns and len(config.columns) != len(fields):
            raise config.error(
                "columns", f"must be {len(fields)} names, one for each column of {file} (is {config.columns})"
            )
        return list(config.columns) or [f"column_{place}" for place in range(len(fields))]
    for name in fields:
        if not name or fields.count(name) > 1:
            problem = "an empty name" if not name else f"{name!r} twice"
            raise InputError(f"{file}: row 1: the header has {problem}")
    return fields
