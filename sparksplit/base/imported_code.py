"""The user's own modules that code imports inside a function, as data: their names and their texts.

Nothing is imported for this. A module that a function has as a global is described by `code_identity` instead.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from sparksplit.base.pickles import is_users_file


def imported(text: str, package: str | None) -> list[list[str]]:
    """Return [module, hash of its text] of each of the user's own modules that code imports, directly or through other
    modules, in order of name. Raise OSError if a text cannot be read.

    text: the code. package: the package that its relative imports begin from; None without one.
    """
    found: dict[str, str] = {}
    _follow(text, package, found)
    return [[name, content] for name, content in sorted(found.items())]


def _follow(text: str, package: str | None, found: dict[str, str]) -> None:
    try:
        names = {*_names(ast.parse(text), package)}
    except SyntaxError:  # it says so when it runs
        return
    for name in sorted(names - found.keys()):
        file, loader = _found(name)
        if file is None or not is_users_file(name, file):
            continue
        content = loader.get_data(str(file))
        found[name] = hashlib.sha256(content).hexdigest()
        _follow(
            content.decode(errors="replace"),
            name if file.name == "__init__.py" else name.rpartition(".")[0],
            found,
        )


def _names(tree: ast.AST, package: str | None) -> Iterator[str]:
    """Yield each module that may be imported, with the packages that hold it. A name that is imported from a module may
    be a module too."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            try:
                module = resolve_name(module, package)
            except ImportError:  # a relative import outside a package, which fails when it runs
                continue
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _found(name: str) -> tuple[Path | None, Any]:
    """Return (the file of a module's text, the loader that reads it, also from a zip archive); None without a text."""
    module = sys.modules.get(name)
    known, loader = (getattr(module, key, None) for key in ("__file__", "__loader__"))
    if isinstance(known, str) and hasattr(loader, "get_data"):
        return Path(known), loader
    spec: ModuleSpec | None = None
    place: list[str] | None = None
    for end in range(1, name.count(".") + 2):
        spec = PathFinder.find_spec(".".join(name.split(".")[:end]), place)
        if spec is None:
            return None, None
        place = [*(spec.submodule_search_locations or [])]
    if spec is None or spec.origin is None or not hasattr(spec.loader, "get_data"):
        return None, None
    return (Path(spec.origin) if spec.origin.endswith(".py") else None), spec.loader
