"""Labels that are doubles: classes or numbers to predict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.ml.feature import StringIndexer
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sparksplit.base.errors import ConfigError
from sparksplit.dataset.description import LabelSpec
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables.cells import Cells
from sparksplit.prepare.tables.label_kinds import digits_lost, is_number, kind_of_label, settled, spelled
from sparksplit.prepare.tables.raw_frame import RawFrame

CELLS = Cells("a.csv", ("x", "y"), True, True, ",", '"', ("", "NA"), "UTF-8", False)


@pytest.mark.parametrize(
    ("limits", "kind", "told"),
    [
        (None, "number", False),
        ((0.0, 1.0), "integer", True),
        ((0.0, 2.0), "number", True),
        ((1.0, 1.0), "number", True),
    ],
)
def test_whole_numbers_with_a_point(limits: tuple[float, float] | None, kind: str, told: bool) -> None:
    found, said = settled(limits, "column 'y'")
    assert found == kind and (said is not None) == told
    other = "number" if kind == "integer" else "integer"
    assert said is None or ("the labels (column 'y') are " in said and f"input.label_type: {other}" in said)


@pytest.mark.parametrize(
    ("texts", "kind", "told"),
    [
        (["0.0", "1.0", "0", " 1."], "integer", True),
        (["0", "1", "7"], "integer", False),
        (["0.0", "2.0"], "number", True),
        (["0.0", "0.5"], "number", False),
        (["0.0", "a"], "text", False),
        (["0.5", "", "NA"], "number", False),
        (["3", " ", " NA"], "integer", False),
        (["nan", "0.5", "NaN"], "number", False),
    ],
)
def test_labels_of_text_files(texts: list[str], kind: str, told: bool) -> None:
    cells = replace(CELLS, sample=tuple(["1", text] for text in texts))
    parts = {"train": RawFrame(None, cells=cells)}  # type: ignore[arg-type]
    found, said = kind_of_label(InputConfig(path="a.csv"), parts, "y")
    assert found == kind and (said is not None) == told
    assert kind_of_label(InputConfig(path="a.csv", label_type="number"), parts, "y") == ("number", None)


def test_where_all_of_the_first_labels_are_missing_the_key_is_asked_for() -> None:
    cells = replace(CELLS, sample=(["1", ""], ["2", "NA"]))
    parts = {"train": RawFrame(None, cells=cells)}  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="label_type: must be given: the first 2 labels are missing"):
        kind_of_label(InputConfig(path="a.csv"), parts, "y")
    assert kind_of_label(InputConfig(path="a.csv", label_type="text"), parts, "y") == ("text", None)


@pytest.mark.parametrize(("values", "kind"), [({"1", "20"}, "integer"), ({"1", "01"}, "text"), ({"1.0"}, "text")])
def test_labels_that_folders_give(values: set[str], kind: str) -> None:
    parts = {"train": RawFrame(None, folders={"y": values})}  # type: ignore[arg-type]
    assert kind_of_label(InputConfig(path="a"), parts, "y") == (kind, None)
    assert kind_of_label(InputConfig(path="a", label_type="text"), parts, "y") == ("text", None)


LARGE = "20241231235959123"
ADVICE = (
    "If they are classes, set input.label_type: text. If they are numbers to predict, subtract a constant from them"
)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["0.5", "", "NA", LARGE], f"'{LARGE}' becomes 20241231235959124"),
        ([f" -{LARGE}.0 "], f"' -{LARGE}.0 ' becomes -20241231235959124"),
        # float64 has the first, and a number with an exponent says that its last digits do not matter.
        (["20241231235959124", "1e30", "9007199254740991", "0.1", "text", "9" * 400], None),
    ],
)
def test_labels_with_more_digits_than_float64_holds_are_named(texts: list[str], told: str | None) -> None:
    """They were rounded without a word."""
    wanted = told and f"the labels (column 'y') have more digits than float64 holds: {told}. {ADVICE}"
    cells = replace(CELLS, sample=tuple(["1", text] for text in texts))
    assert digits_lost(RawFrame(None, cells=cells), "y", "a.csv") == wanted  # type: ignore[arg-type]
    assert digits_lost(RawFrame(None, folders={"y": set(texts)}), "y", "a") == wanted  # type: ignore[arg-type]


def test_labels_of_typed_columns_with_more_digits_than_float64_holds_are_named(spark: SparkSession) -> None:
    large = f"CAST({LARGE} AS {{}}) AS {{}}"
    columns = [("bigint", "whole"), ("decimal(20,2)", "places"), ("string", "texts"), ("double", "doubles")]
    frame = spark.range(3).selectExpr("0.5D AS `a.b`", *(large.format(kind, name) for kind, name in columns))
    frame = frame.withColumn("small", frame.whole % 1000).withColumn("words", frame.texts.substr(1, 3))
    raw = RawFrame(frame)
    said = {name: digits_lost(raw, name, "a") for name in frame.columns}
    assert {name for name, text in said.items() if text is not None} == {"whole", "places", "texts"}
    large = f"'{LARGE}' becomes 20241231235959124"
    assert said["whole"] == f"the labels (column 'whole') have more digits than float64 holds: {large}. {ADVICE}"


def test_labels_that_float64_holds_do_not_hide_a_label_that_it_does_not(spark: SparkSession) -> None:
    """The first hundred large labels were looked at."""
    held = ["nan", "NaN", "Infinity", "-inf", "1e30", *(str(2**53 + 2 * number) for number in range(200))]
    texts = spark.createDataFrame([(text,) for text in (*held, LARGE)], "y string").coalesce(1)
    said = digits_lost(RawFrame(texts), "y", "a")
    assert said is not None and f"'{LARGE}' becomes" in said
    assert digits_lost(RawFrame(texts.where(f"y != '{LARGE}'")), "y", "a") is None
    numbers = texts.selectExpr("try_cast(y AS bigint) AS y")
    assert f"'{LARGE}' becomes" in (digits_lost(RawFrame(numbers), "y", "a") or "")


def typed(kind: str) -> RawFrame:
    """A frame with the label `y` of this type."""
    schema = StructType().add("y", kind)
    frame = SimpleNamespace(schema=schema, dtypes=[("y", kind)], columns=["y"])
    return RawFrame(frame)  # type: ignore[arg-type]


def of_texts(*texts: str) -> RawFrame:
    return RawFrame(None, cells=replace(CELLS, sample=tuple(["1", text] for text in texts)))  # type: ignore[arg-type]


def test_booleans_are_the_classes_false_and_true_wherever_they_come_from() -> None:
    folders = RawFrame(None, folders={"y": {"False", "True"}})  # type: ignore[arg-type]
    classes = dict.fromkeys(("false", "0", "0.0"), "false") | dict.fromkeys(("true", "1", "1.0"), "true")
    numbers = dict.fromkeys(("false", "0", "0.0"), "0") | dict.fromkeys(("true", "1", "1.0"), "1")
    for train in (typed("boolean"), of_texts("True", "NA", " FALSE"), folders):
        config = InputConfig(path="a", format="csv" if train.cells else "parquet")
        assert kind_of_label(config, {"train": train}, "y") == ("text", None)
        assert spelled("text", train, "y", None) == classes
        assert spelled("integer", train, "y", None) == numbers
    asked = InputConfig(path="a", format="parquet", label_type="integer")
    assert kind_of_label(asked, {"train": typed("boolean")}, "y") == ("integer", None)
    for train in (typed("string"), of_texts("True", "Maybe"), of_texts("NA")):
        assert spelled("text", train, "y", None) == {}
    assert spelled(None, typed("boolean"), None, None) == {}


@pytest.mark.parametrize(
    ("classes", "kind", "true"),
    [
        (["false", "true"], "text", "true"),
        (["False", "True"], "text", "True"),
        (["0", "1"], "integer", "1"),
        (["0", "2"], "integer", None),
        (["no", "yes"], "text", None),
    ],
)
def test_a_models_classes_decide_how_booleans_are_spelled(classes: list[str], kind: str, true: str | None) -> None:
    """Also the classes of models from before booleans had one spelling."""
    label = LabelSpec(dtype="int64", classes=classes, kind=kind)
    for train in (typed("boolean"), of_texts("TRUE"), of_texts("1")):
        assert spelled(kind, train, "y", label).get("true") == true
    assert spelled("number", typed("boolean"), "y", label) == {}


@pytest.mark.parametrize("kind", ["float", "double"])
def test_booleans_with_gaps_that_became_floats_are_a_models_booleans(kind: str) -> None:
    """pandas makes 0.0 and 1.0 of them."""
    config = InputConfig(path="a", format="parquet", label_type="text")
    parts, label = {"train": typed(kind)}, LabelSpec(dtype="int64", classes=["false", "true"], kind="text")
    assert kind_of_label(config, parts, "y", label) == ("text", None)
    assert spelled("text", parts["train"], "y", label)["1.0"] == "true"
    for other in (None, label.model_copy(update={"classes": ["no", "yes"]})):
        with pytest.raises(ConfigError, match="cannot be a label of type text"):
            kind_of_label(config, parts, "y", other)


def test_booleans_that_are_numbers_to_predict_are_read_alike_with_a_model_and_without() -> None:
    label = LabelSpec(dtype="float32", kind="number")
    train = of_texts("True", "False")
    assert spelled("number", train, "y", label) == spelled("number", train, "y", None)
    assert spelled("number", train, "y", label)["true"] == "1"


def test_what_a_number_is() -> None:
    assert is_number("boolean") and is_number("decimal(5,2)") and not is_number("string") and not is_number("date")


def test_labels_that_pyspark_ml_has_numbered_are_classes(spark: SparkSession, tmp_path: Path) -> None:
    animals = spark.createDataFrame([("cat",), ("dog",), ("cow",), ("cat",)], "animal string")
    indexed = StringIndexer(inputCol="animal", outputCol="y").fit(animals).transform(animals)
    indexed.select("y", (indexed.y + 0).alias("sum")).write.parquet(f"{tmp_path}/animals")
    parts = {"train": RawFrame(spark.read.parquet(f"{tmp_path}/animals"))}
    config = InputConfig(path="animals", format="parquet")
    kind, said = kind_of_label(config, parts, "y")
    assert kind == "integer" and said is not None and "pyspark.ml marks these labels as categories" in said
    # The same numbers without the mark.
    assert kind_of_label(config, parts, "sum")[0] == "number"
