"""Reads Parquet or ORC files whose columns differ in type or spelling, or have types that Spark's reader does not know.

Files with equal columns are read together, with their own types. Then each column gets the type that has the values of
all files exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.prepare.tables.column_types import asked, common, final, is_own, kind_of, value
from sparksplit.prepare.tables.raw_frame import RawFrame, quoted
from sparksplit.prepare.tables.readers import METADATA, for_spark
from sparksplit.spark.batches import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Footer = Mapping[str, pa.DataType]
"""A file's columns with Arrow's types."""
_FILE = "sparksplit: the file"
_STRUCTS = ("struct<", "array<struct<")
"""Kinds whose fields Spark's reader joins over all files."""
_GROUPS = 100
"""Largest number of groups of files that are read together. Each group is a part of Spark's plan."""


@dataclass(frozen=True)
class Merged:
    """What becomes of the columns of files that differ.

    columns: kind of each column by name, in the order in which the columns are found.
    groups: files that are read together, with their own name and kind of each column that they have, by the name in
        `columns`.
    notes: messages for the user.
    """

    columns: Mapping[str, str]
    groups: Sequence[tuple[list[str], Mapping[str, tuple[str, str]]]]
    notes: Sequence[str]


def merged(files: Mapping[str, Footer], place: str) -> Merged | None:
    """Return how to read the files. Return None if Spark's reader takes them as they are, or must report an error.

    Raise InputError if a column's types have no common type, or if the files differ in too many ways.
    """
    spelled: dict[str, Counter[str]] = {}
    kinds: dict[str, dict[str, str]] = {}
    for path, footer in files.items():
        kinds[path] = {name: kind for name, by_column in footer.items() if (kind := kind_of(by_column)) is not None}
        if len(kinds[path]) < len(footer) or len({name.lower() for name in footer}) < len(footer):
            return None
        for name in footer:
            spelled.setdefault(name.lower(), Counter())[name] += 1
    names = {lower: by_column.most_common(1)[0][0] for lower, by_column in spelled.items()}
    by_path = {path: {names[name.lower()]: (name, kind) for name, kind in of.items()} for path, of in kinds.items()}
    by_column = {name: {of[name] for of in by_path.values() if name in of} for name in names.values()}
    differ = [name for name, ways in by_column.items() if len(ways) > 1 or any(is_own(kind) for _, kind in ways)]
    if not differ:
        return None
    columns = {name: common(kind for _, kind in ways) for name, ways in by_column.items()}
    if refused := [name for name, kind in columns.items() if kind is None]:
        if all(kind.startswith(_STRUCTS) for name in refused for _, kind in by_column[name]):
            return None
        lower = {path: {name.lower(): str(kind) for name, kind in of.items()} for path, of in files.items()}
        raise InputError(unlike(lower, [name.lower() for name in refused]) or f"{place}: column {refused[0]!r}")
    groups: dict[tuple[tuple[str, str] | None, ...], list[str]] = {}
    for path, of in by_path.items():
        groups.setdefault(tuple(of.get(name) for name in differ), []).append(path)
    if len(groups) > _GROUPS:
        raise InputError(
            f"{place}: its files have more than {_GROUPS} combinations of column types (of "
            f"{', '.join(map(repr, differ[:5]))}): write them with the same types"
        )
    notes = [
        f"columns {', '.join(map(repr, sorted(spelled[name.lower()])))} of different files are read as one "
        f"column, {name!r}"
        for name in differ
        if len(spelled[name.lower()]) > 1
    ]
    known = {name: kind for name, kind in columns.items() if kind is not None}
    return Merged(known, [(paths, _columns(by_path, paths)) for paths in groups.values()], notes)


def _columns(by_path: Mapping[str, Mapping[str, tuple[str, str]]], paths: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the columns that any of these files has."""
    return {name: way for path in paths for name, way in by_path[path].items()}


def unlike(files: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> str | None:
    """Return a message about the first file in which one of `names` has another type than in most known `files`, or
    None."""
    for name in names:
        counts = Counter(types[name] for types in files.values() if name in types).most_common(1)
        for path, types in files.items():
            if name in types and types[name] != counts[0][0]:
                return f"{path}: column {name!r} is {types[name]} in this file, but {counts[0][0]} in other files"
    return None


def read(
    spark: SparkSession,
    kind: str,
    options: Mapping[str, str],
    what: Merged,
    marks: Sequence[Mapping[str, Mapping[str, Any]]] = (),
) -> RawFrame:
    """Return the rows of the files.

    kind: parquet or orc
    marks: for some files, the metadata of columns by name. The first metadata of a column becomes that of all its rows,
        because Spark takes none with types that are asked for.
    """
    from pyspark.sql import functions as sql

    frames: list[DataFrame] = []
    with settings(spark, {"spark.sql.session.timeZone": "UTC"}):
        for paths, in_group in what.groups:
            ways = {name: in_group.get(name, (name, final(kind))) for name, kind in what.columns.items()}
            schema = ", ".join(f"{quoted(name)} {asked(kind)}" for name, kind in ways.values())
            columns = [
                f"{value(kind, quoted(name), what.columns[wanted])} AS {quoted(wanted)}"
                for wanted, (name, kind) in ways.items()
            ]
            frame = spark.read.format(kind).options(**options).schema(schema).load([for_spark(path) for path in paths])
            frames.append(frame.selectExpr(*columns, f"{METADATA} AS `{_FILE}`"))
        frame = reduce(lambda one, other: one.unionByName(other), frames)
    if known := marked(what.columns, marks):
        selected = [
            sql.col(quoted(name)).alias(name, metadata=known[name]) if name in known else sql.col(quoted(name))
            for name in frame.columns
        ]
        frame = frame.select(*selected)
    return RawFrame(frame, f"`{_FILE}`", hidden=(_FILE,), notes=what.notes)


def marked(columns: Iterable[str], marks: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the first metadata of each column that has some, whatever the case of its name."""
    found: dict[str, dict[str, Any]] = {}
    for of_file in marks:
        for name, metadata in of_file.items():
            found.setdefault(name.lower(), dict(metadata))
    return {name: found[name.lower()] for name in columns if name.lower() in found}
