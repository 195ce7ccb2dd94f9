"""A table's columns to parsed rows: whole numbers, floats, arrays, texts, dates, and what cannot be taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparksplit.base.config import Config, parse
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import Description, FittedPreprocessing
from sparksplit.dataset.feature_spec import Category, Number
from sparksplit.dataset.lane_files import tensor_of
from sparksplit.features.encoder import encoder_of
from sparksplit.features.feature_config import FeatureConfig, Features
from sparksplit.features.table import Table, check_named, is_mixed, table_like, table_of
from sparksplit.prepare.tables.table_rows import TableReader, has_texts, header_column, text_types, zeros_lost

TYPES = {"age": "int", "job": "string", "pay": "double", "since": "date", "pair": "array<float>", "seen": "timestamp"}
LOW32, LOW64 = np.iinfo(np.int32).min, np.iinfo(np.int64).min


def table(types=TYPES, length=2, dtype=None, **wanted):
    return table_of(types, {name: feature(**each) for name, each in wanted.items()}, "rows", lambda _: length, dtype)


def feature(**keys):
    return parse(FeatureConfig, keys)


def read(columns, types=TYPES, typed=True, nulls=("",), **wanted):
    made = table(types, **wanted)
    return made, TableReader(made, nulls, typed)(columns, len(columns[0]))


def test_parses_every_kind_into_a_tensor_for_each_dtype():
    made, found = read(
        [
            pa.array([30, None], pa.int32()),
            pa.array(["clerk", None]),
            pa.array([1.5, None], pa.float64()),
            pa.array(["1970-01-03", None]),
            pa.array([[1.0, 2.0], None], pa.list_(pa.float32())),
            pa.array(["1970-01-01 00:00:01", ""]),
        ]
    )
    assert [(spec.name, spec.shape) for spec in made.tensors] == [
        ("numbers_float32", [2]), ("numbers_float64", [1]), ("numbers_int32", [2]), ("numbers_int64", [1]),
    ]  # fmt: skip
    pair, pay, whole, seen = found.tensors
    np.testing.assert_array_equal(pair, [[1, 2], [np.nan, np.nan]])
    np.testing.assert_array_equal(pay, [[1.5], [np.nan]])
    np.testing.assert_array_equal(whole, [[30, 2], [LOW32, LOW32]])
    np.testing.assert_array_equal(seen, [[1_000_000], [LOW64]])
    assert found.texts[0].to_pylist() == ["clerk", None]
    assert not found.wrong.any()


def test_what_cannot_be_taken_is_said_by_column():
    made, found = read(
        [
            pa.array([LOW32], pa.int32()),
            pa.array(["clerk"]),
            pa.array([np.inf], pa.float64()),
            pa.array(["2024-02-30"]),
            pa.array([[1.0]], pa.list_(pa.float32())),
            pa.array(["noon"]),
        ]
    )
    assert found.wrong.tolist() == [[True, False, True, True, True, True]]
    reader = TableReader(made, ("",), True)
    assert "marks a missing value" in reader.problem(0, LOW32)[0]
    assert reader.problem(3, "2024-02-30")[0] == "'2024-02-30' is not a day like 2024-05-01"
    assert reader.problem(4, [1.0])[0] == "has 1 values, 2 are needed"


def test_whole_numbers_are_missing_wherever_floats_are():
    """What was fitted on whole numbers may then come as a file's texts, or as floats, where pandas had a gap."""
    made, found = read(
        [pa.array(["7", " NA", "NaN", "", f"{LOW32}"]), pa.array([7.0, np.nan, None, 1.5, -0.0])],
        {"a": "int", "b": "int"},
        typed=False,
        nulls=("NA",),
    )
    assert found.tensors[0].tolist() == [[7, 7], [LOW32, LOW32], [LOW32, LOW32], [LOW32, 0], [LOW32, 0]]
    assert found.wrong.tolist() == [*[[False, False]] * 3, [False, True], [True, False]]
    assert "marks a missing value" in TableReader(made, ("NA",), False).problem(0, f"{LOW32}")[0]


def test_the_hint_at_a_category_is_given_where_the_kind_is_still_to_be_chosen():
    made = table({"a": "double"})
    fitted = Table((replace(made.columns[0], fitted=made.feature(made.columns[0])),))
    hint = " (features: {a: category} takes any text)"
    for reader, told in ((TableReader(made, ("",), False), hint), (TableReader(fitted, ("",), False), "")):
        assert reader.problem(0, "x")[0] == f"'x' is not a number{told}"


@pytest.mark.parametrize(
    ("type", "dtype", "values", "told"),
    [
        ("array<int>", None, [1, 2**40], "1099511627776 is not a whole number from -2147483647 to 2147483647 (int32)"),
        ("array<int>", None, [LOW32, None], f"{LOW32} cannot be stored, because it marks a missing value"),
        ("array<double>", "float32", [None, 1e300], "1e+300 is not finite as float32"),
        ("array<double>", None, [0.0, -np.inf], "-inf is not finite as float64"),
    ],
)
def test_the_bad_value_of_an_array_is_named(type, dtype, values, told):
    made = table({"a": type}, dtype=dtype)
    reader = TableReader(made, ("",), True)
    assert reader([pa.array([values])], 1).wrong.all()
    assert reader.problem(0, values)[0] == told


def test_float16_comes_by_way_of_float32_as_it_does_in_the_exported_model():
    values = [1 + 2.0**-11 + 2.0**-40, 65519.9999999, 2.0**-25 + 2.0**-60, 1.5, None, 1e300]
    reader = TableReader(table({"a": "double"}, dtype="float16"), ("",), True)
    found = reader([pa.array(values)], len(values))
    np.testing.assert_array_equal(found.tensors[0][:, 0], np.array([1, 0, 0, 1.5, np.nan, 0], np.float16))
    assert found.wrong[:, 0].tolist() == [False, True, False, False, False, True]


def test_texts_of_a_file_are_numbers_dates_and_categories_by_their_sample():
    sample = [["1", "a", "2024-01-01", "2024-01-01 10:00", ""], ["\\N", "2", "", "2024-01-02", ""]]
    types = text_types(list("nabce"), sample, ("", "\\N"))
    assert types == {"n": "double", "a": "string", "b": "date", "c": "timestamp", "e": "string"}
    _, found = read(
        [pa.array(["7", "\\N", "x"]), pa.array(["u", "\\N", "\ufffd"])],
        {"n": "double", "a": "string"},
        typed=False,
        nulls=("", "\\N"),
    )
    np.testing.assert_array_equal(found.tensors[0], [[7], [np.nan], [0]])
    assert found.texts[0].to_pylist() == ["u", None, "\ufffd"]
    assert found.wrong.tolist() == [[False, False], [False, False], [True, True]]


def test_numbers_that_begin_with_zeros_may_be_names() -> None:
    sample = [["1", "501", "00501", "0", "2024-01-02"], ["0501", "0.5", "12", "-7", "2024-01-03"]]
    said = zeros_lost(list("abcde"), sample, ("",), list("bcde"))
    assert said == [
        "column 'c' holds '00501', which is read as the number 501. If these are names, set features.c: category"
    ]
    assert len(zeros_lost(list("abcde"), sample, ("",), list("ac"))) == 2
    assert not zeros_lost(list("abcde"), [*sample, *[["x"] * 5] * 9], ("",), list("abcde"))  # texts keep their zeros


def test_a_typo_makes_no_category_of_numbers():
    sample = [[f"{number}", "x"] for number in range(19)] + [["n/a", "7"]]
    assert text_types(["a", "b"], sample, ("",)) == {"a": "double", "b": "string"}
    assert not has_texts(2, sample, ("",))
    assert has_texts(2, sample[:-1], ("",))
    assert not has_texts(1, [], ("",))
    assert not has_texts(1, [[""]], ("",))


def test_a_text_among_numbers_is_a_bad_row_and_does_not_make_categories_of_them():
    numbers = [[f"{number}", "2024-01-01"] for number in range(19)]
    assert text_types(["n", "d"], [*numbers, ["oops", "oops"]], ("",)) == {"n": "double", "d": "date"}
    assert text_types(["n", "d"], [*numbers, *[["oops", "oops"]] * 3], ("",)) == {"n": "string", "d": "string"}
    assert text_types(["n"], [["1"], ["x"]], ("",)) == {"n": "string"}


@pytest.mark.parametrize(
    ("sample", "place"),
    [
        ([["a", "b"], ["1", "2"]], 0),
        ([["job", "age"], ["clerk", "7"], ["", "8"]], 1),
        ([["clerk", "7"], ["nurse", "8"]], None),
        ([["x", "7"], ["1", "8"]], None),  # a bad cell, and no header
        ([["NA", "b"], ["1", "c"]], None),
        ([["a", "b"], ["c", "d"]], None),
        ([["a", "b"]], None),
        ([], None),
    ],
)
def test_a_header_is_texts_above_numbers(sample, place):
    assert header_column(sample, ("", "NA")) == place


@pytest.mark.parametrize(
    ("text", "kind", "type"),
    [
        ("01234", None, "double"), ("01234", "ignore", "double"), ("01234", "number", "double"),
        ("01234", "category", "string"), ("01234", "text", "string"), ("20240101", "date", "string"),
        ("2024-01-01", "date", "date"), ("2024-01-01", "category", "string"), ("2024-01-01", "number", "string"),
    ],
)  # fmt: skip
def test_the_configuration_says_what_texts_of_a_file_are(text, kind, type):
    found = text_types(["a"], [[text]], ("",), {"a": kind})
    assert found == {"a": type}
    if kind not in (None, "ignore"):
        assert table(found, a={"kind": kind}).columns[0].kind == kind


def test_whole_numbers_may_be_categories_and_texts_numbers():
    made, found = read(
        [pa.array(["1", "2"]), pa.array(["0.5", None])],
        {"zone": "int", "share": "string"},
        zone={"kind": "category"},
        share={"kind": "number"},
    )
    assert [column.kind for column in made.columns] == ["category", "number"]
    np.testing.assert_array_equal(found.tensors[0], [[0.5], [np.nan]])


@pytest.mark.parametrize(
    ("types", "wanted", "error", "told"),
    [
        ({"m": "map<string,int>"}, {}, InputError, "column 'm' is map<string,int>"),
        ({"m": "double"}, {"m": {"kind": "category"}}, ConfigError, "is double, which cannot be a category"),
        ({"m": "double"}, {"m": {"hash": 4}}, ConfigError, "hash: has no effect on column 'm', which is a number"),
        ({"m": "double"}, {"m": {"kind": "ignore"}}, InputError, "no columns left"),
        ({"numbers": "string"}, {}, InputError, "rename the column"),
        ({"a": "array<int>"}, {"a": {"buckets": 4}}, ConfigError, "is an array"),
    ],
)
def test_refuses_what_no_feature_can_be(types, wanted, error, told):
    with pytest.raises(error, match=told.replace("<", r"\<")):
        table(types, **wanted)


def test_a_feature_that_is_no_column_is_told_under_its_name():
    class Whole(Config):
        features: Features

    features = parse(Whole, {"features": {"pay": "number", "ag": "category"}}).features
    with pytest.raises(ConfigError, match=r"^features\.ag: rows has no such feature; .*; did you mean 'age'\?$"):
        check_named(features, list(TYPES), "rows")


@pytest.mark.parametrize(
    ("key", "value"), [("clip", [0, 9]), ("log1p", True), ("impute", "median"), ("indicator", True), ("scale", "unit")]
)
def test_refuses_beside_buckets_what_they_do_not_heed(key, value):
    with pytest.raises(ConfigError, match=rf"^{key}: has no effect together with buckets, .* \(column 'a'\)$"):
        table({"a": "double"}, a={"buckets": 4, key: value})
    table({"a": "double"}, a={"buckets": 4, "encoding": "embedding"})
    table({"a": "double"}, a={"buckets": None, key: value})


@pytest.mark.parametrize(
    ("type", "keys", "more", "told"),
    [
        ("string", {"hash": 9, "min_count": 5}, {"hash": None}, "min_count: has no effect together with hash"),
        ("string", {"hash": 9, "vocabulary": 5}, {"hash": None}, "vocabulary: has no effect together with hash"),
        ("double", {"encoding": "one-hot"}, {"buckets": 4}, "encoding: has no effect without buckets"),
        ("date", {"scale": "unit"}, {"since": "2024-01-01"}, "scale: has no effect without since"),
    ],
)
def test_refuses_what_other_keys_leave_without_effect(type, keys, more, told):
    with pytest.raises(ConfigError, match=f"^{told}"):
        table({"a": type}, a=keys)
    table({"a": type}, a=keys | more)


@pytest.mark.parametrize(
    ("type", "wanted", "alike", "others"),
    [
        ("int", {}, ["int", "bigint", "double", "decimal(9,2)", "string", "boolean"], ["date", "array<int>", "binary"]),
        ("int", {"kind": "category"}, ["bigint", "string"], ["boolean", "double", "decimal(9,0)", "timestamp"]),
        ("boolean", {}, ["boolean", "string"], ["int", "double"]),
        ("string", {}, ["string", "int", "boolean", "date"], ["double", "array<string>", "binary"]),
        ("string", {"kind": "text"}, ["string"], ["int", "array<string>"]),
        ("date", {}, ["date", "timestamp", "string"], ["int", "bigint"]),
        ("array<float>", {}, ["array<double>", "array<int>"], ["float", "string", "array<string>"]),
    ],
)
def test_a_later_column_must_be_able_to_hold_the_same_values(type, wanted, alike, others):
    """As texts they would differ, 1.0 from 1 and 1 from true, and every row have an unknown category."""
    made = table({"a": type}, a=wanted)
    encoder = encoder_of(made, made.tensors, {"a": ["x", "true"]})
    fitted = Description(
        tensors=encoder.tensors, label=None, preprocessing=FittedPreprocessing(tensors={}), features=encoder.features
    )
    for other in alike:
        assert table_like(fitted, {"a": other}, "rows").columns[0].fitted == encoder.features[0]
    for other in others:
        with pytest.raises(InputError, match=r"rows: column 'a' is .*, but was .* when it was fitted; cast it"):
            table_like(fitted, {"a": other}, "rows")


@pytest.mark.parametrize(
    ("type", "texts", "spelled"),
    [
        ("boolean", ["True", " FALSE", "true", "", None, "yes"], ["true", "false", "true", "", None, "yes"]),
        ("bigint", ["1.0", " -7 ", "+3.", "007", "0", "-12.00"], ["1", "-7", "3", "7", "0", "-12"]),
        ("bigint", ["1.5", "1e3", "x1", "", None, "NA"], ["1.5", "1e3", "x1", "", None, None]),
        ("string", ["True", "1.0", " a"], ["True", "1.0", " a"]),
    ],
)
def test_texts_of_a_file_are_the_booleans_and_whole_numbers_that_were_fitted(type, texts, spelled):
    made = table({"a": type}, a={"kind": "category"})
    feature = encoder_of(made, made.tensors, {"a": ["1"]}).features[0]
    fitted = Table((replace(made.columns[0], fitted=feature),))
    assert TableReader(fitted, ("", "NA"), False)([pa.array(texts)], len(texts)).texts[0].to_pylist() == [
        None if text == "" else text for text in spelled
    ]


def test_a_table_is_mixed_where_it_has_texts_or_times_or_an_array_beside_other_columns():
    assert not is_mixed({"a": "int", "b": "double", "c": "boolean"})
    assert is_mixed({"a": "int", "b": "string"})
    assert not is_mixed({"a": "array<double>"})
    assert is_mixed({"a": "array<double>", "b": "int"}) and is_mixed(dict.fromkeys("ab", "array<int>"))


def test_stored_rows_have_indices_side_by_side_by_dtype():
    made = table({"a": "string", "n": "double", "b": "string", "c": "string"})
    words = {"a": ["x", "y"], "b": [f"{number}" for number in range(300)], "c": ["z"]}
    encoder = encoder_of(made, made.tensors, words)
    assert [(spec.name, spec.shape) for spec in encoder.tensors] == [
        ("numbers_float64", [1]), ("indices_uint16", [1]), ("indices_uint8", [2]),
    ]  # fmt: skip
    a, n, b, c = encoder.features
    assert isinstance(a, Category)
    assert isinstance(n, Number)
    assert [(each.tensor, each.place) for each in (a, b, c)] == [
        ("indices_uint8", 0), ("indices_uint16", 0), ("indices_uint8", 1),
    ]  # fmt: skip
    columns = encoder(
        [pa.array([b"12345678"] * 3)], [pa.array(["y", None, "q"]), pa.array(["299", "", "0"]), pa.array(["z"] * 3)]
    )
    stored = [
        tensor_of(pa.chunked_array([column]), spec) for column, spec in zip(columns, encoder.tensors, strict=True)
    ]
    assert stored[1].tolist() == [[301], [0], [2]]
    assert stored[2].tolist() == [[3, 2], [0, 2], [1, 2]]


def test_booleans_of_a_text_file_have_one_spelling():
    sample = [["True", "x", "TRUE", "True"], [" FALSE", "true", "", "False"]]
    types = text_types(list("abcd"), sample, ("",), {"d": "text"})
    assert types == {"a": "boolean", "b": "string", "c": "boolean", "d": "string"}
    assert text_types(["a"], sample, ("",), {"a": "category"}) == {"a": "boolean"}
    made = table({"a": "boolean"})
    found = TableReader(made, ("", "NA"), False)([pa.array(["True", " FALSE", "true", "NA", "Truly"])], 5)
    assert found.texts[0].to_pylist() == ["true", "false", "true", None, "Truly"]


def test_booleans_are_no_texts_of_another_spelling():
    """Every row would have an unknown category."""
    made = table({"a": "string"})
    for vocabulary, alike in ((["True", "False"], False), (["false"], True)):
        encoder = encoder_of(made, made.tensors, {"a": vocabulary})
        fitted = Description(
            tensors=encoder.tensors, label=None, preprocessing=FittedPreprocessing(), features=encoder.features
        )
        if alike:
            assert table_like(fitted, {"a": "boolean"}, "rows").columns
        else:
            with pytest.raises(InputError, match=r"column 'a' is boolean, but was string \(a category\)"):
                table_like(fitted, {"a": "boolean"}, "rows")


def test_dates_are_read_by_their_format():
    made, found = read(
        [
            pa.array(["9/18/2024", "2024-09-18", None]),
            pa.array(["20240918", "1", None]),
            pa.array(["18.09.2024 7:05"] * 3),
        ],
        {"a": "string", "b": "int", "c": "string"},
        a={"format": "M/d/yyyy"}, b={"format": "yyyyMMdd", "kind": "date"}, c={"format": "dd.MM.yyyy H:mm"},
    )  # fmt: skip
    days, moments = (tensor.tolist() for tensor in found.tensors)
    assert days[0] == [19984, 19984] and days[2] == [LOW32, LOW32] and moments[0] == [1726643100000000]
    assert found.wrong.tolist() == [[False] * 3, [True, True, False], [False] * 3]
    reader = TableReader(made, ("",), True)
    assert reader.problem(0, "2024-09-18") == ("'2024-09-18' is not a day like 5/1/2024", "not a day")
    plain = TableReader(table({"a": "string"}, a={"kind": "date"}), ("",), True)
    expected = "'9/18/2024' is not a time like 2024-05-01 12:30:00 (features.a.format sets another format)"
    assert plain.problem(0, "9/18/2024") == (expected, "not a time")
    assert list(made.said().values())[2] == "c (string): time (dd.MM.yyyy H:mm): month, weekday, hour"


def test_a_format_is_for_texts_and_whole_numbers():
    for kind, keys, message in (
        ("date", {"format": "yyyyMMdd"}, "format: is only for texts and whole numbers; column 'a' is date"),
        ("double", {"format": "yyyyMMdd"}, "kind: column 'a' is double, which cannot be a date"),
        ("string", {"format": "yyyyMMdd", "kind": "text"}, "format: has no effect on column 'a', which is a text"),
        ("int", {"kind": "date"}, "kind: column 'a' is int, which cannot be a date"),
    ):
        with pytest.raises(ConfigError, match=message):
            table({"a": kind}, a=keys)


def test_dates_that_have_a_type_of_their_own_need_no_format_later():
    made = table({"a": "string"}, a={"format": "yyyyMMdd"})
    features = encoder_of(made, made.tensors, {}).features
    fitted = Description(tensors=made.tensors, label=None, preprocessing=FittedPreprocessing(), features=features)
    for kind, text in (("date", "2024-09-18"), ("int", "20240918"), ("string", "20240918")):
        found = TableReader(table_like(fitted, {"a": kind}, "rows"), ("",), True)([pa.array([text])], 1)
        assert found.tensors[0].tolist() == [[19984]] and not found.wrong.any()
    with pytest.raises(InputError, match="column 'a' is double"):
        table_like(fitted, {"a": "double"}, "rows")
