"""The formats of raw rows by name. A new one is a module in sources/ and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hdfs_io.functions import FunctionError, is_own, split_name
from sparksplit.base.errors import did_you_mean

if TYPE_CHECKING:
    from hdfs_io.sources.base import FileSource

_COLUMNS = frozenset(("label", "label_type", "dtype", "shape", "keep", "missing", "max_bad_rows", "max_bad_fraction"))


@dataclass(frozen=True)
class Format:
    """What the configuration needs to know about a format.

    source: its class, as `module:Class` within hdfs_io.sources, made with its `of`; "" where the rows come as a
    DataFrame.
    keys: the keys of the input section that it uses, beside `format` and `path`.
    shapeless: whether its rows have neither dtype nor shape of their own, so that `predict` takes the model's.
    tokens: whether its rows are sequences of tokens, cut into splits by position rather than by a hash.
    """

    source: str
    keys: frozenset[str] = field(default_factory=frozenset)
    shapeless: bool = False
    tokens: bool = False

    def load(self) -> type[FileSource]:
        """The class."""
        module, _, name = self.source.partition(":")
        found: type[FileSource] = getattr(importlib.import_module(f"hdfs_io.sources.{module}"), name)
        return found


DATAFRAME = "dataframe"
"""The format of a DataFrame, which no configuration file can name, and of what a user's own function returns."""

FORMATS: Mapping[str, Format] = {
    "idx": Format("idx:IdxSource", frozenset(("label", "label_type", "dtype", "shape"))),
    "csv": Format("csv:CsvSource", _COLUMNS | {"test", "header", "delimiter"}, shapeless=True),
    "text": Format(
        "text:TextSource",
        frozenset(("test", "label", "unit", "length", "stride", "max_sequences", "vocabulary")),
        tokens=True,
    ),
    DATAFRAME: Format("", _COLUMNS, shapeless=True),
}


def format_of(name: str) -> Format:
    """The format called `name`, which may be a user's own function."""
    return FORMATS[DATAFRAME if is_own(name) else name]


def known_format(name: str) -> str:
    """`name` itself. Raises ValueError, listing the known names, where it is not one that a configuration may use."""
    names = [each for each in FORMATS if each != DATAFRAME]
    if name in names:
        return name
    if not is_own(name):
        raise ValueError(
            f"must be one of {', '.join(names)}, or a function that gives a DataFrame (is {name!r})"
            f"{did_you_mean(name, names)}"
        )
    try:
        split_name(name)
    except FunctionError as error:
        raise ValueError(str(error)) from error
    return name


def users(key: str) -> tuple[str, ...]:
    """The formats that use `key` of the input section."""
    return tuple(name for name, each in FORMATS.items() if key in ("format", "path") or key in each.keys)
