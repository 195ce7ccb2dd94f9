"""What a function is, in any session: its source and what it uses."""

import collections
import copy
import functools
import linecache
import sys
import types
from pathlib import Path

import keras
import numpy as np
import pytest

from sparksplit.base.code_identity import UnknownValueError, identity_of, source_of

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
        Path("x"),
        range(3),
        np,
        np.mean,
        np.add,
        str.lower,
        dict.fromkeys,
        keras.layers.Dense,
    ],
)
def test_plain_values_and_installed_code(value):
    assert identity_of(value) == identity_of(value)


def test_values_of_other_types_are_others():
    values = [1, 1.0, True, "1", b"1", [1], (1,), {1}, {"1": 1}, np.float32(1), np.int64(1), None]
    values += [
        np.array(1, "f4"),
        np.zeros(1, [("a", "f4")]),
        np.zeros(1, [("b", "f4")]),
        len,
        functools.partial(len, [1]),
    ]
    values += [sys, str.lower, Path("x"), range(1)]
    assert len({identity_of(value) for value in values}) == len(values)


def recursive(data):
    return recursive, LIST, SET


LIST: list = [1]
LIST.append(LIST)
SET = {recursive}


def even(number):
    return number == 0 or odd(number - 1)


def odd(number):
    return number != 0 and even(number - 1)


def test_values_that_hold_themselves_have_an_end():
    assert identity_of(recursive) == identity_of(recursive)
    assert identity_of(even) == identity_of(even) != identity_of(odd)


def test_the_order_of_sets_and_dicts_does_not_count():
    assert identity_of({"a": 1, "b": 2}) == identity_of({"b": 2, "a": 1}) != identity_of({"a": 2, "b": 1})
    assert identity_of({8, 16}) == identity_of({16, 8})
    assert identity_of(a=1, b=2) == identity_of(b=2, a=1) != identity_of(a=2, b=1)


def test_one_object_for_equal_values_is_as_good_as_two():
    """Whether Python keeps one depends on where the values are written."""
    assert identity_of((one := (1, 2)), one) == identity_of((1, 2), tuple(range(1, 3)))


def ran(text, name="f"):
    """What `name` is after a cell with this text."""
    file = f"<cell {abs(hash(text))}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names = {"__name__": "__main__"}
    exec(compile(text, file, "exec"), names)
    return names[name]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("f = lambda x: x; g = lambda x: x + 1", "g = lambda x: x; f = lambda x: x + 1"),
        ("f, g = lambda x: (lambda: x), lambda x: x", "g, f = lambda x: (lambda: x), lambda x: x"),
        ("f = (lambda x: lambda: x)(1)", "f = (lambda x: lambda: x)(2)"),
        ("A = 1\ndef f(): return [A for _ in 'ab']", "A = 2\ndef f(): return [A for _ in 'ab']"),
        ("A = 1\ndef f():\n    class B:\n        a = A", "A = 2\ndef f():\n    class B:\n        a = A"),
        ("def f(x, *, by=1): return x", "def f(x, *, by=2): return x"),
        ("V = 1\ndef f(x=V): return x", "V = 2\ndef f(x=V): return x"),
        ("def f(): return f.rate\nf.rate = 1", "def f(): return f.rate\nf.rate = 2"),
        ("import functools as t\ndef g(x): return x\nf = t.partial(g, 1)",
         "import functools as t\ndef g(x): return -x\nf = t.partial(g, 1)"),
        ("import functools as t\n@t.cache\ndef f(x): return x", "import functools as t\n@t.cache\ndef f(x): return -x"),
        ("import contextlib as t\n@t.contextmanager\ndef f(): yield 1",
         "import contextlib as t\n@t.contextmanager\ndef f(): yield 2"),
        ("import functools, math\n@functools.wraps(math.floor)\ndef f(x): return x",
         "import functools, math\n@functools.wraps(math.floor)\ndef f(x): return -x"),
        ("import operator as o\nf = o.methodcaller", "import operator as o\nf = o.itemgetter"),
        ("class B: a = 1\nclass f(B): pass", "class B: a = 2\nclass f(B): pass"),
        ("class M(type): a = 1\nclass f(metaclass=M): pass", "class M(type): a = 2\nclass f(metaclass=M): pass"),
        ("class f:\n    @property\n    def a(self): pass\n    @a.deleter\n    def a(self): pass",
         "class f:\n    @property\n    def a(self): pass\n    @a.deleter\n    def a(self): return 1"),
        ("class B:\n    @classmethod\n    def m(cls): return 1\nf = B.m",
         "class B:\n    @classmethod\n    def m(cls): return 2\nf = B.m"),
        ("import enum\nclass E(enum.Enum): A = [1]\nf = E.A", "import enum\nclass E(enum.Enum): A = [2]\nf = E.A"),
        ("import typing\nclass f(typing.NamedTuple):\n    a: int\n    def b(self): return 1",
         "import typing\nclass f(typing.NamedTuple):\n    a: int\n    def b(self): return 2"),
        ("import collections as c\nP = c.namedtuple('P', 'a b')\nf = P(1, 2)",
         "import collections as c\nP = c.namedtuple('P', 'b a')\nf = P(1, 2)"),
    ],
)  # fmt: skip
def test_what_does_something_else_is_something_else(text, other):
    assert identity_of(ran(text)) == identity_of(ran(text)) != identity_of(ran(other))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("def f(x):\n    return x", "# a comment\n\ndef f(x):  # another\n\n  return x"),
        ("def f(x):\n    return x", "if True:\n        def f(x):\n                return x"),
        ("f = lambda x: x", "y, f = 1, (lambda x: x)"),
        ("class f:\n    a: int = 1", "class f:\n    a: 'int | None' = 1"),
        ("log = print\nimport keras\ndef f():\n    log = 1\n    return lambda: log",
         "import threading\nlog = threading.Lock()\ndef f():\n    log = 1\n    return lambda: log"),
    ],
)  # fmt: skip
def test_what_does_the_same_is_the_same(text, other):
    assert identity_of(ran(text)) == identity_of(ran(other))


def test_a_module_of_the_users_counts_with_what_is_used_of_it(monkeypatch, tmp_path):
    beside = types.ModuleType("beside")
    beside.__file__ = str(tmp_path / "beside.py")
    beside.used, beside.lock = 1, object()
    monkeypatch.setitem(sys.modules, "beside", beside)
    text = "import beside\ndef f(): return [beside.used for _ in 'a']"
    first = identity_of(ran(text))
    beside.other = 1
    assert identity_of(ran(text)) == first
    beside.used = 2
    assert identity_of(ran(text)) != first
    with pytest.raises(UnknownValueError, match=r"^beside\.lock \(in f\) is an object"):
        identity_of(ran(text.replace("used", "lock")))
    with pytest.raises(UnknownValueError, match=r"^beside \(in f\) is a module"):
        identity_of(ran("import beside\ndef f(): return beside"))


@pytest.mark.parametrize(
    "value",
    [np.ma.masked_array([1, 2], [True, False]), np.vectorize(even), collections.OrderedDict(a=1), np.array([object()])],
)
def test_objects_of_installed_classes_are_refused(value):
    """Their values are not in the class's name."""
    with pytest.raises(UnknownValueError, match="which cannot be recognised"):
        identity_of(value)


def test_a_function_without_source_is_refused():
    names: dict = {"__name__": "__main__"}
    exec("def build(data): return 1", names)
    with pytest.raises(UnknownValueError, match=r"^build has no source text; define it in a notebook cell"):
        source_of(names["build"])


def test_sources_have_no_indentation():
    def inner(data):
        return data

    assert source_of(inner) == "def inner(data):\n    return data"
    assert Path(__file__).read_text().count(source_of(inner)) == 0


def test_a_class_that_was_copied_is_the_same_class():
    class Copied:
        size = 1

    before = identity_of(Copied)
    copy.copy(Copied())  # Python notes the slots in the class
    assert "__slotnames__" in vars(Copied) and identity_of(Copied) == before
