"""JSON by Spark's reader, an object on each line: what is no object is a bad row with its text, not a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hdfs_io.config import InputConfig
from hdfs_io.listing import Found
from hdfs_io.sources.line_numbers import ROW_TEXT, line_mark_sql
from hdfs_io.sources.readers import METADATA, RawFrame
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BROKEN = "sparksplit: the line"
"""The column of a line that is no object, which Spark makes where there is one; no user's column is called so."""
_ROW = f"CASE WHEN `{_BROKEN}` IS NOT NULL THEN {line_mark_sql(f'`{_BROKEN}`')} END"
# Decoded, because a line that is not UTF-8 would arrive as it is.
_TEXT = f"left(decode(CAST(`{_BROKEN}` AS BINARY), 'UTF-8'), {ROW_TEXT})"
_BAD = f"CASE WHEN `{_BROKEN}` IS NOT NULL THEN named_struct('r', 'is no JSON object', 't', {_TEXT}, 'f', false) END"


def rows(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Files of JSON lines. Raises InputError where no line is an object."""
    reader = spark.read.options(recursiveFileLookup=found.nested, columnNameOfCorruptRecord=_BROKEN)
    frame = reader.json(found.roots)
    if _BROKEN not in frame.columns:
        return RawFrame(frame, METADATA)
    partitions = {part.partition("=")[0] for file, _ in found.files for part in file.split("/")[:-1] if "=" in part}
    if not set(frame.columns) - partitions - {_BROKEN}:
        raise InputError(f"{config.place}: no line is a JSON object; each row must be one, on a line of its own")
    return RawFrame(frame, METADATA, row=_ROW, bad=_BAD, hidden=(_BROKEN,))
