"""Load the user's own functions by name: `package.module:function` or `path/to/file.py:function`."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from hdfs_io import filesystem
from sparksplit.base.errors import UsageError, did_you_mean


class FunctionError(UsageError):
    """The named function cannot be used. The caller adds the configuration file and the key to the text."""


def is_own(name: str) -> bool:
    """Whether `name` is a user's own function, not a part of sparksplit."""
    return ":" in name


def split_name(name: str) -> tuple[str, str]:
    """Return (module or file, function). Raise FunctionError if `name` does not have this form."""
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function.isidentifier():
        raise FunctionError(f"must be package.module:function or path/to/file.py:function (is {name!r})")
    return place, function


def source_of(name: str) -> str | None:
    """Return the source text of a function in a file, for shipping to the nodes. None for a function in a package.

    Check that the function exists, without running its code. Raise FunctionError if the function or its file cannot be
    found.
    """
    place, function = split_name(name)
    if place.endswith(".py"):
        try:
            text = filesystem.read_bytes(place).decode()
        except (UsageError, UnicodeDecodeError) as error:
            raise FunctionError(str(error)) from None
        _check(text, place, function)
        return text
    spec = spec_of(place)
    if spec is None:
        raise FunctionError(f"module {place!r} not found")
    if spec.origin is not None and spec.origin.endswith(".py") and Path(spec.origin).is_file():
        _check(Path(spec.origin).read_text(encoding="utf-8"), place, function)
    return None


def load(name: str, source: str | None) -> Callable[..., Any]:
    """Return the function. source: result of `source_of`. Raise FunctionError if the function is missing or its module
    fails.
    """
    place, function = split_name(name)
    try:
        if source is None:
            module = importlib.import_module(place)
        else:
            spec = importlib.util.spec_from_loader(_module_name(place), loader=None)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            exec(compile(source, place, "exec"), module.__dict__)
    except Exception as error:
        raise FunctionError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    loaded = getattr(module, function, None)
    if not callable(loaded):
        raise FunctionError(f"{place} has no function {function!r}")
    return loaded  # type: ignore[no-any-return]


def pickled_by_value(name: str) -> None:
    """Make Spark send the module of the function `name` to executors by value, because they cannot import it. Call
    `load` first.
    """
    from pyspark import cloudpickle

    module = sys.modules.get(_module_name(split_name(name)[0]))
    if module is not None:
        cloudpickle.register_pickle_by_value(module)


def spec_of(module: str) -> ModuleSpec | None:
    """Return the import spec of a module; None if there is no such module. Raise FunctionError if the search fails."""
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    except Exception as error:  # finding a module runs its parent packages
        raise FunctionError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error


def _module_name(file: str) -> str:
    return f"sparksplit_user_{Path(file).stem}"


def _check(text: str, place: str, function: str) -> None:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise FunctionError(f"{place}:{error.lineno}: not valid Python: {error.msg}") from None
    names = set(_names(tree.body))
    if names & {"*", "__getattr__"}:
        return  # only running the code shows which names these define
    if function not in names:
        raise FunctionError(f"{place} has no function {function!r}{did_you_mean(function, names)}")


def _names(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that these statements may define. `*` stands for all names of another module."""
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        # Targets of assignments, in any pattern.
        yield from (
            part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )
        for block in ("body", "orelse", "finalbody", "handlers"):
            for inner in getattr(node, block, []):
                yield from _names(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])
