"""The identity of a callback that changes training: the source of its methods, and its plain values.

The same call in another process has the same identity, and so finds its finished run. A value whose identity is not
certain is refused by its name.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import json
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from sparksplit.base.records import Json
from sparksplit.training.callbacks.own import KEYS, keras_name

_NO_PART = ("_model", "params", "model")
"""Attributes that Keras sets on a callback."""
_OURS = ("sparksplit", "hdfs_io")


class NotHashed(ValueError):
    """A value that cannot be part of the identity. The text names it."""


def identity(callback: Any) -> Json:
    """Return the callback's identity as JSON-able values. Raise NotHashed if a value of it cannot be part of it."""
    values, kind = {key: value for key, value in vars(callback).items() if key not in _NO_PART}, type(callback)
    own = keras_name(callback)
    if own in KEYS:
        values = {key: getattr(callback, key) for key in KEYS[own]}
    reader = _Reader()
    of_class = reader.value(kind, "its class")
    return {"class": of_class, "values": {key: reader.value(each, f"its {key}") for key, each in values.items()}}


def is_installed(module: str) -> bool:
    """Return whether a module is Python's, an installed package's or sparksplit's, so that its name identifies it and
    other processes can import it. A module of the user's is none of these."""
    if module == "__main__":
        return False
    if module.partition(".")[0] in (*_OURS, *sys.stdlib_module_names):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module in sys.modules
    parts = PurePath(file).parts
    return "site-packages" in parts or "dist-packages" in parts or file.startswith(sysconfig.get_path("stdlib"))


class _Reader:
    """Turns values into JSON. It turns each function and class only once, because they may name each other."""

    def __init__(self) -> None:
        self._seen: dict[int, str] = {}

    def value(self, value: Any, what: str) -> Json:
        """Return the identity of `value`. what: its name in the error."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._several(value, what)
        if isinstance(value, bytes | PurePath):
            return {type(value).__name__: repr(value)}
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return {"array": [value.dtype.str, list(value.shape), content]}
        return self._code(value, what)

    def _several(self, values: Any, what: str) -> Json:
        if isinstance(values, list | tuple):
            return [self.value(each, what) for each in values]
        if isinstance(values, dict):
            pairs = [[self.value(key, what), self.value(each, f"{what}[{key!r}]")] for key, each in values.items()]
            return {"dict": sorted(pairs, key=json.dumps)}
        return {"set": sorted((self.value(each, what) for each in values), key=json.dumps)}

    def _code(self, value: Any, what: str) -> Json:
        """Return the identity of a module, class or function."""
        if isinstance(value, ModuleType):
            return {"module": value.__name__}
        if isinstance(value, MethodType):
            return [self.value(value.__func__, what), self.value(value.__self__, f"the object of {what}")]
        if not isinstance(value, type | FunctionType | BuiltinFunctionType):
            raise NotHashed(f"{what} is a {type(value).__name__}")
        name = f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, BuiltinFunctionType) or is_installed(value.__module__):
            return {"name": name}
        if id(value) in self._seen:
            return {"again": self._seen[id(value)]}
        self._seen[id(value)] = value.__qualname__
        return self._class(value) if isinstance(value, type) else self._function(value)

    def _class(self, kind: type) -> Json:
        members: dict[str, Json] = {}
        for name, each in vars(kind).items():
            member = each.__func__ if isinstance(each, staticmethod | classmethod) else each
            if isinstance(member, property):
                members[name] = [self.value(part, name) for part in (member.fget, member.fset) if part is not None]
            elif isinstance(member, FunctionType) or not name.startswith("__"):
                members[name] = self.value(member, f"{kind.__name__}.{name}")
        bases = [self.value(base, f"the base class of {kind.__name__}") for base in kind.__bases__]
        return {"class": kind.__qualname__, "bases": bases, "members": members}

    def _function(self, function: FunctionType) -> Json:
        name, code = function.__qualname__, function.__code__
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            raise NotHashed(f"the source of {name} is not known; define it in a file or a notebook cell") from None
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        used = {free: cell.cell_contents for free, cell in cells}
        known = function.__globals__
        used |= {each: known[each] for each in sorted(set(_globals(code))) if each in known}
        return {
            "source": source,
            "uses": {each: self.value(value, f"{each} in {name}") for each, value in used.items()},
            "defaults": self.value([function.__defaults__, function.__kwdefaults__], f"a default of {name}"),
        }


def _globals(code: CodeType) -> Iterator[str]:
    """Yield the names of the globals that the code reads, also within its inner functions."""
    yield from (str(each.argval) for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)
