"""The formats of raw rows by name. To add a format, add a module in sources/ and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pydantic

from sparksplit.base.errors import did_you_mean
from sparksplit.base.keys import Mark, listed, mark_of
from sparksplit.base.user_functions import FunctionError, is_own, split_name
from sparksplit.spark.settings import packages

PATHS = ("path", "validation", "test")
"""The keys of an input section that name files."""
_ROWS = ("rows", "columns")
_FILES = (*_ROWS, "files")


@dataclass(frozen=True)
class Format:
    """The facts about a format that other modules need.

    source: its class, as `module:Class` within prepare/, made with its `of`. Our own tasks read its files.
    reader: the function that returns its columns as a DataFrame, as `module:function` within prepare/
        (tables.readers.Read). Spark reads it. A format without source and reader gets a DataFrame from the caller.
    groups: further names of the format in the marks of keys (base/keys.py).
    shapeless: whether its rows have no dtype and shape of their own, so that `predict` takes the model's.
    tokens: whether its rows are sequences of tokens, which are cut into splits by position, not by a hash.
    settings: Spark settings for the format, if we start the session. `session_settings` adds the package.
    package: returns the package that Spark needs for the format, from Spark's version. None: it needs no package.
    lines: whether its files are lines of text.
    """

    source: str = ""
    reader: str = ""
    groups: tuple[str, ...] = ()
    shapeless: bool = False
    tokens: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    package: Callable[[str], str] | None = None
    lines: bool = False

    @property
    def patterns(self) -> bool:
        """Whether its paths may be patterns or lists, and may be wherever Spark can read."""
        return bool(self.reader)

    @property
    def columns(self) -> bool:
        """Whether its rows have columns, by which the configuration selects the label and the kept columns."""
        return "columns" in self.groups

    def session_settings(self) -> dict[str, str]:
        """Return `settings`, with the package that the imported pyspark's Spark needs for the format."""
        if self.package is None:
            return dict(self.settings)
        import pyspark

        return {**self.settings, packages.KEY: self.package(pyspark.__version__)}

    def load(self) -> Any:
        """Return the class that `source` names, a subclass of source.FileSource."""
        return _named(self.source)

    def load_reader(self) -> Any:
        """Return the function that `reader` names, a tables.readers.Read."""
        return _named(self.reader)


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"sparksplit.prepare.{module}"), name)


DATAFRAME = "dataframe"
"""The format of a DataFrame, from a program or from a user's function. A configuration file cannot name this format."""

_AVRO = {"3.5": "2.12:3.5.9", "4.1": "2.13:4.1.1", "4.2": "2.13:4.2.0", "4.3": "2.13:4.2.0"}
"""For each Spark: the Scala and the version of its package for Avro, the newest that fits in Maven Central."""


def avro_package(version: str) -> str:
    """Return Spark's package for Avro (group:artifact:version) for a Spark of `version`, such as 4.3.0.

    A Spark of an unknown line gets the package of the newest line.
    """
    return f"org.apache.spark:spark-avro_{_AVRO.get('.'.join(version.split('.')[:2]), _AVRO['4.3'])}"


_HIVE = {"spark.sql.catalogImplementation": "hive"}

FORMATS: Mapping[str, Format] = {
    "idx": Format("sources.idx:IdxSource"),
    "csv": Format(reader="sources.csv:rows", lines=True, groups=(*_FILES, "delimited"), shapeless=True),
    "hive-text": Format(reader="sources.csv:hive_text", lines=True, groups=(*_FILES, "delimited"), shapeless=True),
    **{name: Format(reader="tables.same_columns:rows", groups=_FILES, shapeless=True) for name in ("parquet", "orc")},
    "json": Format(reader="sources.json_lines:rows", lines=True, groups=_FILES, shapeless=True),
    "avro": Format(reader="tables.avro_files:rows", groups=_FILES, shapeless=True, package=avro_package),
    "tfrecord": Format(reader="sources.tfrecord:read", groups=_FILES, shapeless=True),
    "images": Format(reader="sources.images:read", groups=("columns", "files")),
    "table": Format(reader="tables.readers:table", groups=_ROWS, shapeless=True, settings=_HIVE),
    "sql": Format(reader="tables.readers:query", groups=_ROWS, shapeless=True, settings=_HIVE),
    "text": Format("sources.text:TextSource", lines=True, tokens=True),
    DATAFRAME: Format(groups=_ROWS, shapeless=True),
}


def format_of(name: str) -> Format:
    """Return the format called `name`, which may be a user's own function."""
    return FORMATS[table_name(name)]


def table_name(name: str) -> str:
    """Return the key in FORMATS of the format `name`, which may be a user's own function."""
    return DATAFRAME if is_own(name) else name


def known_format(name: str) -> str:
    """Return `name`. Raise ValueError, with the known names, if a configuration cannot use this format."""
    names = [each for each in FORMATS if each != DATAFRAME]
    if name in names:
        return name
    if not is_own(name):
        raise ValueError(
            f"must be one of {', '.join(names)}, or a function that returns a DataFrame (is {name!r})"
            f"{did_you_mean(name, names)}"
        )
    try:
        split_name(name)
    except FunctionError as error:
        raise ValueError(str(error)) from error
    return name


def users(mark: Mark) -> tuple[str, ...]:
    """Return the formats that use a key with this mark."""
    return tuple(name for name, each in FORMATS.items() if not mark.users or {name, *each.groups} & {*mark.users})


_Keys = TypeVar("_Keys", bound=pydantic.BaseModel)


def tells_formats(model: type[_Keys]) -> type[_Keys]:
    """Add to the text of each key which formats use it. A class decorator: `--help` and the pages show these texts."""
    names = [name for name in FORMATS if name != DATAFRAME]
    for key, field_info in model.model_fields.items():
        using = [name for name in names if name in users(mark_of(model, key))]
        others = [name for name in names if name not in using]
        few, only = (others, "Not") if len(others) < len(using) else (using, "Only")
        if others:
            field_info.description = f"{field_info.description} {only} for the {listed('format', few)}."
    return model
