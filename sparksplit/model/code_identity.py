"""What a user's function is, as data: its source, and the values that it uses from outside.

A pickle of one function differs from session to session. This description does not, so that the same cell in a new
kernel finds its finished run.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from sparksplit.base.config import digest
from sparksplit.base.pickles import is_users

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_OF_CLASSES = frozenset(
    ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__")
)
"""Attributes of every class, which say nothing of what the class does."""


class UnknownValueError(ValueError):
    """A function uses a value that has no description which stays the same in another session."""


def identity_of(*values: Any) -> str:
    """Return 16 hexadecimal digits: the digest of functions, classes and plain values, with all values that they use.

    Plain values are numbers, texts, bytes, NumPy arrays, and lists, tuples, sets and mappings of plain values. Modules
    and installed functions and classes count by their names.

    Raise UnknownValueError for any other value. The message names the variable and its type.
    """
    described = _Description()
    return digest([described.of(value, _called(value)) for value in values])


def source_of(function: Any) -> str:
    """Return the source of a function or a lambda, without its indentation.

    Raise UnknownValueError if Python does not have the source, as of a function typed into `python -c`.
    """
    try:
        text = inspect.getsource(function.__code__)
    except (OSError, TypeError):
        raise UnknownValueError(
            f"{_called(function)} has no source text; define it in a notebook cell or in a file"
        ) from None
    return textwrap.dedent(text).rstrip()


class _Description:
    """Describes values. A value that has been described already is described by its number."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Any]] = {}

    def of(self, value: Any, where: str) -> Any:
        """Return JSON-able data. where: the variable's name, for errors."""
        if isinstance(value, Enum):
            return ["enum", self.of(type(value), where), value.name]
        if isinstance(value, _PLAIN):
            return [type(value).__name__, repr(value)]
        if isinstance(value, ModuleType):
            return ["module", value.__name__]
        if id(value) in self._known:
            return ["again", self._known[id(value)][0]]
        self._known[id(value)] = len(self._known), value  # the value is kept, so that no other value gets its id
        for describe in (self._data, self._wrapped, self._code):
            if (described := describe(value, where)) is not None:
                return described
        raise UnknownValueError(
            f"{where} is {_a(type(value).__name__)}, which cannot be recognised in another session. Use numbers, "
            "texts, NumPy arrays, functions and classes, or make the object inside the function"
        )

    def _data(self, value: Any, where: str) -> Any:
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            array = np.ascontiguousarray(value)
            return ["array", array.dtype.str, list(value.shape), hashlib.sha256(array.tobytes()).hexdigest()]
        if isinstance(value, np.dtype):
            return ["dtype", value.str]
        if isinstance(value, list | tuple):
            return [type(value).__name__, [self.of(each, f"{where}[{at}]") for at, each in enumerate(value)]]
        if isinstance(value, set | frozenset):
            return [type(value).__name__, sorted(digest(_Description().of(each, where)) for each in value)]
        if type(value) is dict:
            return ["dict", [[self.of(key, where), self.of(each, f"{where}[{key!r}]")] for key, each in value.items()]]
        return None

    def _wrapped(self, value: Any, where: str) -> Any:
        parts: tuple[Any, ...] = ()
        if isinstance(value, functools.partial):
            parts = value.func, list(value.args), value.keywords
        elif isinstance(value, staticmethod | classmethod):
            parts = (value.__func__,)
        elif isinstance(value, property):
            parts = value.fget, value.fset
        elif isinstance(value, MethodType):
            parts = value.__self__, value.__func__
        return [type(value).__name__, *(self.of(part, where) for part in parts)] if parts else None

    def _code(self, value: Any, where: str) -> Any:
        if isinstance(value, type) and is_users(value.__module__):
            return self._class(value)
        if isinstance(value, FunctionType) and is_users(value.__module__):
            return self._function(value)
        name = _importable(value)
        return None if name is None else ["name", name]

    def _function(self, function: FunctionType) -> Any:
        used = [[name, self.of(value, f"{name} (in {function.__name__})")] for name, value in _used(function)]
        defaults = self.of(function.__defaults__, f"a default of {function.__name__}")
        named = self.of(function.__kwdefaults__, f"a default of {function.__name__}")
        return ["function", source_of(function), defaults, named, used]

    def _class(self, kind: type) -> Any:
        parts = [
            [name, self.of(value, f"{kind.__name__}.{name}")]
            for name, value in vars(kind).items()
            if name not in _OF_CLASSES
        ]
        bases = [self.of(base, f"a base of {kind.__name__}") for base in kind.__bases__]
        return ["class", kind.__name__, bases, parts]


def _used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of what a function uses from outside: its closure and its globals, in order of name.

    A name without a value is left out: it may be set later, or the function fails when it is called.
    """
    found: dict[str, Any] = {}
    for name in sorted(set(_globals_of(function.__code__))):
        if name in function.__globals__:
            found[name] = function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # the cell is empty
            continue
    yield from sorted(found.items(), key=lambda item: item[0])


def _globals_of(code: CodeType) -> Iterator[str]:
    yield from (str(each.argval) for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


def _importable(value: Any) -> str | None:
    """Return the name under which other processes import an installed function, class or similar; None if there is
    none."""
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
        return f"{value.__self__.__name__}:{value.__name__}"
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    is_code = isinstance(value, type | FunctionType | np.ufunc) or (callable(value) and "<locals>" not in str(name))
    if not is_code or not isinstance(module, str) or not isinstance(name, str) or is_users(module):
        return None
    return f"{module}:{name}"


def _called(value: Any) -> str:
    return str(getattr(value, "__name__", type(value).__name__))


def _a(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
