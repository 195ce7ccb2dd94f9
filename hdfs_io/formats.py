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

_COLUMNS = frozenset(("label", "label_type", "dtype", "shape", "keep", "missing", "max_bad_rows"))


@dataclass(frozen=True)
class Format:
    """What the configuration has to know of a format.

    source: its class, as `module:Class` within hdfs_io.sources, made with (config, validation, test); "" where the rows
    come as a DataFrame.
    keys: of the input section that it uses, beside `format` and `path`.
    shapeless: whether rows have neither a dtype nor a shape of their own, so that a model's are taken for `predict`.
    tokens: whether rows are sequences of tokens, cut into splits by their place instead of by a hash.
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
"""The format of a DataFrame, which no file of a configuration can name; and of what a user's own function gives."""

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
    """The format `name`, which may be that of a user's own function."""
    return FORMATS[DATAFRAME if is_own(name) else name]


def known_format(name: str) -> str:
    """`name`. Raises ValueError, with the names that there are, where a configuration cannot mean it."""
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
    """The formats that the key of the input section means something to."""
    return tuple(name for name, each in FORMATS.items() if key in ("format", "path") or key in each.keys)
