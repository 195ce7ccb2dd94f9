"""Checks which keys of a configuration fit together: of `input`, the cut, windows, and all of `preprocess`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from sparksplit.base.config import Config
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.base.keys import keys_of, mark_of
from sparksplit.dataset.description import Description
from sparksplit.prepare.cut_config import CutConfig, moment
from sparksplit.prepare.formats import DATAFRAME, FORMATS, PATHS, format_of, table_name, users
from sparksplit.prepare.preprocess_config import InputConfig, PreprocessConfig

AnyPreprocess = TypeVar("AnyPreprocess", bound=PreprocessConfig)


def check(config: PreprocessConfig) -> None:
    """Raise ConfigError for values that contradict each other."""
    if config.validation + config.test >= 1:
        raise config.error(
            "validation",
            f"must be below 1 together with test, or no training rows are left ({config.validation} + {config.test})",
        )
    if config.input.test is not None and config.test > 0:
        raise config.error("test", f"must be 0, because input.test is the test split (is {config.test})")
    if config.input.validation is not None and config.validation > 0 and "validation" in config.model_fields_set:
        message = f"must be 0, because input.validation is the validation split (is {config.validation})"
        raise config.error("validation", message)
    if "scaling_by" in config.model_fields_set and config.scaling == "none":
        raise config.error("scaling_by", "has no effect with scaling: none; remove it")
    for key in ("features", "scaling", "scaling_by", "label_scaling") if config.fitted is not None else ():
        # An empty value, such as `features: {}` in a ready configuration, does no harm.
        if key in config.model_fields_set and getattr(config, key) not in (None, {}, "none"):
            raise config.error(key, f"must be left out, because it comes from {config.fitted} (fitted)")
    if config.features is not None and not format_of(config.input.format).columns:
        raise _unfit(
            config, "features", f"needs rows with columns; input.format {config.input.format} has none", config.input
        )
    no_numbers = config.input.label is None or config.input.label_type in ("integer", "text")
    config.check_label_scaling(None if no_numbers else "number")
    _check_used(config, config.input)
    no_classes = config.input.label is None or config.input.label_type == "number"
    if no_classes and "unseen_labels" in config.model_fields_set:
        raise config.error("unseen_labels", "needs labels that are classes")
    used = format_of(config.input.format)
    with_cut = config.model_copy(update={"cut": timed(config)})
    check_cut(with_cut, tokens=used.tokens, columns=used.columns)
    if format_of(config.input.format).tokens:
        if config.scaling != "none":
            raise config.error(
                "scaling", f"must be none for a text: its tokens are not quantities (is {config.scaling})"
            )
        if config.input.label is None:
            raise config.input.error(
                "label", "must not be null: on a text, a model is trained to predict the next token"
            )
    check_input(config.input)


def effective(config: AnyPreprocess) -> AnyPreprocess:
    """Return `config` as it takes effect. `input.validation` sets the fraction `validation` to 0. Windows are cut by
    time."""
    fractions = {} if config.input.validation is None else {"validation": 0.0}
    return (
        config.model_copy(update={**fractions, "cut": timed(config)}) if fractions or config.input.windows else config
    )


def _unfit(section: Config, key: str, message: str, config: InputConfig) -> ConfigError:
    """Return the error about `key` of `section`, which does not fit the format of `config`. If the user gave no format,
    the error is about the missing format, because the user never named the default.
    """
    default = InputConfig.model_fields["format"].default
    if "format" in config.model_fields_set or config.format != default:
        return section.error(key, message)
    names = [name for name in FORMATS if name not in (default, DATAFRAME)]
    todo = f"set it to {', '.join(names)} or your own function"
    for path in config.paths_of("path")[:1]:
        suffix = path.lower().removesuffix(".gz").rpartition(".")[2]
        if suffix in names:
            todo = f"for {path} set input.format={suffix}"
    whole = ".".join((*section.origin.prefix, key))
    return config.error(
        "format", f"is not set, and its default {default} (MNIST's files) does not go with {whole}; {todo}"
    )


def _check_used(section: Config, config: InputConfig) -> None:
    """Raise ConfigError if a key of `section` is set (even to its default) that the format of `config` does not use."""
    name = table_name(config.format)
    for key in type(section).model_fields:
        formats = users(mark_of(type(section), key))
        if key in section.model_fields_set and name not in formats:
            known = " and ".join("DataFrames" if each == DATAFRAME else each for each in formats)
            raise _unfit(section, key, f"is for {known}; the format is {config.format}", config)


def check_input(config: InputConfig) -> None:
    """Raise ConfigError for input keys that the format does not use, or that contradict each other."""
    _check_used(config, config)
    for key in ("path", "table", "query"):
        if config.uses(key) and getattr(config, key) is None:
            raise config.error(key, "is required")
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
            f"must be left out or null for {config.format}, which has no columns (is {config.label!r})",
        ),
        (
            numbered and isinstance(config.label, str),
            "label",
            f"must be a position without a header; or name the columns in input.columns (is {config.label!r})",
        ),
        (
            numbered and any(isinstance(column, str) for column in config.keep),
            "keep",
            "must be positions without a header; or name the columns in input.columns",
        ),
        (
            is_csv and config.header and bool(config.columns),
            "columns",
            "is only for files without a header (input.header: false)",
        ),
        (len(set(config.columns)) < len(config.columns), "columns", "names a column twice"),
        (
            config.encoding.upper().replace("-", "").startswith(("UTF16", "UTF32")) and not config.multiline,
            "encoding",
            f"{config.encoding} needs input.multiline: true (a line end takes several bytes)",
        ),
        (
            config.format == "idx" and config.label_type == "text",
            "label_type",
            "must be integer or number for IDX labels (is text)",
        ),
    ]
    for wrong, key, message in problems:
        if wrong:
            raise _unfit(config, key, message, config)


def check_apart(config: InputConfig, files: Mapping[str, Iterable[str]]) -> None:
    """Raise InputError for a file that two keys name, because its rows would be in two splits.

    files: the paths of the files that each key (path, validation, test) names
    """
    origins: dict[str, str] = {}
    for key, paths in files.items():
        for path in paths:
            if (before := origins.setdefault(path, key)) == key:
                continue
            one, other = f"input.{before}", f"input.{key}"
            todo = f"give {other} a file or folder outside {one}"
            if before != "path":
                todo = "leave out one of the two keys, or give them different files"
            elif format_of(config.format).patterns:
                todo = f"give {one} a pattern or a list of files that leaves this file out"
            raise InputError(f"{path}: is in {one} and in {other}, so its rows would be in two splits; {todo}")


def check_missing(config: InputConfig, description: Description, fitted: str) -> None:
    """Raise ConfigError if `config` stores missing values that `description` has no means for.

    A table of mixed columns is not checked, because its features say how to fill a missing value.

    description: of the earlier data or model. fitted: its name in the message
    """
    tensor = description.preprocessing.tensors.get(description.model_tensors[0].name)
    if config.missing == "mean" and not description.features and (tensor is None or tensor.impute is None):
        message = f"{fitted} was fitted on data without missing values, so it has no means to fill them"
        raise config.error("missing", f"must be error: {message}")


def check_cut(config: PreprocessConfig, *, tokens: bool, columns: bool) -> None:
    """Raise ConfigError for keys of the cut that contradict each other, or the rest of `config`.

    tokens: whether the format is cut into consecutive parts. columns: whether rows have columns with names or positions
    """
    cut = config.cut
    by = f"cut.by is {cut.by}"
    if tokens and cut.model_fields_set:
        key = next(name for name in CutConfig.model_fields if name in cut.model_fields_set)
        raise cut.error(key, f"is not for {config.input.format}, which is always cut into three consecutive parts")
    for key in keys_of(CutConfig, lambda mark: mark.users):
        kinds = mark_of(CutConfig, key).users
        if key in cut.model_fields_set and cut.by not in kinds:
            raise cut.error(key, f"is for cut.by: {' and '.join(kinds)} ({by})")
    if cut.by in ("key", "time", "column") and not columns:
        raise _unfit(cut, "by", f"{cut.by} needs columns, which {config.input.format} does not have", config.input)
    if cut.by == "key" and not cut.columns:
        raise cut.error("columns", f"must name the columns whose rows stay together ({by})")
    if cut.by in ("time", "column") and cut.column is None:
        raise cut.error("column", f"must be given ({by})")
    if len(set(cut.columns)) < len(cut.columns):
        raise cut.error("columns", "names a column twice")
    _check_boundaries(cut)
    if cut.stratify and (config.input.label is None or config.input.label_type == "number"):
        raise cut.error("stratify", "needs labels that are classes")
    without = "boundaries in time are given" if cut.boundaries else by if cut.by == "column" else ""
    for key in ("validation", "test") if without else ():
        if key in config.model_fields_set and getattr(config, key) > 0:
            raise config.error(key, f"must be 0, because {without}")
        if getattr(config.input, key) is not None:
            raise config.input.error(key, f"must be left out, because {without}")
    if cut.by in ("time", "column") and "seed" in config.model_fields_set:
        raise config.error("seed", f"has no effect, because {by}; remove it")


def _check_boundaries(cut: CutConfig) -> None:
    first, second = cut.validation_from, cut.test_from
    if first is None or second is None:
        return
    if isinstance(first, str) != isinstance(second, str):
        raise cut.error("test_from", f"must be a time or a number like cut.validation_from, {first!r} (is {second!r})")
    if moment(first) >= moment(second):
        raise cut.error("test_from", f"must be later than cut.validation_from, {first!r} (is {second!r})")


def check_windows(config: InputConfig) -> None:
    """Raise ConfigError for input keys that do not fit `input.windows`."""
    windows = config.windows
    if windows is None:
        return
    if config.label_type not in ("auto", "number"):
        raise config.error("label_type", f"must be number with input.windows (is {config.label_type})")
    if config.features is not None:
        raise config.error("features", "must be left out with input.windows: windows hold all columns")
    if config.shape is not None:
        raise config.error("shape", "must be left out with input.windows: their shape is [window, columns]")
    if not (config.dtype or "float32").startswith("float"):
        raise config.error(
            "dtype", f"must be a float dtype with input.windows, since NaN marks missing values (is {config.dtype})"
        )
    if windows.order in windows.by or len(set(windows.by)) < len(windows.by):
        raise windows.error("by", "lists a column twice, or the column of input.windows.order")


def timed(config: PreprocessConfig) -> CutConfig:
    """Return the cut of `config`. Windows are cut by the time of the last row of their label.

    Raise ConfigError if `config` asks for another cut of windows, or for a key that windows cannot have.
    """
    cut, windows = config.cut, config.input.windows
    if windows is None:
        return cut
    if cut.by != "time" and "by" in cut.model_fields_set:
        message = "windows overlap, so another cut would train on test values"
        raise cut.error("by", f"must be time with input.windows: {message} (is {cut.by})")
    if cut.column is not None and cut.column != windows.order:
        raise cut.error("column", f"must be left out: windows are cut by input.windows.order (is {cut.column!r})")
    if config.features is not None:
        raise config.error("features", "must be left out with input.windows: all columns of windows are numbers")
    if config.input.label is None:
        raise config.input.error("label", "must be the column whose next values the model predicts (is null)")
    return cut.model_copy(update={"by": "time", "column": windows.order})
