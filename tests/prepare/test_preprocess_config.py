"""The configuration of raw input: which keys go with which format, and the names of delimiters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.keys import mark_of
from sparksplit.prepare.config_checks import check, check_input
from sparksplit.prepare.formats import DATAFRAME, FORMATS, users
from sparksplit.prepare.preprocess_config import DataFrameInput, InputConfig, PreprocessConfig

VALUES: dict[str, Any] = {"path": "x", "label": None, "dtype": "float32", "shape": [2]}
"""Of keys whose default is no value that can be given, or is none that goes with every format."""


def test_a_mark_names_formats_and_groups_of_formats_that_there_are() -> None:
    known = {*FORMATS, *(group for each in FORMATS.values() for group in each.groups)}
    for model in (InputConfig, PreprocessConfig):
        assert known >= {user for key in model.model_fields for user in mark_of(model, key).users}


def test_a_keys_text_names_the_formats_of_its_mark() -> None:
    checked = 0
    for model in (InputConfig, DataFrameInput, PreprocessConfig):
        for key, field in model.model_fields.items():
            if not (mark := mark_of(model, key)).users:
                continue
            found = re.search(r" (Only|Not) for the formats? ([^.]+)\.$", field.description or "")
            named, known = set(re.split(", | and ", found[2])) if found else set(), {*FORMATS} - {DATAFRAME}
            assert (named if found and found[1] == "Only" else known - named) == {*users(mark)} - {DATAFRAME}, key
            checked += 1
    assert checked > 60


@pytest.mark.parametrize("format_name", ["idx", "csv", "text", "mine.py:rows"])
@pytest.mark.parametrize("key", [key for key in InputConfig.model_fields if key != "format"])
def test_a_key_that_the_format_does_not_use_is_refused_even_with_its_default(key: str, format_name: str) -> None:
    value = VALUES.get(key, InputConfig.model_fields[key].get_default(call_default_factory=True))
    config = parse(InputConfig, {"path": "x", "format": format_name, key: value})
    if format_name.replace("mine.py:rows", "dataframe") in (formats := users(mark_of(InputConfig, key))):
        check_input(config)
        return
    with pytest.raises(ConfigError) as caught:
        check_input(config)
    names = " and ".join(formats).replace("dataframe", "DataFrames")
    assert str(caught.value) == f"{key}: is for {names}; the format is {format_name}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cvs",
            "NAMES (is 'cvs'); did you mean 'csv'?",
        ),
        (
            "dataframe",
            "NAMES (is 'dataframe')",
        ),
        ("mine.py:", "must be package.module:function or path/to/file.py:function (is 'mine.py:')"),
    ],
)
def test_a_format_that_there_is_not(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(InputConfig, {"path": "x", "format": name})
    known = ", ".join(each for each in FORMATS if each != DATAFRAME)
    names = f"must be one of {known}, or a function that returns a DataFrame"
    assert str(caught.value) == f"format: {message.replace('NAMES', names)}"


def test_a_dataframe_reads_no_path() -> None:
    config = parse(DataFrameInput, {"label": "y"})
    assert config.paths() == {}
    assert config.located() == {**config.model_dump(exclude={"wait"}), "format": "dataframe", "path": "the DataFrame"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "input:\n  path: x\n  format: idx\n  delimiter: ;\n",
            ":4: input.delimiter: is for csv and hive-text; the format",
        ),
        ("input:\n  format: csv\n  path: x\n  unit: words\n", ":4: input.unit: is for text; the format is csv"),
        (
            "input: {format: idx, path: x}\nscaling_by: tensor\n",
            ":2: scaling_by: has no effect with scaling: none; remove it",
        ),
        (
            "input: {format: text, path: x}\nseed: 1\n",
            ":2: seed: is for idx and csv and hive-text and parquet",
        ),
        (
            "input:\n  format: idx\n  path: x\n  label: -1\n",
            ":4: input.label: must be left out or null for idx, which has no columns",
        ),
        (
            "# no format\ninput:\n  path: days/clients.csv.gz\n  label: -1\n",
            ":2: input.format: is not set, and its default idx (MNIST's files) does not go with input.label; "
            "for days/clients.csv.gz set input.format=csv",
        ),
        ("input: {path: [a.orc, b.orc], header: true}\n", ":1: input.format: NO input.header; for a.orc set ITorc"),
        (
            "input: {format: csv, path: x}\nfeatures: [a, b]\n",
            ":2: features: must be a mapping of columns to kinds (is a list); input.features lists the columns",
        ),
        ("input: {path: mnist}\nfeatures: {}\n", ":1: input.format: NO features; set it to csv, hive-text, parquet"),
        ("input: {path: a.json}\ncut: {by: time, column: t}\n", ":1: input.format: NO cut.by; for a.json set ITjson"),
    ],
)
def test_the_place_of_a_key_that_is_not_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(f"{text}output: y\n")
    with pytest.raises(ConfigError) as caught:
        check(load(PreprocessConfig, f"{tmp_path}/c.yaml"))
    message = message.replace("NO", "is not set, and its default idx (MNIST's files) does not go with")
    assert str(caught.value).startswith(f"{tmp_path}/c.yaml{message.replace('IT', 'input.format=')}")


def delimiter(text: str) -> str:
    return load(InputConfig, None, ["format=csv", "path=x", f"delimiter={text}"]).delimiter


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("tab", "\t"),
        ("\t", "\t"),
        ("\\t", "\t"),
        ('"\\t"', "\t"),
        ("^I", "\t"),
        ("space", " "),
        (" ", " "),
        ("comma", ","),
        ("semicolon", ";"),
        (";", ";"),
        ("pipe", "|"),
        ("|", "|"),
        ("\x01", "\x01"),
        ("\\x01", "\x01"),
        ("\\001", "\x01"),
        ("^A", "\x01"),
        ("^", "^"),
    ],
)
def test_delimiters_by_name_by_escape_and_as_they_are(text: str, mark: str) -> None:
    assert delimiter(text) == mark
    assert parse(InputConfig, {"path": "x", "delimiter": mark}).delimiter == mark


@pytest.mark.parametrize(
    "text", ['"', "'\"'", '""', "quote", "\\n", '"\\n"', '"\\r"', "\\x00", "^@", "\\x0a", "§", "xx", "\\xff"]
)
def test_what_separates_no_columns_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        delimiter(text)
    message = (
        "delimiter: must be one ASCII character that is neither a quote nor a line end, or one of tab, space, comma"
    )
    assert message in str(caught.value)


@given(st.text(max_size=5))
def test_a_delimiter_is_a_mark_that_pyarrow_takes_or_an_error(text: str) -> None:
    from pyarrow.csv import ParseOptions

    try:
        found = parse(InputConfig, {"path": "x", "delimiter": text}).delimiter
    except ConfigError:
        return
    assert len(found) == 1
    ParseOptions(delimiter=found).validate()


@pytest.mark.parametrize(
    ("path", "place"),
    [("hdfs://a:1/sales", True), ("sales", True), ("s3a://bucket/sales", False), ("jdbc:x", True)],
)
def test_what_a_users_own_function_is_given_may_be_anywhere(path: str, place: bool) -> None:
    config = parse(InputConfig, {"format": "mine.py:rows", "path": path})
    assert config.paths() == ({"input.path": path} if place else {})
    assert config.located()["path"] == path


FEATURES = {"a": "number", "b": {"min_count": 3}, "c": {"kind": "date", "parts": ["month"]}}


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({"input": {"format": "csv", "path": "/a.csv"}}, "995fde89c6b56600"),
        ({"input": {"format": "idx", "path": "/a"}}, "60fb4e0dd459b33b"),
        ({"input": {"format": "text", "path": "/a"}}, "632e31e3a87cebe0"),
        ({"input": {"format": "parquet", "path": "/a", "label": "y", "keep": ["k"]}}, "1a787127ae92d02a"),
        ({"input": {"format": "csv", "path": "/a.csv", "label": "y"}, "features": FEATURES}, "7c9d9779d116e9d9"),
    ],
)
def test_a_new_key_that_is_not_used_changes_no_hash(keys: dict[str, Any], wanted: str) -> None:
    # A scheduler's retry would find the complete output of the day before made with another configuration. What changes
    # the rows raises RULES, and with that all of these.
    assert parse(PreprocessConfig, {**keys, "output": "/o"}).config_hash() == wanted
