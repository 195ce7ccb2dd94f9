"""The classes of a data set, and the labels that no training row has: a long tail of singletons makes them certain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import UNKNOWN, LabelSpec
from sparksplit.dataset.labels import (
    Labels,
    are_alike,
    counted,
    fitted_labels,
    indices,
    known_values,
    label_specs_alike,
    labels_of,
    parsed_numbers,
    places,
    rounded,
    spellings,
    stored_numbers,
    wide,
)
from sparksplit.dataset.lane_files import label_column, label_of


def of(
    train: dict[Any, int],
    validation: dict[Any, int],
    test: dict[Any, int] | None = None,
    kind: str | None = "integer",
    **keys: Any,
) -> Labels:
    counts = {"train": train, "validation": validation, "test": test or {}}
    return labels_of(counts, kind, "prices.csv", **{"declared": False, **keys})


def test_whole_numbers_with_about_a_row_each_are_no_classes_unless_the_user_says_so() -> None:
    prices = {100_000 + 7 * number: 1 + (number % 9 == 0) for number in range(300)}
    message = (
        "prices.csv: 301 different labels in 335 rows. If the labels are numbers to predict, set "
        "input.label_type: number"
        ". If they are classes, set input.label_type: integer"
    )
    with pytest.raises(InputError) as error:
        of(prices, {100_001: 1})
    assert str(error.value) == message
    # Many rows of each, or few classes: they can be meant; a label that only validation has is told with the hint.
    for train in (dict.fromkeys(range(300), 9), dict.fromkeys(range(20), 1)):
        assert len(of(train, {}).classes or ()) == len(train)
        with pytest.raises(InputError, match=r"label 999 .*not occur.*\. If .*, set input\.label_type: number$"):
            of(train, {999: 1})
    assert len(of(prices, {}, declared=True).classes or ()) == 300
    with pytest.raises(InputError, match=r"does not occur in the training split.*leaves their rows out$"):
        of(prices, {100_001: 1}, declared=True)


def test_labels_that_no_training_row_has_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InputError) as error:
        of({"a": 9, "b": 3}, {"a": 1, "z": 2, "y": 1}, {"a": 1, "x": 4}, kind="text")
    assert str(error.value) == (
        "prices.csv: label 'y' (1 rows of the validation split) does not occur in the training split, nor do 2 others. "
        "cut.stratify: true keeps a row of each label for training. unseen_labels: unknown makes these labels "
        "one class, "
        "unseen_labels: drop leaves their rows out"
    )


def test_one_class_alone_is_refused() -> None:
    for label, kind in ((1, "integer"), ("a", "text")):
        for unseen in ("error", "unknown", "drop"):
            with pytest.raises(InputError) as error:
                of({label: 9}, {label: 2}, kind=kind, unseen=unseen)
            assert str(error.value) == (
                f"prices.csv: all 9 training rows have the label {label!r}: a classifier needs two classes or more. "
                "Add rows of other labels, or name another column in input.label"
            )
    with pytest.raises(InputError, match="does not occur in the training split"):
        of({1: 9}, {2: 1})


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_a_long_tail_of_singletons_is_one_class_or_left_out(kind: str) -> None:
    names: list[Any] = list(range(100, 140)) if kind == "integer" else [f"w{number}" for number in range(100, 140)]
    train, validation, test = {names[0]: 500, **dict.fromkeys(names[1:30], 1)}, {names[0]: 60, names[30]: 1}, names[31:]
    left = {"validation": 1, "test": 9}
    found = of(train, validation, dict.fromkeys(test, 1), kind=kind, declared=True, unseen="unknown")
    assert found == Labels([*map(str, names[:30]), UNKNOWN], left)
    assert of(train, {}, {}, kind=kind, declared=True, unseen="unknown") == Labels([*map(str, names[:30]), UNKNOWN])
    dropped = of(train, validation, dict.fromkeys(test, 1), kind=kind, declared=True, unseen="drop")
    assert dropped == Labels([*map(str, names[:30])], left)


def test_a_label_that_is_called_like_the_unknown_ones_is_no_other() -> None:
    with pytest.raises(
        InputError, match="the label '<unknown>' occurs in the input, but unseen_labels: unknown needs this name"
    ):
        of({UNKNOWN: 3, "a": 2}, {}, kind="text", unseen="unknown")
    assert of({UNKNOWN: 3, "a": 2}, {}, kind="text").classes == [UNKNOWN, "a"]


def test_labels_that_are_no_classes_have_none() -> None:
    assert of({}, {}, kind="number") == of({}, {}, kind=None) == Labels(None)


@pytest.mark.parametrize(
    ("kind", "classes", "raw", "wanted"),
    [
        ("integer", ["-3", "5"], [5, -3, 7], [1, 0, None]),
        ("integer", ["-3", "5", UNKNOWN], [5, -3, 7], [1, 0, 2]),
        ("text", ["1", "a", UNKNOWN], ["a", "1", UNKNOWN, "b"], [1, 0, 2, 2]),
        ("text", ["1", "a"], ["a", UNKNOWN], [1, None]),
    ],
)
def test_a_raw_label_is_its_class(kind: str, classes: list[str], raw: list[Any], wanted: list[int | None]) -> None:
    spec = LabelSpec(dtype="int64", classes=classes, kind=kind, unknown=UNKNOWN in classes)
    values = known_values(spec)
    assert values is not None
    found = indices(pa.array(raw), values, spec.unknown)
    assert found.type == pa.int64() and found.to_pylist() == wanted


def test_rows_are_counted_by_class() -> None:
    spec = LabelSpec(dtype="int64", classes=["-3", "5"])
    rows = {5: 2, 7: 4, 9: 1}
    assert counted(rows, spec) == [0, 2]
    assert counted(rows, spec.model_copy(update={"classes": ["-3", "5", UNKNOWN], "unknown": True})) == [0, 2, 5]
    assert counted({}, None) is counted({}, LabelSpec(dtype="float32", kind="number")) is None


@pytest.mark.parametrize(
    ("number", "stored", "is_wide"),
    [
        (20241231235959, 20241231235959, True),
        (-16777217, -16777217, True),
        (16777216, 16777216, False),
        (16777216.4, 16777216, False),
        (123456789.125, 123456789.125, True),
        (0.1, float(np.float32(0.1)), False),
        (1e-50, 0.0, False),
        (1e39, 1e39, True),
        (-1e300, -1e300, True),
        (np.inf, np.inf, False),
    ],
)
def test_labels_that_are_numbers_lose_digits_after_the_point_alone(number: float, stored: float, is_wide: bool) -> None:
    found = rounded(np.array([number]))
    assert found.dtype == np.float64 and found[0] == stored == rounded(found)[0]
    assert wide(found).tolist() == [is_wide]
    assert not wide(rounded(np.array([np.nan]))).any()


@pytest.mark.parametrize("shape", [[], [2]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_stored_in_the_float_type_of_the_data_set(dtype: str, shape: list[int]) -> None:
    label = LabelSpec(dtype=dtype, kind="number", shape=shape)
    numbers = np.arange(6.0).reshape(-1, *shape)
    column = label_column(numbers, label.parsed).slice(1)
    assert parsed_numbers(column).tolist() == numbers[1:].reshape(-1).tolist()
    stored = label_of(pa.chunked_array([stored_numbers(column, label)]), label)
    assert stored.dtype == dtype and stored.tolist() == numbers[1:].tolist()


def test_places_are_those_of_values_that_need_not_be_there() -> None:
    assert places([3, 1, 2], pa.array([1, 3])).tolist() == [1, 0, -1]
    assert places(pa.array(["b", "\0", "a"]), pa.array(["a", "b", "\0"])).tolist() == [1, 2, 0]


FITTED = LabelSpec(dtype="int64", classes=["no", "yes"], kind="text")


def test_fitted_classes_stay_and_other_labels_are_unseen_in_every_split() -> None:
    counts = {"train": {"yes": 3, "maybe": 2}, "validation": {"no": 1}, "test": {"never": 4}}
    with pytest.raises(InputError, match=r"label 'maybe' \(train split\) is not one of the fitted classes"):
        fitted_labels(counts, FITTED, "rows", "error")
    dropped = fitted_labels(counts, FITTED, "rows", "drop")
    assert (dropped.classes, dropped.unseen) == (["no", "yes"], {"train": 2, "test": 4})
    unknown = FITTED.model_copy(update={"classes": ["no", "yes", UNKNOWN], "unknown": True})
    assert fitted_labels(counts, unknown, "rows", "error").unseen == {"train": 2, "test": 4}
    assert fitted_labels({"train": {"yes": 1}}, FITTED, "rows", "error").unseen == {}


def test_fitted_numbers_have_no_classes() -> None:
    assert fitted_labels({"train": {}}, LabelSpec(dtype="float32", kind="number"), "rows", "error").classes is None


@pytest.mark.parametrize("classes", [["false", "true"], ["False", "True"], ["FALSE", "true"], ["0", "1"]])
def test_what_two_classes_of_booleans_are_written_as(classes: list[str]) -> None:
    false, true = classes
    assert spellings(classes) == dict.fromkeys(("false", "0", "0.0"), false) | dict.fromkeys(("true", "1", "1.0"), true)
    assert are_alike(classes, ["0", "1"]) and are_alike(["False", "True"], classes)
    for others in (["true", "false"], ["no", "yes"], [*classes, UNKNOWN], None):
        assert not are_alike(classes, others) and not are_alike(others, classes)


def test_booleans_that_are_spelled_in_two_ways_are_the_same_labels() -> None:
    before = LabelSpec(dtype="int64", kind="integer", classes=["0", "1"])
    now = LabelSpec(dtype="int64", kind="text", classes=["false", "true"])
    assert label_specs_alike(before, now) and label_specs_alike(now, before) and label_specs_alike(None, None)
    for other in (None, now.model_copy(update={"classes": ["no", "yes"]}), now.model_copy(update={"shape": [2]})):
        assert not label_specs_alike(before, other) and not label_specs_alike(other, before)
    assert not label_specs_alike(now, now.model_copy(update={"kind": "words"}))


def test_other_classes_have_one_spelling() -> None:
    for classes in (["0", "2"], ["true", "x"], ["true"], ["false", "maybe", "true"]):
        assert spellings(classes) == {}
        assert are_alike(classes, list(classes)) and not are_alike(classes, ["a", "b"])
    assert are_alike(None, None) and not are_alike(None, ["a", "b"])
