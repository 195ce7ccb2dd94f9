"""What a function is, in any session: its source and what it uses."""

import functools
import linecache
import subprocess
import sys
import threading
from pathlib import Path

import keras
import numpy as np
import pytest

from sparksplit.base.pickles import is_users, pickled, unpickled
from sparksplit.model.code_identity import UnknownValueError, identity_of, source_of

CELL = """
import keras
import numpy as np
{before}
def helper(x):
    return x * {factor}
class Layer(keras.layers.Layer):
    factor = {factor}
    def call(self, x):
        return helper(x)
def made(width):
    def build(data):
        return keras.Sequential([Layer(), keras.layers.Dense(width)]), scale
    return build
scale = {scale}
build = made({width})
"""


def cell(before="", factor=2, width=3, scale="np.arange(3)"):
    """The function `build` of a notebook's cell, which is in no file."""
    text = CELL.format(before=before, factor=factor, width=width, scale=scale)
    name = f"<cell {abs(hash(text))}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names["build"]


def test_the_same_cell_is_the_same_function():
    assert identity_of(cell()) == identity_of(cell()) == identity_of(cell(before="# nothing of the function's"))


@pytest.mark.parametrize(
    "changed",
    [{"factor": 4}, {"width": 4}, {"scale": "np.arange(4)"}, {"scale": "np.arange(3.0)"}, {"scale": "[0, 1, 2]"}],
)
def test_whatever_a_function_uses_counts(changed):
    assert identity_of(cell(**changed)) != identity_of(cell())


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("__import__('threading').Lock()", r"^scale \(in build\) is a lock, which cannot be recognised"),
        ("{'a': [1, object()]}", r"^scale \(in build\)\['a'\]\[1\] is an object, "),
        ("keras.layers.Dense(2)", r"^scale \(in build\) is a Dense, .* make the object inside the function$"),
    ],
)
def test_a_value_that_another_session_would_not_recognise_is_refused_by_its_name(scale, message):
    with pytest.raises(UnknownValueError, match=message):
        identity_of(cell(scale=scale))


@pytest.mark.parametrize(
    "value",
    [
        1,
        "a",
        None,
        (1, [2.5, {"a": b"b"}]),
        {3, 1, 2},
        np.float32(1),
        np.dtype("f4"),
        np.mean,
        np.add,
        keras.layers.Dense,
    ],
)
def test_plain_values_and_installed_code(value):
    assert identity_of(value) == identity_of(value)


def test_values_of_other_types_are_others():
    values = [1, 1.0, True, "1", b"1", [1], (1,), {1}, {"1": 1}, np.float32(1), None, len, functools.partial(len, [1])]
    assert len({identity_of(value) for value in values}) == len(values)


def recursive(data):
    return recursive, LIST


LIST: list = [1]
LIST.append(LIST)


def test_values_that_hold_themselves_have_an_end():
    assert identity_of(recursive) == identity_of(recursive)


def test_a_function_without_source_is_refused():
    names: dict = {"__name__": "__main__"}
    exec("def build(data): return 1", names)
    with pytest.raises(UnknownValueError, match=r"^build has no source text; define it in a notebook cell"):
        source_of(names["build"])


def test_which_modules_are_the_users():
    assert is_users("__main__") and is_users(__name__)
    assert not any(map(is_users, ("keras", "keras.layers", "json", "sparksplit", "hdfs_io.disk", "builtins", "gone")))


def test_a_users_module_travels_with_its_functions(tmp_path):
    """The other process can import neither this module nor the test folder."""
    (tmp_path / "f").write_bytes(pickled(borrowed))
    program = (
        "import pickle, sys; sys.path[:] = [p for p in sys.path if p]\nprint(pickle.load(open(sys.argv[1], 'rb'))(3))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "f")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.stdout == "13\n", found.stderr
    assert unpickled(pickled(borrowed))(3) == 13


def borrowed(x):
    return x + TEN


TEN = 10


def test_what_only_this_process_has_cannot_be_pickled():
    with pytest.raises(TypeError, match="lock"):
        pickled(threading.Lock())


def test_sources_have_no_indentation():
    def inner(data):
        return data

    assert source_of(inner) == "def inner(data):\n    return data"
    assert Path(__file__).read_text().count(source_of(inner)) == 0
