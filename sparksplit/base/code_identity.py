"""What a user's function or class is, as data: its source, and the values that it uses from outside.

A pickle of one function differs from session to session. This description does not, so that the same cell in a new
kernel finds its finished run. Whatever may change what the code does is in the description, or is refused by its name.
"""

from __future__ import annotations

import ast
import collections
import dis
import functools
import hashlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from sparksplit.base.config import digest
from sparksplit.base.imported_code import imported
from sparksplit.base.pickles import is_users

_PLAIN = (bool, int, float, complex, str, bytes, range, type(None), type(...))
_DESCRIPTORS = (types.MethodDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType)
"""Attributes of classes that are written in C, and the slots of a user's class."""
_SAYS_NOTHING = frozenset(
    (
        *("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__"),
        *("__static_attributes__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        *("__type_params__", "__orig_bases__", "__parameters__", "_abc_impl", "__slotnames__"),
    )
)
"""Attributes of classes that say nothing of what the class does. `copy` and `pickle` add `__slotnames__`."""
_OF_NAMED_TUPLES = frozenset(vars(collections.namedtuple("_Any", ()))) - {"_fields", "_field_defaults"}
"""Attributes that Python makes for each named tuple."""
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


class UnknownValueError(ValueError):
    """A function uses a value that has no description which stays the same in another session."""


def identity_of(*values: Any, **named: Any) -> str:
    """Return 16 hexadecimal digits: the digest of functions, classes and plain values, with all values that they use.

    named: further values. Errors call them by these names, and their order does not count.
    Plain values are numbers, texts, bytes, paths, NumPy arrays, and lists, tuples, sets and dicts of plain values.
    Installed modules, functions and classes count by their names.

    Raise UnknownValueError for any other value. The message names the variable and its type.
    """
    described = _Description({})
    of_values = [described.of(value, _called(value)) for value in values]
    return digest([of_values, [[name, described.of(value, name)] for name, value in sorted(named.items())]])


def source_of(function: Any) -> str:
    """Return the source of a function or a lambda, without its indentation.

    Raise UnknownValueError if Python does not have the source, as of a function typed into `python -c`.
    """
    code = function.__code__
    try:
        if code.co_filename == "<string>":  # of exec, too: Python 3.13 would return the text of `python -c` for it
            raise OSError(code.co_filename)
        text = inspect.getsource(code)
    except (OSError, TypeError):
        raise UnknownValueError(
            f"{_called(function)} has no source text; define it in a notebook cell or in a file"
        ) from None
    return textwrap.dedent(text).rstrip()


class _Description:
    """Describes values. A value that has been described already is described by its number.

    known: by their ids, the numbers of these values, and the values, so that no other value gets the same id.
    """

    def __init__(self, known: Mapping[int, tuple[int, Any]]) -> None:
        self._known = dict(known)

    def of(self, value: Any, where: str) -> Any:
        """Return JSON-able data. where: the variable's name, for errors."""
        if type(value) in _PLAIN:
            return [type(value).__name__, repr(value)]
        # Python may keep one object for equal values that cannot change. So these have no numbers.
        if not isinstance(value, tuple | frozenset | np.generic | np.dtype | Enum):
            if id(value) in self._known:
                return ["again", self._known[id(value)][0]]
            self._known[id(value)] = len(self._known), value
        for describe in (self._data, self._several, self._wrapped, self._code):
            if (described := describe(value, where)) is not None:
                return described
        raise UnknownValueError(
            f"{where} is {_a(type(value).__name__)}, which cannot be recognised in another session. Use numbers, "
            "texts, NumPy arrays, functions and classes, or make the object inside the function"
        )

    def _data(self, value: Any, where: str) -> Any:
        if isinstance(value, Enum):
            return ["enum", self.of(type(value), where), value.name, self.of(value.value, where)]
        if type(value) in (np.ndarray, np.memmap) or isinstance(value, np.generic):
            if value.dtype.hasobject:
                return None
            content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            kind = "scalar" if isinstance(value, np.generic) else "array"
            return [kind, self.of(value.dtype, where), list(value.shape), content]
        if isinstance(value, np.dtype):
            return ["dtype", value.str, str(value)]
        if isinstance(value, PurePath):
            return ["path", str(value)]
        return None

    def _several(self, value: Any, where: str) -> Any:
        if type(value) in (list, tuple) or _is_named_tuple(type(value)):
            kind = type(value).__name__ if type(value) in (list, tuple) else self.of(type(value), where)
            return [kind, [self.of(each, f"{where}[{at}]") for at, each in enumerate(value)]]
        if type(value) in (set, frozenset):
            return [type(value).__name__, sorted(self._alone(each, where) for each in value)]
        if type(value) is dict:
            # The order may come from a set, which has another order in each session.
            items = sorted(value.items(), key=lambda item: self._alone(item[0], where))
            return ["dict", [[self.of(key, where), self.of(each, f"{where}[{key!r}]")] for key, each in items]]
        return None

    def _alone(self, value: Any, where: str) -> str:
        """Return a digest that does not depend on values beside this one, nor changes their numbers."""
        return digest(_Description(self._known).of(value, where))

    def _wrapped(self, value: Any, where: str) -> Any:
        parts: tuple[Any, ...] = ()
        if type(value) in (functools.partial, functools.partialmethod):
            parts = value.func, list(value.args), dict(value.keywords)
        elif isinstance(value, staticmethod | classmethod | functools._lru_cache_wrapper):
            parts = (value.__wrapped__,)
        elif type(value) is functools.cached_property:
            parts = (value.func,)
        elif type(value) is property:
            parts = value.fget, value.fset, value.fdel
        elif isinstance(value, MethodType):
            parts = value.__self__, value.__func__
        elif isinstance(value, _DESCRIPTORS):
            parts = value.__objclass__, value.__name__
        elif isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, type):
            parts = value.__self__, value.__name__
        return [type(value).__name__, *(self.of(part, where) for part in parts)] if parts else None

    def _code(self, value: Any, where: str) -> Any:
        if isinstance(value, ModuleType):
            return None if _is_users_module(value) else ["module", value.__name__]
        if (name := _importable(value)) is not None:
            return ["name", name]
        if isinstance(value, type):
            return self._class(value)
        return self._function(value) if isinstance(value, FunctionType) else None

    def _function(self, function: FunctionType) -> Any:
        name = function.__name__
        used = [[each, self.of(value, f"{each} (in {name})")] for each, value in _used(function)]
        defaults = self.of([function.__defaults__, function.__kwdefaults__], f"a default of {name}")
        own = {key: value for key, value in vars(function).items() if key != "__wrapped__"}
        text = _text_of(function)
        try:
            modules = imported(text, function.__globals__.get("__package__"))
        except (OSError, ImportError) as error:  # the latter from a zip file that has changed since its import
            raise UnknownValueError(f"{name} imports a module whose text cannot be read: {error}") from error
        return ["function", text, defaults, used, self.of(own, name), *([modules] if modules else [])]

    def _class(self, kind: type) -> Any:
        skipped = _SAYS_NOTHING | (_OF_NAMED_TUPLES if _is_named_tuple(kind) else frozenset())
        parts = [
            [name, self.of(value, f"{kind.__name__}.{name}")]
            for name, value in vars(kind).items()
            if name not in skipped and not isinstance(value, collections._tuplegetter)  # type: ignore[attr-defined]
        ]
        bases = [self.of(base, f"a base of {kind.__name__}") for base in (type(kind), *kind.__bases__)]
        return ["class", kind.__name__, bases, parts]


def _used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of what a function uses from outside: its closure and its globals, in order of name, and
    instead of a module of the user's what the function uses of it.

    A name without a value is left out: it may be set later, or the function fails when it is called. The globals of
    installed code are left out too: the name of its module says what they are.
    """
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the cell is empty
            cells[name] = cell.cell_contents
    known = function.__globals__ if is_users(function.__globals__.get("__name__")) else {}
    # A function in the closure may use a cell that the code itself does not read.
    found = {name: value for name, value in cells.items() if not _is_users_module(value)}
    for operation, name, *attributes in _read(function.__code__):
        values = known if operation in _GLOBALS else cells
        if name not in values:
            continue
        value, place = values[name], name
        for attribute in attributes:
            if not (_is_users_module(value) and hasattr(value, attribute)):
                break
            value, place = getattr(value, attribute), f"{place}.{attribute}"
        found[place] = value
    yield from sorted(found.items(), key=lambda item: item[0])


def _read(code: CodeType) -> Iterator[list[str]]:
    """Yield [operation, name, attributes that are read from it ...] for each name that the code and its inner functions
    read from outside."""
    chain: list[str] = []
    for each in dis.get_instructions(code):
        if each.opname == "EXTENDED_ARG":  # the first part of the next instruction
            continue
        if chain and each.opname in _ATTRIBUTES:
            chain.append(str(each.argval))
            continue
        if chain:
            yield chain
        chain = [each.opname, str(each.argval)] if each.opname in _GLOBALS + _CELLS else []
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _read(inner)


def _text_of(function: FunctionType) -> str:
    """Return the function's source without comments, indentation, and what stands beside it on its lines.

    Raise UnknownValueError if Python does not have the source, or if it cannot tell which of several lambdas it is.
    """
    source, code = source_of(function), function.__code__
    try:
        tree = _parsed("".join(inspect.findsource(code)[0]))
    except SyntaxError:
        return source
    found = [node for node in ast.walk(tree) if _may_be(node, code)]
    if len(found) > 1:  # lambdas: the smallest that has all of the code is this one
        found = [node for node in found if isinstance(node, ast.Lambda) and _holds(node.body, code)]
        found.sort(key=lambda node: len(ast.unparse(node)))
        found = found[:1] if found and _columns(code) else []
    if not found:
        raise UnknownValueError(f"{_called(function)} cannot be told from others in its line; write it in its own line")
    return ast.unparse(found[0])


@functools.lru_cache(8)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _may_be(node: ast.AST, code: CodeType) -> bool:
    """Return whether the code may be the one of a node, by the node's name and first line."""
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != code.co_name:
        return False
    return min([node.lineno, *(one.lineno for one in node.decorator_list)]) == code.co_firstlineno


def _columns(code: CodeType) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the (line, column) of the begin and the end of each instruction that has both."""
    places = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
    return [((begin, left), (end, right)) for begin, end, left, right in places]  # type: ignore[misc]


def _holds(node: ast.expr, code: CodeType) -> bool:
    begin, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return all(begin <= first and last <= end for first, last in _columns(code))


def _importable(value: Any) -> str | None:
    """Return the name under which other processes import an installed function, class or similar; None if there is
    none."""
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
        return f"{value.__self__.__name__}:{value.__name__}"
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(name, str) or is_users(module):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    # Another object may have taken the name over, as functools.wraps does.
    return f"{module}:{name}" if found is value else None


def _is_users_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and is_users(value.__name__)


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and is_users(kind.__module__)


def _called(value: Any) -> str:
    return str(getattr(value, "__name__", type(value).__name__))


def _a(name: str) -> str:
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
