"""The classes of a data set, and how rows of validation and test are treated whose label no training row has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import TOKENS, UNKNOWN, LabelSpec
from sparksplit.dataset.lane_files import label_column, label_of
from sparksplit.dataset.manifest import SPLITS

F64 = npt.NDArray[np.float64]
Unseen = Literal["error", "unknown", "drop"]
MAX_CLASSES = 100_000
BOOLEANS = ("false", "true")
"""The classes of labels that are booleans, in the order of their indices."""
_MEANS = {"false": 0, "0": 0, "0.0": 0, "true": 1, "1": 1, "1.0": 1}
"""The index of the class that a text means, if labels are booleans. pandas makes 0.0 and 1.0 of booleans with gaps."""
_MANY_CLASSES, _ROWS_PER_CLASS = 100, 2
"""Whole numbers with at least this many distinct values, and fewer rows than this per value, count as a quantity."""


@dataclass(frozen=True)
class Labels:
    """The result of reading the rows' labels.

    classes: their names, by index; None if labels are not classes.
    unseen: by split, the rows of validation and test with a label that no training row has. Only splits with such rows.
    """

    classes: list[str] | None
    unseen: dict[str, int] = field(default_factory=dict)


def classified(kind: str | None) -> bool:
    """Whether labels of this kind are classes that are found among the rows."""
    return kind in ("integer", "text")


def check_number_of_labels(different: int, place: str) -> None:
    """Raise InputError if there are more labels than the largest number of classes."""
    if different > MAX_CLASSES:
        raise InputError(
            f"{place}: more than {MAX_CLASSES} different labels. If the labels are numbers to predict,"
            " set input.label_type: number"
        )


def check_classes(rows: Mapping[Any, int], kind: str | None, place: str, *, declared: bool) -> None:
    """Raise InputError for labels that cannot be classes: too many labels, or whole numbers with about one row each.

    rows: of each raw label. The other arguments are those of `labels_of`
    """
    check_number_of_labels(len(rows), place)
    count, hint = sum(rows.values()), _hint(kind, declared)
    if hint and len(rows) >= _MANY_CLASSES and count < _ROWS_PER_CLASS * len(rows):
        raise InputError(
            f"{place}: {len(rows)} different labels in {count} rows{hint}. If they are classes,"
            " set input.label_type: integer"
        )


def check_two(rows: Mapping[Any, int], place: str) -> None:
    """Raise InputError if there is only one class. rows: of training, by raw label"""
    if len(rows) == 1:
        label, count = next(iter(rows.items()))
        raise InputError(
            f"{place}: all {count} training rows have the label {label!r}: a classifier needs two classes or more. Add "
            "rows of other labels, or name another column in input.label"
        )


def _hint(kind: str | None, declared: bool) -> str:
    return "" if declared or kind == "text" else ". If the labels are numbers to predict, set input.label_type: number"


def labels_of(
    counts: Mapping[str, Mapping[Any, int]], kind: str | None, place: str, *, declared: bool, unseen: Unseen = "error"
) -> Labels:
    """Return the classes: the sorted distinct labels of the training rows, then `<unknown>` with unseen: unknown.

    counts: rows by split and raw label, without bad rows.
    kind: how labels are read.
    place: name of the rows in errors.
    declared: whether the user has declared the labels to be classes.

    Raise InputError for labels that cannot be classes, and for a single class. With unseen: error, also raise
    InputError for labels that no training row has.
    """
    if not classified(kind):
        return Labels(None)
    known = counts["train"]
    check_classes(sum((Counter(of_split) for of_split in counts.values()), Counter()), kind, place, declared=declared)
    unseen_rows = rows_beyond(counts, known) if known else {}
    if unseen_rows and unseen == "error":
        raise InputError(f"{place}: {_unseen(_beyond(counts, known))}{_hint(kind, declared)}")
    check_two(known, place)
    classes = [str(label) for label in sorted(known)]
    if unseen == "unknown":
        if UNKNOWN in classes:
            raise InputError(
                f"{place}: the label {UNKNOWN!r} occurs in the input, but unseen_labels: unknown needs this name; "
                "rename the label"
            )
        classes.append(UNKNOWN)
    return Labels(classes, unseen_rows)


def fitted_labels(
    counts: Mapping[str, Mapping[Any, int]], label: LabelSpec | None, place: str, unseen: Unseen
) -> Labels:
    """Return the labels of rows whose classes are fixed by `label`, of an earlier data set.

    counts: rows by label, for each split. label: None if rows have no labels. place: the input, for the error. A label
    that is none of the classes is unseen, in training rows too. It belongs to the class `<unknown>` if `label` has that
    class. Otherwise its rows are dropped if `unseen` is drop; if not, raise InputError.
    """
    values = known_values(label)
    if label is None or values is None:
        return Labels(None if label is None else label.classes)
    known = set(values.to_pylist())
    unseen_rows = rows_beyond(counts, known)
    if unseen_rows and not label.unknown and unseen != "drop":
        name = next(iter(unseen_rows))
        raise InputError(
            f"{place}: label {min(_beyond(counts, known)[name])!r} ({name} split) is not one of the fitted classes; "
            "unseen_labels: drop leaves such rows out"
        )
    return Labels(label.classes, unseen_rows)


def rows_beyond(counts: Mapping[str, Mapping[Any, int]], known: Collection[Any]) -> dict[str, int]:
    """Return the rows whose label is not `known`, by split. Only splits with such rows. counts: rows by split and raw
    label"""
    return {name: sum(of_split.values()) for name, of_split in _beyond(counts, known).items() if of_split}


def _beyond(counts: Mapping[str, Mapping[Any, int]], known: Collection[Any]) -> dict[str, dict[Any, int]]:
    return {name: {label: rows for label, rows in of.items() if label not in known} for name, of in counts.items()}


def _unseen(left: Mapping[str, Mapping[Any, int]]) -> str:
    name = next(name for name in SPLITS[1:] if left.get(name))
    first = min(left[name])
    more = len(set().union(*left.values())) - 1
    also = f", nor do {more} others" if more > 1 else ", nor does 1 other" if more else ""
    return (
        f"label {first!r} ({left[name][first]} rows of the {name} split) does not occur in the training split{also}. "
        "cut.stratify: true keeps a row of each label for training. unseen_labels: unknown makes these labels "
        "one class, unseen_labels: drop leaves their rows out"
    )


def counted(rows: Mapping[Any, int], label: LabelSpec | None) -> list[int] | None:
    """Return the rows of each class. None if labels are not classes found among the rows. rows: by raw label"""
    values = known_values(label)
    if label is None or values is None:
        return None
    known = [rows.get(value, 0) for value in values.to_pylist()]
    return [*known, sum(rows.values()) - sum(known)] if label.unknown else known


def known_values(label: LabelSpec | None) -> pa.Array | None:
    """Return the raw values of the training rows' classes, by index. None if labels are stored unchanged."""
    if label is None or label.classes is None or label.kind in TOKENS:
        return None
    names = label.classes[:-1] if label.unknown else label.classes
    if label.kind == "integer":
        return pa.array([int(name) for name in names], type=pa.int64())
    return pa.array(names, type=pa.string())


def spellings(classes: Sequence[str]) -> dict[str, str]:
    """Return the class that each text means if the two `classes` are false and true, otherwise {}.

    Keys are in lower case. pandas writes a boolean as `True`, Spark as `true`, and a whole number may stand for it.
    """
    if [_MEANS.get(name.strip().lower()) for name in classes] != [0, 1]:
        return {}
    return {text: classes[index] for text, index in _MEANS.items()}


def are_alike(classes: Sequence[str] | None, others: Sequence[str] | None) -> bool:
    """Return whether class indices mean the same: the names are equal, or spell false and true in two ways."""
    return classes == others or bool(classes and others and spellings(classes) and spellings(others))


def label_specs_alike(one: LabelSpec | None, other: LabelSpec | None) -> bool:
    """Return whether stored labels mean the same: they are equal, or booleans that are spelled in two ways."""
    if one is None or other is None or one.classes == other.classes:
        return one == other
    spelled = {"classes": other.classes, "kind": other.kind}
    return are_alike(one.classes, other.classes) and one.model_copy(update=spelled) == other


def rounded(numbers: npt.NDArray[Any]) -> F64:
    """Return number labels as they are stored: rounded to float32, unless that changes a number by 0.5 or more. Such a
    number stays float64.

    So the stored label, and the hash of its row, do not depend on other rows.
    """
    whole = np.asarray(numbers, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        short = whole.astype(np.float32).astype(np.float64)
        return np.where(np.abs(short - whole) < 0.5, short, whole)


def wide(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which `rounded` labels float32 cannot hold."""
    with np.errstate(over="ignore"):
        mask: npt.NDArray[np.bool_] = np.isfinite(numbers) & (numbers.astype(np.float32) != numbers)
    return mask


def parsed_numbers(column: pa.Array) -> F64:
    """Return the labels of a column of parsed labels, flat. A row may have several."""
    kind = LabelSpec(dtype="float64", kind="number", shape=[])
    if not pa.types.is_binary(column.type):
        return label_of(pa.chunked_array([column]), kind)
    _, offsets, values = column.buffers()
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    return np.frombuffer(values, np.float64, (int(ends[-1]) - int(ends[0])) // 8, int(ends[0]))


def stored_numbers(column: pa.Array, label: LabelSpec) -> pa.Array:
    """Return the column of stored labels from the column of parsed labels."""
    return label_column(label_of(pa.chunked_array([column]), label.parsed).astype(label.numpy_dtype), label)


def indices(labels: pa.Array | pa.ChunkedArray, values: pa.Array, unknown: bool) -> pa.Array | pa.ChunkedArray:
    """Return the class index of each raw label, int64, by `known_values`. Any other label gets the index of
    `<unknown>`, or null if that class does not exist.
    """
    index = pc.index_in(labels, value_set=values).cast(pa.int64())
    return index.fill_null(len(values)) if unknown else index


def places(label: Any, labels: pa.Array) -> npt.NDArray[np.int64]:
    """Return the position of each raw label in `labels`, -1 if it is not there: int64 [rows]."""
    column = label if isinstance(label, pa.Array | pa.ChunkedArray) else pa.array(label, type=labels.type)
    index = pc.index_in(column, value_set=labels)
    array: npt.NDArray[np.int64] = index.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return array
