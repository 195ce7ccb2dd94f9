"""Users' own functions, named as `package.module:function` or `path/to/file.py:function`."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hdfs_io import filesystem
from sparksplit.errors import SparksplitError, UsageError


class FunctionError(UsageError):
    """The named function cannot be had; the text has neither file nor key of the configuration."""


def split_name(name: str) -> tuple[str, str]:
    """(module or file, function). Raises FunctionError where `name` has not this form."""
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function.isidentifier():
        raise FunctionError(f"must be package.module:function or path/to/file.py:function (is {name!r})")
    return place, function


def source_of(name: str) -> str | None:
    """The source text of a function in a file, to be shipped to the nodes; None for one in a package.

    Checks without running anything that the function exists. Raises FunctionError.
    """
    place, function = split_name(name)
    if place.endswith(".py"):
        try:
            text = filesystem.read_bytes(place).decode()
        except (SparksplitError, UnicodeDecodeError) as error:
            raise FunctionError(str(error)) from None
        _check(text, place, function)
        return text
    try:
        spec = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise FunctionError(f"there is no module {place!r}")
    if spec.origin is not None and spec.origin.endswith(".py") and Path(spec.origin).is_file():
        _check(Path(spec.origin).read_text(encoding="utf-8"), place, function)
    return None


def load(name: str, source: str | None) -> Callable[..., Any]:
    """The function itself; `source` is what `source_of` gave. Raises FunctionError, also where its module fails."""
    place, function = split_name(name)
    try:
        if source is None:
            module = importlib.import_module(place)
        else:
            module_name = f"sparksplit_user_{Path(place).stem}"
            spec = importlib.util.spec_from_loader(module_name, loader=None)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            exec(compile(source, place, "exec"), module.__dict__)
    except Exception as error:
        raise FunctionError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise FunctionError(f"{place} has no function {function!r}")
    return found  # type: ignore[no-any-return]


def _check(text: str, place: str, function: str) -> None:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise FunctionError(f"{place}:{error.lineno}: not valid Python: {error.msg}") from None
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    if function not in names:
        near = difflib.get_close_matches(function, names, n=1)
        raise FunctionError(f"{place} has no function {function!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
