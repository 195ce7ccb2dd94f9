"""The label and the kept columns of rows to predict, where their configuration names none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from sparksplit.dataset.description import Description, FittedPreprocessing
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import labelled_by, named_like, nulls_like
from sparksplit.prepare.tables.raw_frame import RawFrame

NO_LABEL = "predictions have no metrics"


def named(
    columns: str, label_name: str | None, kept: list[str], own: str | None, by: Any = named_like, **keys: Any
) -> tuple[Any, ...]:
    """(label, kept columns, what is told) of rows with these columns. label_name, kept: of the model's rows. own: the
    label that the rows tell. by: what is asked"""
    schema = StructType()
    for name in columns.split():
        schema = schema.add(name, "string")
    raw = RawFrame(SimpleNamespace(schema=schema), label=own)  # type: ignore[arg-type]
    like = Description(tensors=[], label=None, preprocessing=FittedPreprocessing(), label_name=label_name, keep=kept)
    config, said = by(InputConfig(format="parquet", path="rows", **keys), like, raw)
    return config.label, config.keep, said


@pytest.mark.parametrize(
    ("columns", "label_name", "own", "label", "said"),
    [
        ("a y z", "y", "z", "y", []),
        ("a z", "y", "z", None, [f"has no label column 'y', so {NO_LABEL}"]),
        ("a z", None, "z", "z", []),
        ("a z", None, None, None, [f"input.label names no column, so {NO_LABEL}"]),
    ],
)
def test_the_label_is_that_of_the_models_rows(
    columns: str, label_name: str | None, own: str | None, label: str | None, said: list[str]
) -> None:
    assert named(columns, label_name, [], own) == (label, [], said)
    assert named(columns, label_name, [], own, label="a") == ("a", [], [])
    assert named(columns, label_name, [], own, label=None) == (None, [], [])


def test_what_was_kept_is_kept_as_far_as_it_is_there() -> None:
    told = ["has no column 'day', which the training data kept"]
    assert named("a y id", "y", ["day", "id"], None) == ("y", ["id"], told)
    assert named("a y id", "y", ["day", "id"], None, keep=["a"]) == ("y", ["a"], [])
    assert named("a y id", "y", ["id"], None, keep=[]) == ("y", [], [])


def test_rows_that_are_prepared_by_an_earlier_fit_have_its_label() -> None:
    """A column that was added at the end of a CSV is no label."""
    told = named("a y more", "y", ["id"], "more", labelled_by)
    assert told == ("y", [], [])
    assert named("a more", "y", [], "more", labelled_by)[0] == "y"  # which is then said to be missing
    assert named("a y more", None, [], "more", labelled_by)[0] == -1
    assert named("a y more", "y", [], "more", labelled_by, label="more")[0] == "more"


@pytest.mark.parametrize("format_name", ["csv", "hive-text"])
def test_missing_values_have_the_texts_of_the_models_rows(format_name: str) -> None:
    """NA was a missing value in training, and an unknown category in the same file when it was predicted."""
    like = Description(tensors=[], label=None, preprocessing=FittedPreprocessing(), nulls=["", "NA"])
    config, said = nulls_like(InputConfig(format=format_name, path="rows"), like)
    hive = ["\\N"] if format_name == "hive-text" else []
    assert config.nulls == ["", "NA", *hive] and "nulls" in config.model_fields_set  # or Hive's default takes its place
    texts = ", ".join(map(repr, config.nulls))
    assert said == [f"texts for a missing value, as in the training data: {texts} (input.nulls sets other texts)"]
    own = InputConfig(format=format_name, path="rows", nulls=[""])
    assert nulls_like(own, like) == (own, [])
    plain = InputConfig(format=format_name, path="rows")
    assert nulls_like(plain, None) == nulls_like(plain, like.model_copy(update={"nulls": None})) == (plain, [])
    typed = InputConfig(format="parquet", path="rows")
    assert nulls_like(typed, like) == (typed, [])
