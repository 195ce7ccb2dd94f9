"""Columns from the names of folders: `city=K%C3%B6ln/` is the text `Köln` in the column `city`, for every format.

Spark would guess a type from all folders that exist. 00501 and 501 would be one number, and one day's folders could
have another type than a year's. Spark would also decode a name byte by byte. So Spark's readers ignore the names of
folders, and the values come from the paths of the files.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from hdfs_io.listing import NO_VALUE, Found, folder_values, with_outer
from sparksplit.base.errors import InputError
from sparksplit.features.table import WHOLE
from sparksplit.prepare.tables.raw_frame import RawFrame, quoted

EVERY_FOLDER = {"recursiveFileLookup": "true"}
"""Options with which Spark reads all files below a folder, and takes no column from a folder's name."""
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def with_folders(raw: RawFrame, found: Found, file_of_line: str, asked: Collection[str] = ()) -> RawFrame:
    """Return `raw`, read from `found`, with the columns that folders give. They are texts, and follow the files' own
    columns.

    file_of_line: SQL expression of the file that a row of `raw.lines` came from.
    asked: columns that may also come from folders in the paths themselves, if the files lack them.

    Raise InputError if the files also have one of the columns, or if a folder's name cannot be read.
    """
    in_files = {name.lower() for name, _ in raw.types}
    found = with_outer(found, [name for name in asked if name.lower() not in in_files])
    if not found.columns:
        return raw
    for place, name in enumerate(found.columns):
        if name.lower() in in_files:
            where = "/".join(found.files[0][0].split("/")[: place - len(found.columns)])
            raise InputError(
                f"{where}: the folder name gives column {name!r}, but its files have this column too; "
                "rename the folder's key or the column"
            )
    assert raw.file is not None
    lines = None if raw.lines is None else raw.lines.select("*", *_columns(found, file_of_line))
    frame = raw.frame.select("*", *_columns(found, raw.file))
    return replace(raw, frame=frame, lines=lines, folders=folder_values(found))


def like_folders(raw: RawFrame, train: RawFrame) -> RawFrame:
    """Return `raw` with texts for the columns that folders give in the training rows.

    Only columns whose values have one spelling become texts: whole numbers and dates.
    """
    from pyspark.sql import functions as sql

    cast = {name for name, kind in raw.types if name in train.folders and kind in (*WHOLE, "date")}
    if not cast:
        return raw
    columns = [(name, sql.col(quoted(name))) for name in raw.frame.columns]
    frame = raw.frame.select(
        *(column.cast("string").alias(name) if name in cast else column for name, column in columns)
    )
    return replace(raw, frame=frame)


def are_whole(values: set[str]) -> bool:
    """Return whether all these texts are whole numbers in their shortest form. Then different texts are different
    numbers."""
    return bool(values) and all(_WHOLE.fullmatch(value) for value in values)


def _columns(found: Found, file: str) -> list[Any]:
    """Return the columns that folders give to a row. file: SQL expression of the address of the row's file"""
    from pyspark.sql import functions as sql

    columns = []
    for place, name in enumerate(found.columns):
        if not name:
            continue
        folder = sql.substring_index(sql.substring_index(sql.expr(file), "/", place - len(found.columns) - 1), "/", 1)
        folder = _unquoted(folder)  # decodes the address; then the value is decoded as a part of the path
        value = _unquoted(sql.substr(folder, sql.locate("=", folder) + sql.lit(1)))
        columns.append(sql.when(~value.isin(*NO_VALUE), value).alias(name))
    return columns


def _unquoted(text: Any) -> Any:
    """Decode like urllib's `unquote`. Java's decoder reads `+` as a space, and fails at a `%` that encodes nothing."""
    from pyspark.sql import functions as sql

    marked = sql.regexp_replace(text, "%(?![0-9A-Fa-f]{2})", "%25")
    return sql.url_decode(sql.replace(marked, sql.lit("+"), sql.lit("%2B")))
