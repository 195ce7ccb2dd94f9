"""Texts for people about a column's values: how many differ, how many are missing, and what to doubt."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.base.yaml_edits import as_yaml
from sparksplit.dataset.feature_spec import Category, Feature
from sparksplit.features import times

LEAST = 20
"""Smallest number of values for a statement about what they look like."""
_EXAMPLES, _LOOKED_AT, _LENGTH = 3, 200, 40
_TEXT_WORDS = 4
"""Names and addresses mostly have fewer words, and sentences mostly have more."""
_DAYS = ("M/d/yyyy", "d/M/yyyy", "M-d-yyyy", "d-M-yyyy", "d.M.yyyy", "M.d.yyyy", "yyyy/M/d", "yyyy.M.d", "yyyyMMdd")
_TIMES = ("", " H:mm", " H:mm:ss", "'T'H:mm:ss")


def shown(values: pa.Array) -> str:
    """Return how many values differ, how many are missing, and some examples. values: null for a missing value."""
    there = values.drop_null()
    different = there.unique()
    missing = f"{values.null_count / max(1, len(values)):.1%} missing" if values.null_count else "none missing"
    examples = ", ".join(_short(value) for value in different[:_EXAMPLES].to_pylist())
    return f"{len(different):,} different in {len(values):,} rows, {missing}" + (f": {examples}" if examples else "")


def _short(value: str | float) -> str:
    text = f"{value:.7g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LENGTH else text[: _LENGTH - 3] + "..."


def doubt(name: str, values: pa.Array) -> str | None:
    """Return what else a category or a number looks like, and what to do. None: there is no doubt.

    values: texts or numbers in the order of the rows, null for a missing value.
    """
    there = values.drop_null()
    if len(there) < LEAST:
        return None
    if not pa.types.is_string(values.type):
        whole = pc.all(pc.equal(there, pc.floor(there))).as_py()
        return _of_whole_numbers(name, there.cast(pa.int64(), safe=False)) if whole else None
    some = there[:_LOOKED_AT]
    if _are_dates(some, None, moment=True):
        return f"looks like dates: {_feature(name, 'date')} reads them"
    if formats := _formats(some):
        return _dates(name, formats)
    different = len(there.unique()) / len(there)
    if different >= 0.5 and median(len(text.split()) for text in some.to_pylist()) >= _TEXT_WORDS:
        return f"looks like free text: {_feature(name, 'text')} reads its words"
    return _id(name) if different >= 0.9 else None


def unknown_texts(features: Iterable[Feature], rows: int) -> Iterator[str]:
    """Yield a line for each fitted category of texts of which a model learns nothing, because its vocabulary is empty.

    rows: number of training rows. Under LEAST rows, there is no line.
    """
    for feature in features if rows >= LEAST else ():
        if isinstance(feature, Category) and feature.hash is None and not feature.vocabulary:
            yield (
                f"{feature.column}: each text is in fewer training rows than `min_count` (default: 2), or is missing, "
                "so all are one unknown category. For free text, set its kind in `features` to text, which reads its "
                "words"
            )


def _of_whole_numbers(name: str, numbers: pa.Array) -> str | None:
    values = numbers.to_numpy()
    if values.min() >= 1900_01_01 and values.max() <= 2100_12_31 and _formats(numbers[:_LOOKED_AT].cast(pa.string())):
        return _dates(name, ["yyyyMMdd"])
    return _id(name) if (np.diff(values) > 0).all() else None


def _formats(texts: pa.Array) -> list[str]:
    """Return the formats in which the texts are dates."""
    every = [day + time for time in _TIMES for day in _DAYS]
    return [each for each in every if _are_dates(texts, each, times.has_time(each))]


def _are_dates(texts: pa.Array, format: str | None, moment: bool) -> bool:
    """Return whether at least nine in ten of the texts are dates."""
    return bool(times.parsed(texts, moment, format)[1].mean() <= 0.1)


def _dates(name: str, formats: Sequence[str]) -> str:
    other = f", or {formats[1]} if day and month are swapped" if len(formats) > 1 else ""
    return f"looks like dates: {_feature(name, f'{{format: {formats[0]}}}')} reads them{other}"


def _id(name: str) -> str:
    kept = _set(f"input.keep={as_yaml([name])}")
    return (
        f"looks like an id, from which a model learns nothing: {kept} copies it to the output, "
        f"{_feature(name, 'ignore')} leaves it out"
    )


def _feature(name: str, value: str) -> str:
    """Return what to set for a column: an argument of the command line, or a line for the configuration file."""
    if "." in name or "=" in name:  # --set would split the name
        return f"`features: {{{as_yaml(name)}: {value}}}` in the configuration file"
    return _set(f"features.{name}={value}")


def _set(given: str) -> str:
    """Return the argument of the command line for `given` (KEY=VALUE)."""
    return f"--set {shlex.quote(given)}"
