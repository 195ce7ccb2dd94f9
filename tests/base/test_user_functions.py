import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from sparksplit.base.user_functions import FunctionError, load, pickled_by_value, source_of, split_name

names = st.from_regex(r"[a-z_][a-z_0-9]{0,8}", fullmatch=True)


@given(st.one_of(names, st.lists(names, min_size=2, max_size=3).map(".".join)), names)
def test_a_name_is_its_place_and_its_function(place, function):
    assert split_name(f"{place}:{function}") == (place, function)
    assert split_name(f"C:/{place}.py:{function}") == (f"C:/{place}.py", function)


@pytest.mark.parametrize("name", ["", "my.mlp", ":build", "my.mlp:", "my.mlp:1", "my.mlp:a.b"])
def test_other_forms_are_refused(name):
    with pytest.raises(FunctionError, match=r"must be package\.module:function"):
        split_name(name)


def _file(tmp_path, text):
    file = tmp_path / "my_model.py"
    file.write_text(text)
    return f"{file}:build"


@pytest.mark.parametrize(
    "text",
    [
        "def build(data):\n    return 1",
        "build = lambda data: 1",
        "build: object = lambda data: 1",
        "build, other = (lambda data: 1), 2",
        "class build:\n    def __new__(cls, data):\n        return 1",
        "try:\n    import nothing_here\nexcept ImportError:\n    def build(data):\n        return 1",
        "if True:\n    def build(data):\n        return 1",
        "from statistics import mean as build\nbuild = lambda data: 1",
        "from shutil import *\ndef build(data): return 1",
    ],
)
def test_a_function_in_a_file_travels_as_text(tmp_path, text):
    name = _file(tmp_path, text)
    source = source_of(name)
    assert source == text
    (tmp_path / "my_model.py").unlink()
    assert load(name, source)(None) == 1


def test_a_star_may_bring_any_name(tmp_path):
    name = _file(tmp_path, "from statistics import *").replace(":build", ":mean")
    assert load(name, source_of(name))([1, 3]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def biuld(data): ...", "has no function 'build'; did you mean 'biuld'?"),
        ("def other():\n    def build(): ...", "has no function 'build'"),
        ("def build(:", r"my_model\.py:1: not valid Python"),
        ("", "has no function 'build'"),
    ],
)
def test_a_file_is_checked_without_running_it(tmp_path, text, message):
    with pytest.raises(FunctionError, match=message):
        source_of(_file(tmp_path, text))


def test_a_file_that_is_not_there_or_is_no_text(tmp_path):
    with pytest.raises(FunctionError, match="does not exist"):
        source_of(f"{tmp_path}/none.py:build")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    with pytest.raises(FunctionError, match="utf-8"):
        source_of(f"{tmp_path}/bytes.py:build")


def test_a_function_in_a_package_is_not_shipped():
    assert source_of("json:dumps") is None
    assert load("json:dumps", None)([1]) == "[1]"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.here:build", "module 'nothing.here' not found"),
        ("json.here:build", "module 'json.here' not found"),
        ("json..decoder:build", "module 'json..decoder' not found"),
        ("json.decoder:py_scanstrin", "has no function 'py_scanstrin'; did you mean 'py_scanstring'?"),
    ],
)
def test_a_package_is_checked_before_anything_starts(name, message):
    with pytest.raises(FunctionError, match=message):
        source_of(name)


def test_a_package_that_fails_is_named(tmp_path, monkeypatch):
    (tmp_path / "failing_package").mkdir()
    (tmp_path / "failing_package" / "__init__.py").write_text("1 / 0")
    (tmp_path / "failing_package" / "model.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(FunctionError, match=r"failing_package\.model cannot be imported: ZeroDivisionError"):
        source_of("failing_package.model:build")
    with pytest.raises(FunctionError, match=r"failing_package\.model cannot be imported: ZeroDivisionError"):
        load("failing_package.model:build", None)


@pytest.mark.parametrize(
    ("text", "message"), [("raise OSError('no')", "OSError: no"), ("build = 3", "has no function 'build'")]
)
def test_a_file_that_fails_on_the_node(tmp_path, text, message):
    with pytest.raises(FunctionError, match=message):
        load(_file(tmp_path, ""), text)


def test_classes_of_a_file_can_be_found_by_their_module(tmp_path):
    found = load(_file(tmp_path, ""), "class build: pass")
    assert getattr(sys.modules[found.__module__], "build") is found  # noqa: B009


def test_executors_get_what_a_file_holds_and_not_its_name(tmp_path):
    """They have no module of that name: only this process has."""
    name = _file(tmp_path, "TIMES = 3\ndef clean(value):\n    return value * TIMES\ndef build():\n    return clean")
    built = load(name, source_of(name))()
    pickled_by_value(name)
    content = cloudpickle.dumps(built)
    del sys.modules["sparksplit_user_my_model"]
    assert pickle.loads(content)(2) == 6
    pickled_by_value("statistics:mean")  # which they can import
