"""Columns that the names of folders give: `city=K%C3%B6ln/` is the text `Köln` in the column `city`, for every format.

Spark would guess a type from all the folders that are there (00501 and 501 would be one number, and one day's folders
another type than a year's), and decode a name byte by byte. So its readers look into all folders without reading their
names, and the values come from the paths of the files.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hdfs_io.listing import NO_VALUE, Found, folder_values, with_outer
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from sparksplit.prepare.tables.raw_frame import RawFrame

EVERY_FOLDER = {"recursiveFileLookup": "true"}
"""Options with which Spark reads all files below a folder, and no column from a folder's name."""
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def with_folders(raw: RawFrame, found: Found, file_of_line: str, asked: Collection[str] = ()) -> RawFrame:
    """`raw`, read of what was `found`, with the columns that folders give, as texts behind the files' own.

    file_of_line: an SQL expression of the file that a row of `raw.lines` came from. asked: the columns that folders in
    the paths themselves give too, where the files have none of the name

    Raises InputError where the files have such a column too, and where a folder's name cannot be read.
    """
    own = {name.lower() for name, _ in raw.types}
    found = with_outer(found, [name for name in asked if name.lower() not in own])
    if not found.columns:
        return raw
    for place, name in enumerate(found.columns):
        if name.lower() in own:
            where = "/".join(found.files[0][0].split("/")[: place - len(found.columns)])
            raise InputError(
                f"{where}: the folder name gives column {name!r}, but its files have this column too; rename one"
            )
    assert raw.file is not None
    lines = None if raw.lines is None else raw.lines.select("*", *_columns(found, file_of_line))
    frame = raw.frame.select("*", *_columns(found, raw.file))
    return replace(raw, frame=frame, lines=lines, folders=folder_values(found))


def like_folders(raw: RawFrame, train: RawFrame) -> RawFrame:
    """`raw` with those of its columns as texts that folders give for the training rows, as far as their texts are
    written in one way."""
    from pyspark.sql import functions as sql

    kinds = ("tinyint", "smallint", "int", "bigint", "date")
    cast = {name for name, kind in raw.types if name in train.folders and kind in kinds}
    if not cast:
        return raw
    columns = [(name, sql.col(f"`{name.replace('`', '``')}`")) for name in raw.frame.columns]
    frame = raw.frame.select(
        *(column.cast("string").alias(name) if name in cast else column for name, column in columns)
    )
    return replace(raw, frame=frame)


def are_whole(values: set[str]) -> bool:
    """Whether all these texts are whole numbers in the one way of writing them: then they are one value each as
    numbers too."""
    return bool(values) and all(_WHOLE.fullmatch(value) for value in values)


def _columns(found: Found, file: str) -> list[Any]:
    """The columns of a row of the file at an address. file: an SQL expression of the address"""
    from pyspark.sql import functions as sql

    columns = []
    for place, name in enumerate(found.columns):
        if not name:
            continue
        folder = sql.substring_index(sql.substring_index(sql.expr(file), "/", place - len(found.columns) - 1), "/", 1)
        folder = _unquoted(folder)  # as an address; then the value as a part of the path
        value = _unquoted(sql.substr(folder, sql.locate("=", folder) + sql.lit(1)))
        columns.append(sql.when(~value.isin(*NO_VALUE), value).alias(name))
    return columns


def _unquoted(text: Any) -> Any:
    """As urllib's `unquote`: Java's decoder takes `+` for a space, and fails at a `%` that encodes nothing."""
    from pyspark.sql import functions as sql

    marked = sql.regexp_replace(text, "%(?![0-9A-Fa-f]{2})", "%25")
    return sql.url_decode(sql.replace(marked, sql.lit("+"), sql.lit("%2B")))
