"""Decides whether labels are classes or numbers to predict, by their column's type and values."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparksplit.dataset.labels import BOOLEANS, spellings
from sparksplit.prepare.tables.cells import Cells, changed, label_kind, short
from sparksplit.prepare.tables.folders import are_whole
from sparksplit.prepare.tables.raw_frame import PLACE, RawFrame, by_place
from sparksplit.prepare.tables.readers import as_input_error

if TYPE_CHECKING:
    from sparksplit.base.errors import ConfigError
    from sparksplit.dataset.description import LabelSpec
    from sparksplit.prepare.preprocess_config import InputConfig

WHOLE = ("boolean", "tinyint", "smallint", "int", "bigint")
_NUMBERS = (*WHOLE, "float", "double")
_WHOLE_FLOAT64 = 2**53
"""From here on, float64 does not have every whole number."""
_EXAMPLES = 100
"""Large labels that are looked at."""
_WHOLE_TEXT = re.compile(r"\s*[+-]?[0-9]+(\.0*)?\s*", re.ASCII)


def is_number(kind: str) -> bool:
    """Return whether Spark's type `kind` is a number or boolean."""
    return kind in _NUMBERS or kind.startswith("decimal(")


def kind_of_label(
    config: InputConfig, parts: Mapping[str, RawFrame], name: str, fitted: LabelSpec | None = None
) -> tuple[str, str | None]:
    """Return (how the labels in the column `name` are read: integer, number or text; a message for the user or None).

    fitted: the label whose classes are known, or None.

    Labels that have a point are read, to see whether they are whole numbers. Raise ConfigError if the column cannot
    have labels of the type in the configuration.
    """
    asked, train = config.label_type, parts["train"]
    if name in train.folders:
        whole = are_whole({value for part in parts.values() for value in part.folders.get(name, ())})
        return ("integer" if whole else "text") if asked == "auto" else asked, None
    if (cells := train.cells) is not None:
        known, first = _known_texts(cells, name), len(cells.sample) if name in cells.names else 0
        if asked == "auto" and first and not known:
            why: ConfigError = config.error("label_type", f"must be given: the first {first} labels are missing")
            raise why
        return _of_texts(known, cells.say(name)) if asked == "auto" else (asked, None)
    kind = dict(train.types)[name]
    whole = kind in WHOLE or (kind.startswith("decimal(") and kind.endswith(",0)"))
    natural = "text" if kind == "boolean" else "integer" if whole else "number" if is_number(kind) else "text"
    wanted = natural if asked == "auto" else asked
    fits = whole or wanted == natural or (natural == "number" and wanted == "integer")
    if kind in ("float", "double") and wanted == "text":  # pandas makes them of booleans with gaps
        fits = bool(fitted is not None and spellings(_classes(fitted)))
    if not (is_number(kind) or kind == "string") or not fits:
        error: ConfigError = config.error(
            "label", f"column {name!r} is {kind}, which cannot be a label of type {wanted}; cast it"
        )
        raise error
    if asked != "auto" or natural != "number":
        return wanted, None
    if _is_nominal(train, name):
        return "integer", f"column {name!r}: pyspark.ml marks these labels as categories. They become classes"
    with as_input_error(config.place):
        return settled(_limits(train, name), f"column {name!r}")


def spelled(kind: str | None, train: RawFrame, name: str | None, fitted: LabelSpec | None) -> dict[str, str]:
    """Return the label of each lower-case text, such as {"1.0": "true"}, if the labels in the column `name` are
    booleans. Otherwise return {}.

    kind: how the labels are read, or None without labels. fitted: the labels of an earlier data set, or None
    """
    if kind is None or name is None:
        return {}
    if fitted is not None and not kind == fitted.kind == "number":
        classes = _classes(fitted)
        return spellings(classes) if fitted.kind == kind and (kind == "text" or classes == ["0", "1"]) else {}
    if name in train.folders:
        booleans = _are_booleans(train.folders[name])
    elif train.cells is not None:
        booleans = _are_booleans(_known_texts(train.cells, name))
    else:
        booleans = dict(train.types)[name] == "boolean"
    return spellings(BOOLEANS if kind == "text" else ("0", "1")) if booleans else {}


def _classes(fitted: LabelSpec) -> list[str]:
    """Return the classes of the training rows."""
    return (fitted.classes or [])[: -1 if fitted.unknown else None]


def _are_booleans(texts: Collection[str]) -> bool:
    return bool(texts) and all(text.strip().lower() in BOOLEANS for text in texts)


def _known_texts(cells: Cells, name: str) -> list[str]:
    """Return the labels of the first rows that are not missing."""
    places = [cells.names.index(name)] if name in cells.names else []
    texts = [fields[place] for fields in cells.sample for place in places]
    return [text for text in texts if not cells.is_missing(text) and text.strip().lower() != "nan"]


def settled(limits: tuple[float, float] | None, column: str) -> tuple[str, str | None]:
    """Like `kind_of_label`, for labels with a point.

    limits: the smallest and the largest label if all labels are whole numbers, otherwise None
    """
    if limits is None:
        return "number", None
    if limits == (0.0, 1.0):
        return "integer", (
            f"the labels ({column}) are exactly 0.0 and 1.0. They become classes. If they are numbers to predict, set "
            "input.label_type: number"
        )
    return "number", (
        f"the labels ({column}) are whole numbers that are written with a point. They become numbers to predict. If "
        "they are classes, set input.label_type: integer"
    )


def digits_lost(train: RawFrame, name: str, place: str) -> str | None:
    """Return a message with an example if number labels in the column `name` are whole numbers that float64 rounds.

    Of text files, only the first records are known here. place: the input, for errors
    """
    column = f"column {name!r}"
    if name in train.folders:
        texts = sorted(train.folders[name])
    elif (cells := train.cells) is not None:
        column, position = cells.say(name), cells.names.index(name)
        texts = [fields[position] for fields in cells.sample]
    else:
        with as_input_error(place):
            texts = _large(train, name)
    for text in texts:
        stored = changed(text, np.dtype(np.float64))
        if stored is not None and stored.is_finite():
            return (
                f"the labels ({column}) have more digits than float64 holds: {short(text)} becomes {stored:f}. If they "
                "are classes, set input.label_type: text. If they are numbers to predict, subtract a constant from them"
            )
    return None


def _large(train: RawFrame, name: str) -> list[str]:
    """Return some labels from 2^53 on as texts, without most of those that float64 holds. Labels that are doubles lose
    nothing, so none of them is returned.
    """
    from pyspark.sql import functions as sql

    kind = dict(train.types)[name]
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    may_be_large = kind in ("bigint", "string") or (digits is not None and int(digits[1]) - int(digits[2]) > 15)
    if not may_be_large:
        return []
    label = PLACE.format(train.frame.columns.index(name))
    value = sql.expr(f"try_cast({label} AS double)")
    size = sql.abs(value)
    frame = by_place(train.frame).select(sql.col(label), value.alias("stored"), size.alias("size"))
    # For Spark, NaN is larger than any other number. Its doubles have all digits as bigint, but not as decimal.
    held = sql.expr(f"try_cast({label} AS decimal(38,0)) <=> try_cast(stored AS bigint)")
    large = frame.where(sql.col("size").between(_WHOLE_FLOAT64, sys.float_info.max) & ~held)
    if kind == "string":
        large = large.where(f"{label} NOT RLIKE '[eE]'")  # the last digits of such numbers do not matter
    return [row[0] for row in large.select(sql.col(label).cast("string")).head(_EXAMPLES)]


def _of_texts(texts: Sequence[str], column: str) -> tuple[str, str | None]:
    kind = label_kind(texts)
    if kind != "number" or not all(map(_WHOLE_TEXT.fullmatch, texts)):
        return kind, None
    numbers = sorted(map(float, texts))
    return settled((numbers[0], numbers[-1]), column)


def _is_nominal(train: RawFrame, name: str) -> bool:
    """Return whether pyspark.ml marks the column as indices of categories, as its StringIndexer does."""
    metadata = next(field.metadata for field in train.frame.schema.fields if field.name == name)
    attribute = (metadata or {}).get("ml_attr", {})
    return isinstance(attribute, dict) and attribute.get("type") in ("nominal", "binary")


def _limits(train: RawFrame, name: str) -> tuple[float, float] | None:
    """Return the smallest and the largest label if all labels are whole numbers, otherwise None."""
    from pyspark.sql import functions as sql

    value = sql.col(PLACE.format(train.frame.columns.index(name))).cast("double")
    labels = by_place(train.frame).select(value.alias("label")).where("label IS NOT NULL AND NOT isnan(label)")
    if labels.where("label != rint(label)").head(1):  # Spark stops at the first
        return None
    least, most = labels.agg(sql.min("label"), sql.max("label")).collect()[0]
    return None if least is None else (least, most)
