"""Which keys of an input section go together."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sparksplit.base.config import Config
from sparksplit.base.errors import ConfigError
from sparksplit.base.user_functions import is_own
from sparksplit.prepare.formats import DATAFRAME, PATHS, format_of, users
from sparksplit.prepare.windows_config import check_windows

if TYPE_CHECKING:
    from sparksplit.prepare.config import InputConfig


def check_used(config: Config, key: str, formats: Collection[str], format_name: str) -> None:
    """Raise ConfigError where `key` was set, even to its default, though only other `formats` use it."""
    name = DATAFRAME if is_own(format_name) else format_name
    if key in config.model_fields_set and name not in formats:
        error: ConfigError = config.error(key, f"is for {_listed(formats)}; the format is {format_name}")
        raise error


def _listed(formats: Collection[str]) -> str:
    return " and ".join("DataFrames" if name == DATAFRAME else name for name in formats)


def check_input(config: InputConfig) -> None:
    """Raise ConfigError for keys of an input section that its format does not use, or that contradict each other."""
    for key in type(config).model_fields:
        check_used(config, key, users(key), config.format)
    for key in ("path", "table", "query"):
        if key in format_of(config.format).keys and getattr(config, key) is None:
            missing: ConfigError = config.error(key, "is required")
            raise missing
    if not format_of(config.format).patterns:
        for key in PATHS:
            if isinstance(getattr(config, key), list):
                config.one_path(key)
    check_windows(config)
    is_float = (config.dtype or "float32").startswith("float")
    is_csv = config.format == "csv"
    numbered = (config.format == "hive-text" or (is_csv and not config.header)) and not config.columns
    has_columns = format_of(config.format).columns
    problems: list[tuple[bool, str, str]] = [
        (config.missing == "mean" and not is_float, "missing", f"mean needs a float dtype (is {config.dtype})"),
        (
            not has_columns and "label" in config.model_fields_set and config.label is not None,
            "label",
            f"names a column, which csv has; for {config.format} it is left out, or null (is {config.label!r})",
        ),
        (
            numbered and isinstance(config.label, str),
            "label",
            f"must be a position where there is no header, or input.columns must give names (is {config.label!r})",
        ),
        (
            numbered and any(isinstance(column, str) for column in config.keep),
            "keep",
            "must be positions where there is no header, or input.columns must give names",
        ),
        (is_csv and config.header and bool(config.columns), "columns", "is for files without a header (input.header)"),
        (len(set(config.columns)) < len(config.columns), "columns", "names a column twice"),
        (
            config.encoding.upper().replace("-", "").startswith(("UTF16", "UTF32")) and not config.multiline,
            "encoding",
            f"{config.encoding} needs input.multiline: true (its line ends are no single bytes)",
        ),
        (
            config.format == "idx" and config.label_type == "text",
            "label_type",
            "must be integer or number for IDX labels (is text)",
        ),
    ]
    for wrong, key, message in problems:
        if wrong:
            error: ConfigError = config.error(key, message)
            raise error
